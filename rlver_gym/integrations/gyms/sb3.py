"""Stable-Baselines3 and sb3-contrib on the strategy view."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlver_gym.core.library import library
from rlver_gym.environment.strategy_env import EveryNeed
from rlver_gym.integrations.gyms.discrete_policies import Algo, DiscretePolicy
from rlver_gym.util.errors import needs_extra

with needs_extra("sb3"):
    import torch
    from sb3_contrib import RecurrentPPO
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

GAMMA = 0.6
"""What a strategy does is felt at once; only what it makes the person tell pays later."""
DIALOGUES_AT_ONCE = 16
RECIPE: dict[str, Any] = {
    "n_steps": 64,
    "batch_size": 256,
    "n_epochs": 6,
    "learning_rate": 2e-3,
    "gamma": GAMMA,
    "gae_lambda": 0.9,
    "ent_coef": 0.003,
}
"""For both, beyond their defaults: chosen on train personas left out, never on test personas."""
RECURRENT: dict[str, Any] = {"lstm_hidden_size": 64}


class Point(NamedTuple):
    """A place on the learning curve."""

    steps: int
    """Turns of training so far."""
    emotion: float
    """Mean final emotion of the last hundred training dialogues, in points."""


class TrainedPolicy(NamedTuple):
    """A trained policy with the normalisation of what it sees."""

    model: PPO | RecurrentPPO
    normalize: VecNormalize
    curve: tuple[Point, ...]

    def make_policy(self, seed: int) -> DiscretePolicy:
        """The policy of one dialogue: always the best action; a recurrent one remembers."""
        state: tuple[NDArray[Any], ...] | None = None

        def choose(seen: NDArray[np.float32]) -> int:
            nonlocal state
            normal = cast(NDArray[np.float32], self.normalize.normalize_obs(seen))
            begins = np.array([state is None])
            action, state = self.model.predict(
                normal, state=state, episode_start=begins, deterministic=True
            )
            return int(action)

        return choose

    def save(self, folder: Path) -> None:
        """Write `model.zip` and `vecnormalize.pkl`, to be read by SB3's own `load`."""
        self.model.save(folder / "model.zip")
        self.normalize.save(str(folder / "vecnormalize.pkl"))


def train(
    algo: Algo, steps: int, seed: int = 0, on_progress: Callable[[int], object] = lambda steps: None
) -> TrainedPolicy:
    """Train on the train personas, each with any need, for at least `steps` turns; `on_progress`
    gets the number of turns so far. On one thread: networks this small gain nothing from more.
    """
    torch.set_num_threads(1)
    people = library().ids("train")
    dialogues = make_vec_env(
        lambda: EveryNeed(gym.make("RLVER-Strategy-v0", info="privileged"), personas=people),
        n_envs=DIALOGUES_AT_ONCE,
        seed=seed,
        monitor_kwargs={"info_keywords": ("emotion",)},
    )
    env = VecNormalize(dialogues, gamma=GAMMA, clip_obs=5.0)
    known: dict[str, Any] = {"env": env, "seed": seed, "device": "cpu", **RECIPE}
    if algo == "ppo":
        model = PPO("MlpPolicy", **known)
    else:
        model = RecurrentPPO("MlpLstmPolicy", policy_kwargs=RECURRENT, **known)
    watch = _LearningCurve(on_progress)
    model.learn(steps, callback=watch)
    env.training = False
    return TrainedPolicy(model, env, tuple(watch.curve))


class _LearningCurve(BaseCallback):
    """Records the learning curve and reports progress."""

    def __init__(self, on_progress: Callable[[int], object]) -> None:
        super().__init__()
        self.on_progress = on_progress
        self.curve: list[Point] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.on_progress(self.num_timesteps)
        if ended := self.model.ep_info_buffer:
            emotion = float(np.mean([one["emotion"] for one in ended]))
            self.curve.append(Point(self.num_timesteps, emotion))
