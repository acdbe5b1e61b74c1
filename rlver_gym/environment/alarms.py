"""Which agents of some episodes are suspicious, and why: after a run, or while learning."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.agents import PRIVILEGED_AGENTS
from rlver_gym.agents.baselines import BASELINES
from rlver_gym.environment.copies import NearCopies, find_near_copies
from rlver_gym.environment.episode import Episode
from rlver_gym.users.embedded import english
from rlver_gym.users.embedded.hear import Heard, hear
from rlver_gym.util.json_text import to_plain

FEWEST_REPLIES = 8
"""With fewer there are no habits to see."""
MOST_TO_OTHERS = 25.0
"""Percent of replies that are near-copies of what was said to people with other stories. Nine chat
models (8,485 replies in SAGE's published dialogues): 0.3 at most; listener, whose sentences have
fixed frames: 10; adaptive, which listens in stock phrases until a need shows: 23 to 37; stock
phrases: 100.
"""
MOST_COPIES = 50.0
"""The same with repetitions within a dialogue, which chat models fall into: up to 32 percent."""


class Alert(NamedTuple):
    """A reason to look closer at an agent."""

    agent: str
    expected: bool
    """Whether it is a shipped baseline, which is meant to be like that."""
    says: str
    """What was found, against which limit; to be read after the agent's name."""
    evidence: NearCopies


class AnomalyReport(NamedTuple):
    """All that is to be said about the agents of a run beside their scores."""

    alarms: list[Alert]
    privileged: list[str]
    """Agents that were told what no agent can know."""

    def to_dict(self) -> dict[str, Any]:
        return to_plain(self)


def check_episodes(episodes: Iterable[Episode]) -> AnomalyReport:
    episodes = list(episodes)
    agents = dict.fromkeys(episode.agent for episode in episodes)
    privileged = [agent for agent in agents if strip_run_suffix(agent) in PRIVILEGED_AGENTS]
    return AnomalyReport(find_alerts(episodes), privileged)


def find_alerts(episodes: Iterable[Episode]) -> list[Alert]:
    groups: dict[tuple[str, ...], list[Episode]] = {}
    for episode in episodes:
        where = (episode.agent, episode.env, episode.env_hash, episode.user, episode.user_version)
        groups.setdefault(where, []).append(episode)
    alerts = [
        Alert(agent, strip_run_suffix(agent) in BASELINES, _describe_copies(copies), copies)
        for (agent, *_), own in groups.items()
        if (copies := find_near_copies(own)).replies >= FEWEST_REPLIES
        and (copies.to_others >= MOST_TO_OTHERS or copies.share >= MOST_COPIES)
    ]
    return sorted(alerts, key=lambda alert: alert.expected)


def strip_run_suffix(agent: str) -> str:
    return agent.partition(" (")[0]


def _describe_copies(copies: NearCopies) -> str:
    if copies.to_others >= MOST_TO_OTHERS:
        return (
            f"says the same to everybody: {copies.to_others:.0f} % of its {copies.replies} replies"
            " are near-copies of what it said to people with other stories (chat models: below"
            " 1 %)."
        )
    return (
        f"repeats itself: {copies.share:.0f} % of its {copies.replies} replies are near-copies of"
        f" others, in {copies.dialogues} dialogues (chat models: a third at most)."
    )


ACTS = (
    "reflect_feeling",
    "validate",
    "side",
    "praise",
    "invite",
    "open_question",
    "motives",
    "other_side",
    "reflect_prompt",
    "advice",
    "cliche",
)
"""What a reply may do, as the embedded user hears English, whoever the user of the dialogues is."""


def compute_act_shares(replies: Sequence[str]) -> dict[str, float]:
    """The share of the replies that do each of `ACTS`; a reply may do several."""
    done = list(map(_find_acts, replies))
    return {
        f"does_{act}": sum(act in acts for acts in done) / len(done) if done else float("nan")
        for act in ACTS
    }


def _find_acts(reply: str) -> frozenset[str]:
    heard = hear(reply)
    acts = {act for row in find_sure_acts(heard) for act, sure in row.items() if sure >= 0.5}
    if any(sentence.ask in _OPEN for sentence in heard.sentences):
        acts.add("open_question")
    return frozenset(acts)


_OPEN = frozenset("what how which where when who why".split())


def find_sure_acts(heard: Heard) -> list[dict[str, float]]:
    """How surely each sentence does each act, in [0, 1]; what stands beside it counts as well."""
    odds = (5 * heard.evidence + heard.evidence.mean(0)) / 6
    sure = 1 / (1 + np.exp(-np.clip(odds, -20, 20)))
    rows = [dict(zip(english.ACTS, row, strict=True)) for row in sure.tolist()]
    return rows if heard.sentences else []
