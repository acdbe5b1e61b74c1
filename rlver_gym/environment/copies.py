"""Near-copies among an agent's replies: to somebody with another story, or in one dialogue."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from rlver_gym.environment.episode import Episode

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
