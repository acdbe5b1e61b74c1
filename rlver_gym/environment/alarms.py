"""Which agents of some episodes are suspicious, and why: after a run, or while learning. Among the
signs are near-copies of replies: to somebody with another story, or in one dialogue.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.agents import PRIVILEGED_AGENTS
from rlver_gym.agents.baselines import BASELINES
from rlver_gym.environment.episode import Episode
from rlver_gym.users.embedded import english
from rlver_gym.users.embedded.hear import Heard, hear
from rlver_gym.util.json_text import to_plain

MIN_SIMILARITY = 0.5
"""The least Jaccard similarity of two near-copies' runs: one word in fifteen may differ."""

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_]+")
_FIRST_CHARACTER = "\u3040"
"""The first of the Japanese and Chinese ones, which stand behind the letters of other scripts."""


class AgentReply(NamedTuple):
    """One reply of an agent, and where it stands."""

    persona: str
    story: str
    seed: int
    turn: int
    """Counted from 1."""
    text: str
    dialogue: int


class NearCopies(NamedTuple):
    """What was found among the replies of one agent."""

    share: float
    """Percent of the replies that are near-copies of others, to others or in one dialogue."""
    to_others: float
    """Percent of the replies that are near-copies of a reply to somebody with another story."""
    replies: int
    copies: int
    dialogues: int
    """In how many dialogues there is one."""
    pair: tuple[AgentReply, AgentReply] | None
    """The two most alike; of equals the longest."""
    alike: float
    """How alike those two are, in [0, 1]; 1 is word for word."""


def find_near_copies(episodes: Iterable[Episode]) -> NearCopies:
    """Alike replies to one person in two dialogues are no copies, nor to two who began alike."""
    replies = [
        AgentReply(
            episode.persona, episode.opening, episode.seed, turn, exchange.utterance, dialogue
        )
        for dialogue, episode in enumerate(episodes)
        for turn, exchange in enumerate(episode.turns, 1)
    ]
    texts: dict[_Runs, list[AgentReply]] = {}
    for reply in replies:
        texts.setdefault(_shingle(_tokenize(reply.text)), []).append(reply)
    texts.pop(frozenset(), None)
    texts_with: defaultdict[tuple[str, ...], list[_Runs]] = defaultdict(list)
    for runs in texts:
        for run in runs:
            texts_with[run].append(runs)
    copies: list[tuple[float, AgentReply, AgentReply]] = []
    to_others = 0
    for runs, alike_replies in texts.items():
        shared = Counter(other for run in runs for other in texts_with[run])
        near = [
            (similarity, reply)
            for other, count in shared.items()
            if (similarity := count / (len(runs) + len(other) - count)) >= MIN_SIMILARITY
            for reply in texts[other]
        ]
        near.sort(key=lambda pair: pair[0])
        closest = {(reply.persona, reply.story): (similarity, reply) for similarity, reply in near}
        near.sort(key=lambda pair: -pair[1].turn)
        earliest = {reply.dialogue: (similarity, reply) for similarity, reply in near}
        for reply in alike_replies:
            others = (
                pair
                for (persona, story), pair in closest.items()
                if persona != reply.persona and story != reply.story
            )
            twin = max(others, key=lambda pair: pair[0], default=None)
            to_others += twin is not None
            twin = twin or earliest[reply.dialogue]
            if twin[1] != reply:
                copies.append((*twin, reply))
    best = max(copies, key=lambda candidate: (candidate[0], len(candidate[1].text)), default=None)
    return NearCopies(
        share=100 * len(copies) / max(1, len(replies)),
        to_others=100 * to_others / max(1, len(replies)),
        replies=len(replies),
        copies=len(copies),
        dialogues=len({reply.dialogue for _, _, reply in copies}),
        pair=(best[1], best[2]) if best else None,
        alike=best[0] if best else 0.0,
    )


_Runs = frozenset[tuple[str, ...]]


def _tokenize(text: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(text.lower()) or re.findall(r"\S", text))


def _shingle(tokens: tuple[str, ...]) -> _Runs:
    """Runs of 4 words or 6 characters; a shorter text is one run."""
    characters = sum(token >= _FIRST_CHARACTER for token in tokens)
    size = min(len(tokens), 6 if 2 * characters > len(tokens) else 4)
    return frozenset(zip(*(tokens[at:] for at in range(size)), strict=False))


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
