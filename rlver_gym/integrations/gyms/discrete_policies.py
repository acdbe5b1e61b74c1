"""Policies that choose strategies by number, and episodes with them. Knows no learning library."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlver_gym.agents.strategies import STRATEGIES
from rlver_gym.bench.score import (
    Score,
    compute_paired_difference,
    compute_persona_finals,
    score_agents,
)
from rlver_gym.environment.episode import Episode
from rlver_gym.util.interval import Interval
from rlver_gym.util.json_text import to_plain

DiscretePolicy = Callable[[NDArray[np.float32]], int]
"""The action for an observation. One dialogue's: it may remember."""
PolicyFactory = Callable[[int], DiscretePolicy]
"""Makes the policy of one dialogue, from its seed."""


def make_fixed_policies() -> dict[str, PolicyFactory]:
    """What a learner has to beat: "random", and each strategy, always taken, by name."""

    def always(number: int) -> PolicyFactory:
        return lambda seed: lambda observation: number

    fixed = {one.name.lower(): always(number) for number, one in enumerate(STRATEGIES)}
    return {RANDOM: _random_policy, **fixed}


def _random_policy(seed: int) -> DiscretePolicy:
    rng = np.random.default_rng(seed)
    return lambda observation: int(rng.integers(len(STRATEGIES)))


def run_episodes(
    name: str, make_policy: PolicyFactory, personas: Sequence[str], seeds: int
) -> Iterator[Episode]:
    """One episode with each persona and seed 0, 1, …; the same for every policy."""
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


Algo = Literal["ppo", "recurrent-ppo"]
RANDOM = "random"


class PolicyEvaluation(NamedTuple):
    """Test dialogues of a learner and of everybody that it has to beat."""

    learner: str
    episodes: tuple[Episode, ...]
    scores: tuple[Score, ...]
    """The best first."""

    @property
    def best_fixed_strategy(self) -> str:
        """The best of them on the test people: a harder measure than one could ask for."""
        return next(
            score.agent for score in self.scores if score.agent not in (self.learner, RANDOM)
        )

    def mean_final(self, name: str) -> float:
        return next(score.final.mean for score in self.scores if score.agent == name)

    def difference_to(self, name: str) -> Interval:
        return compute_paired_difference(
            compute_persona_finals(self.episodes, self.learner),
            compute_persona_finals(self.episodes, name),
        )

    def to_dict(self) -> dict[str, Any]:
        minus = {name: self.difference_to(name) for name in (RANDOM, self.best_fixed_strategy)}
        return to_plain({"minus": minus, "scores": self.scores})


def evaluate_policy(
    learner: str,
    make_policy: PolicyFactory,
    personas: Sequence[str],
    seeds: int,
    on_progress: Callable[[int], object] = lambda dialogues: None,
) -> PolicyEvaluation:
    """Run dialogues of the learner, random choice and every fixed strategy with each persona;
    `on_progress` gets the number of dialogues so far.
    """
    episodes: list[Episode] = []
    for name, one in {learner: make_policy, **make_fixed_policies()}.items():
        for episode in run_episodes(name, one, personas, seeds):
            episodes.append(episode)
            on_progress(len(episodes))
    return PolicyEvaluation(learner, tuple(episodes), tuple(score_agents(episodes)))
