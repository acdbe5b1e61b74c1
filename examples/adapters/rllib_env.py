"""RLlib on the strategy view: what `PPOConfig().environment()` takes, and what a checkpoint does.
To be copied.

    register_env("strategy", make_strategy_env)
    config = (
        PPOConfig()
        .environment("strategy", env_config={"split": "train"})
        .env_runners(batch_mode="complete_episodes")
        .fault_tolerance(restart_failed_sub_environments=True)
        .callbacks(EmotionCallback)
    )

RLlib's env runners batch observations as arrays, so the text view is not for them.
"""

# pyright: reportGeneralTypeIssues=false

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

import rlver_gym  # noqa: F401  (registers the environments, in the processes of env runners too)
from rlver_gym.core.library import library
from rlver_gym.environment.env import make_for_loop
from rlver_gym.environment.strategy_env import EveryNeed
from rlver_gym.integrations.gyms.discrete_policies import DiscretePolicy, PolicyFactory
from rlver_gym.util.errors import CardError, TrainingError, needs_extra

with needs_extra("rllib"):
    import torch
    from ray.rllib.callbacks.callbacks import RLlibCallback
    from ray.rllib.core import (
        COMPONENT_LEARNER,
        COMPONENT_LEARNER_GROUP,
        COMPONENT_RL_MODULE,
        DEFAULT_MODULE_ID,
        Columns,
    )
    from ray.rllib.core.rl_module.rl_module import RLModule
    from ray.rllib.env.env_errors import StepFailedRecreateEnvError


STRATEGY_ENV = "RLVER-Strategy-v0"


class DropFailedEpisodes(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Raises RLlib's StepFailedRecreateEnvError when the user failed, so that the env runner throws
    the episode away and begins another one.

    Set `fault_tolerance(restart_failed_sub_environments=True)`: without it RLlib stops with the
    error. Turns that were handed over before the failure are not taken back, so let the env runners
    give `batch_mode="complete_episodes"`.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """`env` gives `info["valid"]`."""
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a dialogue. StepFailedRecreateEnvError when the user has no first words."""
        observation, info = self.env.reset(seed=seed, options=options)
        _require_valid(info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One turn. StepFailedRecreateEnvError when the user failed."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        _require_valid(info)
        return observation, reward, terminated, truncated, info


def _require_valid(info: Mapping[str, Any]) -> None:
    if not info["valid"]:
        raise StepFailedRecreateEnvError(
            "the user failed, so this episode is no score. Set"
            " fault_tolerance(restart_failed_sub_environments=True) to go on with another one."
        )


def make_strategy_env(env_config: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """The environment of an env runner; `register_env("strategy", make_strategy_env)`.

    `env_config` is what `gym.make("RLVER-Strategy-v0")` takes, and `every_need`: true to draw any
    of the eight hidden needs for a persona of the train split, which is to train on. `info` holds
    the emotion, for callbacks; the observation does not, unless the card shows it.

    CardError for `every_need` with other people, and for a key among the options; UnknownName for
    what does not exist.
    """
    options = dict(env_config)
    every_need = options.pop("every_need", False)
    if every_need and (options.get("persona") or options.get("split") not in (None, "train")):
        raise CardError(
            "every_need draws anybody of the train split. Leave persona and split out of"
            " env_config, or every_need."
        )
    env = make_for_loop(STRATEGY_ENV, **options)
    if every_need:
        env = EveryNeed(env, personas=library().ids("train"))
    return DropFailedEpisodes(env)


class EmotionCallback(RLlibCallback):
    """Reports `env_runners/emotion` in an algorithm's results: the mean final emotion of the last
    hundred episodes, in points, in [0, 100].
    """

    def on_episode_end(self, *, episode: Any, metrics_logger: Any = None, **context: Any) -> None:
        """What RLlib calls."""
        emotion = episode.get_infos(-1)["emotion"]
        metrics_logger.log_value("emotion", emotion, reduce="mean", window=100)


def load_policy(checkpoint: Path | str) -> PolicyFactory:
    """The policy of a checkpoint that `Algorithm.save_to_path` wrote: always the best action. For
    `discrete_policies.evaluate_policy`, which measures it beside those that do not learn.

    For modules without memory. A checkpoint holds pickles: load none that you do not trust.
    TrainingError when there is none.
    """
    folder = Path(checkpoint).absolute()
    parts = (COMPONENT_LEARNER_GROUP, COMPONENT_LEARNER, COMPONENT_RL_MODULE, DEFAULT_MODULE_ID)
    if not folder.joinpath(*parts).is_dir():
        raise TrainingError(
            f"{folder}: no checkpoint of an algorithm. Give the folder that save_to_path() wrote."
        )
    module = RLModule.from_checkpoint(folder.joinpath(*parts))

    def choose(observation: NDArray[np.float32]) -> int:
        with torch.no_grad():
            batch = {Columns.OBS: torch.from_numpy(observation).unsqueeze(0)}
            logits = module.forward_inference(batch)[Columns.ACTION_DIST_INPUTS]
        return int(logits.argmax())

    def make_policy(seed: int) -> DiscretePolicy:
        return choose

    return make_policy
