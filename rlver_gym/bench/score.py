"""From episodes to scores with intervals.

The unit of resampling is the persona, because dialogues with one person are alike.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.episode import Episode
from rlver_gym.io.interval import Interval, bootstrap


class Score(NamedTuple):
    """How one agent did.

    Emotions in points, rates in percent; failed dialogues count in `failed` alone.
    """

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


def score_agents(episodes: Sequence[Episode]) -> list[Score]:
    """One score an agent, the best first; those whose dialogues all failed come last, with a mean
    of nan.
    """
    by_agent: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_agent.setdefault(episode.agent, []).append(episode)
    finals = {agent: _persona_means(group) for agent, group in by_agent.items()}
    ranked = sorted(by_agent, key=lambda agent: (not finals[agent], -_mean(finals[agent])))
    return [_score(agent, by_agent[agent], finals, ranked[0]) for agent in ranked]


def count_failures(episodes: Iterable[Episode]) -> dict[str, int]:
    """Why dialogues failed, and how many did so: the most frequent first."""
    last = (
        episode.turns[-1].appraisal for episode in episodes if episode.outcome is Outcome.FAILED
    )
    return dict(
        Counter(reason.note for appraisal in last for reason in appraisal.reasons[:1]).most_common()
    )


def score_to_json(score: Score) -> dict[str, Any]:
    """Values for JSON, which knows no nan: None stands for it."""
    return {name: _without_nan(value) for name, value in score._asdict().items()}


def _without_nan(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and isnan(value) else value


def _score(
    agent: str, episodes: list[Episode], finals: dict[str, dict[str, float]], best: str
) -> Score:
    ended = drop_failed(episodes)
    needs = sorted({episode.need for episode in ended})
    return Score(
        agent=agent,
        final=bootstrap(np.array(list(finals[agent].values()))),
        content=_percent(ended, Outcome.CONTENT),
        left=_percent(ended, Outcome.LEFT),
        turns=sum(len(episode.turns) for episode in ended) / max(1, len(ended)),
        needs={
            need: _mean(_persona_means([episode for episode in ended if episode.need == need]))
            for need in needs
        },
        to_best=None if agent == best else compute_paired_difference(finals[agent], finals[best]),
        episodes=len(episodes),
        failed=len(episodes) - len(ended),
    )


def compute_paired_difference(ours: dict[str, float], theirs: dict[str, float]) -> Interval:
    """The mean of ours minus theirs over the personas in both, by persona."""
    return bootstrap(
        np.array([ours[persona] - theirs[persona] for persona in ours if persona in theirs])
    )


def persona_finals(episodes: Sequence[Episode], agent: str) -> dict[str, float]:
    """An agent's mean final emotion by persona."""
    return _persona_means([episode for episode in episodes if episode.agent == agent])


def _persona_means(episodes: Sequence[Episode]) -> dict[str, float]:
    finals: dict[str, list[int]] = {}
    for episode in drop_failed(episodes):
        finals.setdefault(episode.persona, []).append(episode.final)
    return {persona: sum(values) / len(values) for persona, values in sorted(finals.items())}


def drop_failed(episodes: Sequence[Episode]) -> list[Episode]:
    """Those that did not fail."""
    return [episode for episode in episodes if episode.outcome is not Outcome.FAILED]


def _percent(episodes: Sequence[Episode], outcome: Outcome) -> float:
    return 100 * sum(episode.outcome is outcome for episode in episodes) / max(1, len(episodes))


def _mean(finals: dict[str, float]) -> float:
    return sum(finals.values()) / len(finals) if finals else float("nan")
