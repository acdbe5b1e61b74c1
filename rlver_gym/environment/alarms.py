"""Which agents of some episodes are suspicious, and why: after a run, or while learning."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rlver_gym.agents import PRIVILEGED_AGENTS, SHIPPED_AGENTS
from rlver_gym.agents.baselines import BASELINES
from rlver_gym.environment.ceilings import (
    REFERENCE_AGENTS,
    AboveBound,
    EpisodeConditions,
    ScoreBound,
    check_score,
    collect_reference_scores,
    compute_score_bound,
)
from rlver_gym.environment.copies import NearCopies, find_near_copies
from rlver_gym.environment.episode import Episode
from rlver_gym.io.json_text import to_plain
from rlver_gym.io.terminal import format_count
from rlver_gym.text.english.hear import hear

FEWEST_PEOPLE = 8
"""A mean over fewer people says too little about an agent."""
FEWEST_REPLIES = 8
"""With fewer there are no habits to see."""
MOST_TO_OTHERS = 25.0
"""Percent of replies that are near-copies of what was said to people with other stories. Nine chat
models (8,485 replies in SAGE's published dialogues): 0.3 at most; listener and adaptive, whose
sentences have fixed frames: 8 at most; stock phrases: 100.
"""
MOST_COPIES = 50.0
"""The same with repetitions within a dialogue, which chat models fall into: up to 32 percent."""


class Alert(NamedTuple):
    """A reason to look closer at an agent."""

    kind: Literal["above ceiling", "near-copies"]
    agent: str
    expected: bool
    """Whether it is a shipped baseline, which is meant to be like that."""
    says: str
    """What was found, against which limit, and what to do; to be read after the agent's name."""
    evidence: AboveBound | NearCopies


class AnomalyReport(NamedTuple):
    """All that is to be said about the agents of a run beside their scores."""

    alarms: list[Alert]
    privileged: list[str]
    """Agents that were told what no agent can know."""
    unjudged: list[str]
    """Why some level was not judged."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return to_plain(self)


def check_episodes(episodes: Iterable[Episode]) -> AnomalyReport:
    """The alerts, who is exempt, and what could not be judged."""
    episodes = list(episodes)
    agents = dict.fromkeys(episode.agent for episode in episodes)
    privileged = [agent for agent in agents if agent_name(agent) in PRIVILEGED_AGENTS]
    return AnomalyReport(find_alerts(episodes), privileged, explain_missing_bounds(episodes))


def find_alerts(episodes: Iterable[Episode]) -> list[Alert]:
    """What is suspicious about the agents of these episodes; what is expected of them comes last.

    By level: an agent without privileges whose mean final emotion lies above the score bound of its
    environment and user. By words: an agent that says the same to people with other stories
    (`MOST_TO_OTHERS`), or over and over (`MOST_COPIES`).
    """
    found: list[Alert] = []
    for by_agent in _group_by_conditions(episodes).values():
        for agent, own in by_agent.items():
            limit = _find_score_bound(own, by_agent)
            if (
                isinstance(limit, ScoreBound)
                and agent_name(agent) not in PRIVILEGED_AGENTS
                and (high := check_score(own, limit))
            ):
                found.append(Alert("above ceiling", agent, False, _describe_level(high), high))
            copies = find_near_copies(own)
            many = copies.to_others >= MOST_TO_OTHERS or copies.share >= MOST_COPIES
            if copies.replies >= FEWEST_REPLIES and many:
                found.append(
                    Alert(
                        "near-copies",
                        agent,
                        agent_name(agent) in BASELINES,
                        _describe_copies(copies),
                        copies,
                    )
                )
    return sorted(found, key=lambda alert: alert.expected)


def explain_missing_bounds(episodes: Iterable[Episode]) -> list[str]:
    """Why there is no score bound for agents that are not shipped, and what to do."""
    reasons = [
        f"Scores in {conditions.env} are not checked for being too high: {limit}"
        for conditions, by_agent in _group_by_conditions(episodes).items()
        for agent, own in by_agent.items()
        if agent_name(agent) not in SHIPPED_AGENTS
        and isinstance(limit := _find_score_bound(own, by_agent), str)
    ]
    return list(dict.fromkeys(reasons))


def agent_name(agent: str) -> str:
    """An agent's own name, without the run's in brackets that a comparison puts behind it."""
    return agent.partition(" (")[0]


_ByAgent = Mapping[str, Sequence[Episode]]


def _group_by_conditions(
    episodes: Iterable[Episode],
) -> dict[EpisodeConditions, dict[str, list[Episode]]]:
    """Episodes by conditions and agent, in the order in which they come."""
    groups: dict[EpisodeConditions, dict[str, list[Episode]]] = {}
    for episode in episodes:
        groups.setdefault(EpisodeConditions.of(episode), {}).setdefault(episode.agent, []).append(
            episode
        )
    return groups


def _find_score_bound(own: Sequence[Episode], by_agent: _ByAgent) -> ScoreBound | str:
    """The score bound for the people whom an agent met, or why there is none."""
    met = len({episode.persona for episode in own})
    if met < FEWEST_PEOPLE:
        people = format_count(met, "person", "people")
        verb = "is" if met == 1 else "are"
        return f"{people} {verb} too few for a mean, {FEWEST_PEOPLE} are needed."
    along: dict[str, list[Episode]] = {}
    for agent, episodes in by_agent.items():
        along.setdefault(agent_name(agent), []).extend(episodes)
    reference = collect_reference_scores(own, along)
    limit = compute_score_bound(reference, own[0].start)
    if limit is None and all(reference.get(agent) for agent in REFERENCE_AGENTS):
        return (
            "the reference agents, listener and adaptive, end below the start here, and say nothing"
            " about what can be reached. Read some dialogues before you believe a high score."
        )
    if limit is None or limit.people < FEWEST_PEOPLE:
        return (
            f"no ceiling is known for these people and the {own[0].user} user, version"
            f" {own[0].user_version}. Let the agents listener, adaptive and oracle run along."
        )
    return limit


def _describe_level(high: AboveBound) -> str:
    limit = high.ceiling
    return (
        f"brings people to {high.final:.1f}; honest agents reach {limit.reaches:.1f} here"
        f" ({limit.strongest}), and above {limit.level:.1f} it is more likely that a hole was"
        " found. Read its dialogues, and audit it with another user."
    )


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
    """The share of the replies that do each of `ACTS`, in [0, 1]; a reply may do several."""
    done = [
        frozenset().union(*(piece.clear_acts for piece in hear(reply).pieces)) for reply in replies
    ]
    return {
        f"does_{act}": sum(act in acts for acts in done) / len(done) if done else float("nan")
        for act in ACTS
    }
