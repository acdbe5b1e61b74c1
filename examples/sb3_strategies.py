"""Stable-Baselines3 on the strategy view: PPO or recurrent PPO learns with the train personas which
of twelve strategies to choose, and is compared with random choice and each fixed strategy on test
personas, whom it has never met.

python examples/sb3_strategies.py [--algo recurrent-ppo] [--steps 61440] [--seed 0] [--seeds 3]
(needs: pip install '.[sb3]')
"""

import argparse
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from sb3_contrib import RecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from rlver_gym.agents.strategies import STRATEGIES
from rlver_gym.bench.score import score_agents
from rlver_gym.bench.table import build_score_rows
from rlver_gym.environment.episode import Episode
from rlver_gym.environment.strategy_env import EveryNeed
from rlver_gym.library.personas import library
from rlver_gym.util.terminal import SafeConsole

DIALOGUES_AT_ONCE = 16
GAMMA = 0.6
"""What a strategy does is felt at once; only what it makes the person tell pays later."""
RECIPE: dict[str, Any] = {"n_steps": 64, "batch_size": 256, "n_epochs": 6, "learning_rate": 2e-3}
RECIPE |= {"gamma": GAMMA, "gae_lambda": 0.9, "ent_coef": 0.003}
"""Chosen on train personas left out, never on test personas."""
Policy = Callable[[np.ndarray], int]


def train(algo: str, steps: int, seed: int, callback: Any = None) -> tuple[Any, VecNormalize]:
    """The model, and the normalisation of what it sees. On one thread: networks this small gain
    nothing from more.
    """
    torch.set_num_threads(1)
    people = library().ids("train")
    dialogues = make_vec_env(
        # Any need with any story: else the 64 people are soon known by heart.
        lambda: EveryNeed(gym.make("rlver_gym:RLVER-Strategy-v0"), personas=people),
        n_envs=DIALOGUES_AT_ONCE,
        seed=seed,
    )
    env = VecNormalize(dialogues, gamma=GAMMA, clip_obs=5.0)
    known: dict[str, Any] = {"env": env, "seed": seed, "device": "cpu", **RECIPE}
    if algo == "ppo":
        model = PPO("MlpPolicy", **known)
    else:
        model = RecurrentPPO("MlpLstmPolicy", policy_kwargs={"lstm_hidden_size": 64}, **known)
    model.learn(steps, callback=callback)
    env.training = False
    return model, env


def make_policy(model: Any, env: VecNormalize) -> Policy:
    """The policy of one dialogue: always the best action. A recurrent one remembers."""
    state = None

    def choose(seen: np.ndarray) -> int:
        nonlocal state
        begins = np.array([state is None])
        action, state = model.predict(
            env.normalize_obs(seen), state=state, episode_start=begins, deterministic=True
        )
        return int(action)

    return choose


def run_episodes(name: str, make_policy: Callable[[int], Policy], seeds: int) -> list[Episode]:
    """A dialogue with each test persona and seed 0, 1, …; the same for every policy."""
    env, episodes = gym.make("rlver_gym:RLVER-Strategy-v0", split="all"), []
    for persona in library().ids("test"):
        for seed in range(seeds):
            policy, over = make_policy(seed), False
            seen, _ = env.reset(seed=seed, options={"persona": persona})
            while not over:
                seen, _, terminated, truncated, _ = env.step(policy(seen))
                over = terminated or truncated
            episodes.append(Episode.of(env.get_wrapper_attr("session"), name))
    return episodes


def run_baselines(seeds: int) -> list[Episode]:
    """Dialogues of random choice, and of each strategy, always taken."""

    def choose_randomly(seed: int) -> Policy:
        rng = np.random.default_rng(seed)
        return lambda seen: int(rng.integers(len(STRATEGIES)))

    episodes = run_episodes("random", choose_randomly, seeds)
    for number, strategy in enumerate(STRATEGIES):
        episodes += run_episodes(
            strategy.name.lower(), lambda seed, always=number: lambda seen: always, seeds
        )
    return episodes


def main() -> None:
    parser = argparse.ArgumentParser(description="PPO on the strategy view.")
    parser.add_argument("--algo", choices=("ppo", "recurrent-ppo"), default="ppo")
    for name, default in (("steps", 61_440), ("seed", 0), ("seeds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    model, env = train(args.algo, args.steps, args.seed)
    episodes = run_episodes(args.algo, lambda seed: make_policy(model, env), args.seeds)
    scores = score_agents(episodes + run_baselines(args.seeds))
    title = f"RLVER-Strategy-v0, test personas, after {model.num_timesteps:,} turns of training"
    SafeConsole().print_table(build_score_rows(scores), title)


if __name__ == "__main__":
    main()
