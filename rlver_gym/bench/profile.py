"""Which people teach: what a learner that compares dialogues with one person would see in a run."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, islice
from math import comb
from statistics import fmean, pstdev
from typing import NamedTuple

import numpy as np

from rlver_gym.environment.episode import Episode

GROUPS = (4, 8)
"""Dialogues with one person that a group-relative learner compares (GRPO)."""
SIGNAL = 1.0
"""Points of final emotion that a group must differ by to say anything."""
_MOST_GROUPS = 2_000
"""Of one size, looked at for a person; more are drawn."""


class PersonProfile(NamedTuple):
    """What one person's dialogues with one agent have to teach."""

    persona: str
    dialogues: int
    mean: float
    """Final emotion, 0 to 100."""
    spread: float
    """Standard deviation of the final emotion, in points."""
    silent: Mapping[int, float | None]
    """By size of the group, the share of groups that differ by less than `SIGNAL`; None where there
    are fewer dialogues than that.
    """
    regret: float
    """How far the mean lies below the best agent's with this person, in points; 0 for the best."""
    highest: int
    """The best dialogue with this person of any agent."""


def profile_training_signal(episodes: Iterable[Episode], agent: str) -> list[PersonProfile]:
    """Every person whom an agent talked to, the ones with the widest spread first.

    `regret` and `highest` are over all agents of the episodes.
    """
    finals: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for episode in episodes:
        finals[episode.persona][episode.agent].append(episode.final)
    found = [
        _profile_persona(persona, by_agent[agent], by_agent)
        for persona, by_agent in finals.items()
        if by_agent.get(agent)
    ]
    return sorted(found, key=lambda one: (-one.spread, one.persona))


def _profile_persona(
    persona: str, own: Sequence[int], by_agent: Mapping[str, Sequence[int]]
) -> PersonProfile:
    best = max(fmean(finals) for finals in by_agent.values() if finals)
    return PersonProfile(
        persona,
        len(own),
        fmean(own),
        pstdev(own),
        {size: _share_of_groups_without_signal(own, size) for size in GROUPS},
        best - fmean(own),
        max(final for finals in by_agent.values() for final in finals),
    )


def _share_of_groups_without_signal(finals: Sequence[int], size: int) -> float | None:
    if len(finals) < size:
        return None
    groups: Iterable[Sequence[int]] = combinations(finals, size)
    if comb(len(finals), size) > _MOST_GROUPS:
        rng = np.random.default_rng(0)
        drawn = (rng.choice(finals, size, replace=False).tolist() for _ in range(_MOST_GROUPS))
        groups = islice(drawn, _MOST_GROUPS)
    return fmean(max(group) - min(group) < SIGNAL for group in groups)
