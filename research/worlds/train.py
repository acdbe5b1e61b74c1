"""PPO on the strategy view, trained in one world and tested in all: `python research/worlds/train.py
WORLD SEED OUT.json`, WORLD one of moderate, challenging, adaptive. Needs the extra sb3.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import rlver_gym  # noqa: F401
from rlver_gym.agents.strategies import STRATEGIES, Strategy
from rlver_gym.environment.adaptive import AdaptiveDifficulty
from rlver_gym.environment.strategy_env import EveryNeed, StrategyAction, TalkFeatures
from rlver_gym.library.personas import library
from rlver_gym.util.interval import bootstrap

sys.path.insert(0, "examples")

from sb3_strategies import DIALOGUES_AT_ONCE, GAMMA, RECIPE  # pyright: ignore[reportMissingImports]

TESTED = {
    "moderate": "RLVER-Empathy-v0",
    "challenging": "RLVER-Challenging-v0",
    "reserved": "RLVER-Reserved-v0",
    "adversarial": "RLVER-Adversarial-v0",
    "honest": "RLVER-Honest-v0",
}
STEPS = 61_440
SEEDS = 3


def make(world: str) -> gym.Env[Any, Any]:
    """One training environment."""
    card = TESTED.get(world, "RLVER-Empathy-v0")
    env: gym.Env[Any, Any] = gym.make(card, info="privileged")
    if world == "adaptive":
        env = AdaptiveDifficulty(env, step=0.02)
    return EveryNeed(TalkFeatures(StrategyAction(env)), personas=library().ids("train"))


def finals(card: str, choose: Callable[[Any, int], int]) -> Iterator[list[int]]:
    """By test person, the final emotion of each seed."""
    env = gym.make("RLVER-Strategy-v0", card=card, split="all")
    for persona in library().ids("test"):
        found = []
        for seed in range(SEEDS):
            seen, _ = env.reset(seed=seed, options={"persona": persona})
            over = False
            while not over:
                seen, _, terminated, truncated, _ = env.step(choose(seen, seed))
                over = terminated or truncated
            found.append(env.get_wrapper_attr("session").emotion)
        yield found


def main() -> None:
    """Train, test, write."""
    world, seed, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    dialogues = make_vec_env(lambda: make(world), n_envs=DIALOGUES_AT_ONCE, seed=seed)
    env = VecNormalize(dialogues, gamma=GAMMA, clip_obs=5.0)
    model = PPO("MlpPolicy", env, seed=seed, device="cpu", **RECIPE)
    model.learn(STEPS)
    env.training = False
    warming = (
        [one.get_wrapper_attr("warming") for one in cast(DummyVecEnv, dialogues).envs]
        if world == "adaptive"
        else []
    )

    def choose(seen: Any, _: int) -> int:
        return int(model.predict(env.normalize_obs(seen), deterministic=True)[0])

    fixed = STRATEGIES.index(Strategy.REFLECT_FEELING)
    found: dict[str, Any] = {"world": world, "seed": seed, "warming": warming}
    for name, card in TESTED.items():
        for who, policy in (("ppo", choose), ("reflect_feeling", lambda seen, _: fixed)):
            means = np.array([float(np.mean(one)) for one in finals(card, policy)])
            found[f"{who} in {name}"] = {**bootstrap(means)._asdict(), "people": means.tolist()}
    out.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print({name: one["mean"] for name, one in found.items() if isinstance(one, dict)})


if __name__ == "__main__":
    main()
