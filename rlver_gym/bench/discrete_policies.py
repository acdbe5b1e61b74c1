"""Who chooses strategies by number, and dialogues held with them: the benchmark of the strategy view. Knows no learning library."""

from collections.abc import Callable, Iterator, Sequence

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlver_gym.agents.strategies import STRATEGIES
from rlver_gym.environment.episode import Episode

Choose = Callable[[NDArray[np.float32]], int]
"""The action for what is seen now. One dialogue's: it may remember."""
Chooser = Callable[[int], Choose]
"""Makes the one who chooses in a dialogue, from its seed."""


def fixed_choosers() -> dict[str, Chooser]:
    """By name: "random", and each strategy as the one who does nothing else. What a learner has to beat."""
    always = {strategy.name.lower(): _always(number) for number, strategy in enumerate(STRATEGIES)}
    return {"random": _random, **always}


def _always(number: int) -> Chooser:
    return lambda seed: lambda seen: number


def _random(seed: int) -> Choose:
    rng = np.random.default_rng(seed)
    return lambda seen: int(rng.integers(len(STRATEGIES)))


def held(name: str, chooser: Chooser, personas: Sequence[str], seeds: int) -> Iterator[Episode]:
    """A dialogue with each persona and seed 0, 1, …; the same people in the same mood whoever chooses."""
    env = gym.make("RLVER-Strategy-v0", split="all")
    for persona in personas:
        for seed in range(seeds):
            choose = chooser(seed)
            seen, _ = env.reset(seed=seed, options={"persona": persona})
            over = False
            while not over:
                seen, _, terminated, truncated, _ = env.step(choose(seen))
                over = terminated or truncated
            yield Episode.of(env.get_wrapper_attr("session"), name)
