"""Policies that choose strategies by number, and episodes with them: the benchmark of the strategy view. Knows no learning library."""

from collections.abc import Callable, Iterator, Sequence

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlver_gym.agents.strategies import STRATEGIES
from rlver_gym.environment.episode import Episode

DiscretePolicy = Callable[[NDArray[np.float32]], int]
"""The action for an observation. One dialogue's: it may remember."""
PolicyFactory = Callable[[int], DiscretePolicy]
"""Makes the policy of one dialogue, from its seed."""


def make_fixed_policies() -> dict[str, PolicyFactory]:
    """By name: "random", and for each strategy the policy that always takes it. What a learner has to beat."""
    always = {strategy.name.lower(): _constant_policy(number) for number, strategy in enumerate(STRATEGIES)}
    return {"random": _random_policy, **always}


def _constant_policy(number: int) -> PolicyFactory:
    return lambda seed: lambda observation: number


def _random_policy(seed: int) -> DiscretePolicy:
    rng = np.random.default_rng(seed)
    return lambda observation: int(rng.integers(len(STRATEGIES)))


def run_episodes(name: str, make_policy: PolicyFactory, personas: Sequence[str], seeds: int) -> Iterator[Episode]:
    """One episode with each persona and seed 0, 1, …; the same personas and seeds for every policy."""
    env = gym.make("RLVER-Strategy-v0", split="all")
    for persona in personas:
        for seed in range(seeds):
            policy = make_policy(seed)
            observation, _ = env.reset(seed=seed, options={"persona": persona})
            over = False
            while not over:
                observation, _, terminated, truncated, _ = env.step(policy(observation))
                over = terminated or truncated
            yield Episode.of(env.get_wrapper_attr("session"), name)
