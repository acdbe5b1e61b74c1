"""From episodes to scores with intervals. The unit of resampling is the persona, because dialogues with one person are alike."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlver_gym.emotion import Outcome
from rlver_gym.episode import Episode

RESAMPLES = 10_000


class Interval(NamedTuple):
    """An estimate with its 95 % percentile bootstrap interval over personas."""

    mean: float
    low: float
    high: float


class Score(NamedTuple):
    """How one agent did. Emotions in points, rates in percent; failed dialogues count in `failed` alone."""

    agent: str
    final: Interval
    content: float
    left: float
    turns: float
    needs: dict[str, float]
    """Mean final emotion by hidden need."""
    to_best: Interval | None
    """Mean difference to the best agent over the personas both met; None for the best itself."""
    episodes: int
    failed: int


def scores(episodes: Sequence[Episode]) -> list[Score]:
    """One score an agent, the best first."""
    by_agent: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_agent.setdefault(episode.agent, []).append(episode)
    finals = {agent: _persona_means(group) for agent, group in by_agent.items()}
    ranked = sorted(by_agent, key=lambda agent: -_mean(finals[agent]))
    return [_score(agent, by_agent[agent], finals, ranked[0]) for agent in ranked]


def _score(agent: str, episodes: list[Episode], finals: dict[str, dict[str, float]], best: str) -> Score:
    valid = _valid(episodes)
    needs = sorted({episode.need for episode in valid})
    return Score(
        agent=agent,
        final=bootstrap(np.array(list(finals[agent].values()))),
        content=_percent(valid, Outcome.CONTENT),
        left=_percent(valid, Outcome.LEFT),
        turns=sum(len(episode.turns) for episode in valid) / max(1, len(valid)),
        needs={need: _mean(_persona_means([episode for episode in valid if episode.need == need])) for need in needs},
        to_best=None if agent == best else paired(finals[agent], finals[best]),
        episodes=len(episodes),
        failed=len(episodes) - len(valid),
    )


def paired(ours: dict[str, float], theirs: dict[str, float]) -> Interval:
    """The mean of ours minus theirs over the personas in both, by persona."""
    return bootstrap(np.array([ours[persona] - theirs[persona] for persona in ours if persona in theirs]))


def bootstrap(values: NDArray[np.float64]) -> Interval:
    """Mean and 95 % percentile interval of `values`, shape (personas,); the resampling is seeded, so equal values give equal intervals."""
    if not len(values):
        return Interval(float("nan"), float("nan"), float("nan"))
    rng = np.random.default_rng(0)
    means = values[rng.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(values.mean()), float(low), float(high))


def persona_finals(episodes: Sequence[Episode], agent: str) -> dict[str, float]:
    """An agent's mean final emotion by persona."""
    return _persona_means([episode for episode in episodes if episode.agent == agent])


def _persona_means(episodes: Sequence[Episode]) -> dict[str, float]:
    finals: dict[str, list[int]] = {}
    for episode in _valid(episodes):
        finals.setdefault(episode.persona, []).append(episode.final)
    return {persona: sum(values) / len(values) for persona, values in sorted(finals.items())}


def _valid(episodes: Sequence[Episode]) -> list[Episode]:
    return [episode for episode in episodes if episode.outcome is not Outcome.FAILED]


def _percent(episodes: Sequence[Episode], outcome: Outcome) -> float:
    return 100 * sum(episode.outcome is outcome for episode in episodes) / max(1, len(episodes))


def _mean(finals: dict[str, float]) -> float:
    return sum(finals.values()) / len(finals) if finals else float("nan")
