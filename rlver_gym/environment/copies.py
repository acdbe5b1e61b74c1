"""Near-copies among an agent's replies: to somebody with another story, or in one dialogue."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
    """What the person began with."""
    seed: int
    turn: int
    """Counted from 1."""
    text: str
    dialogue: int
    """The number of its episode among those looked at."""


class NearCopies(NamedTuple):
    """What was found among the replies of one agent."""

    share: float
    """Percent of the replies that are near-copies: of a reply to somebody with another story, or of
    an earlier one in the same dialogue.
    """
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
    """The near-copies among the replies of one agent's episodes.

    Alike replies to the same person in two dialogues are none, nor are those to two people who
    began with the same words: they tell the same story, and may well get the same answer. Silence
    is none either.
    """
    replies, texts = _index_replies(episodes)
    found: list[tuple[float, AgentReply, AgentReply]] = []
    to_others = 0
    for text, near in _find_neighbours(texts):
        for reply in text.replies:
            other = _find_copy_to_other(reply, near)
            twin = other or _find_earlier_copy(reply, near)
            to_others += other is not None
            if twin:
                found.append((*twin, reply))
    best = max(found, key=lambda one: (one[0], len(one[1].text)), default=None)
    return NearCopies(
        share=100 * len(found) / max(1, replies),
        to_others=100 * to_others / max(1, replies),
        replies=replies,
        copies=len(found),
        dialogues=len({reply.dialogue for _, _, reply in found}),
        pair=(best[1], best[2]) if best else None,
        alike=best[0] if best else 0.0,
    )


class _Text:
    """All replies of the same words."""

    def __init__(self, ranked: Sequence[int]) -> None:
        self.ranked = ranked
        """Its runs as numbers, the rarest first."""
        self.runs = frozenset(ranked)
        self.replies: list[AgentReply] = []
        self.stories: dict[tuple[str, str], AgentReply] = {}
        """The first to each person and story."""
        self.dialogues: dict[int, AgentReply] = {}

    def add(self, reply: AgentReply) -> None:
        self.replies.append(reply)
        self.stories.setdefault((reply.persona, reply.story), reply)
        self.dialogues.setdefault(reply.dialogue, reply)

    def similarity(self, other: "_Text") -> float:
        shared = len(self.runs & other.runs)
        return shared / (len(self.runs) + len(other.runs) - shared)


_Near = list[tuple[float, _Text]]


def _tokenize(text: str) -> tuple[str, ...]:
    """Words of any script, Chinese and Japanese by character; signs where there are no words."""
    return tuple(_TOKEN.findall(text.lower()) or re.findall(r"\S", text))


def _shingle(tokens: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    """Runs of 4 words or 6 characters, each once and in order; a shorter text is one run."""
    characters = sum(token >= _FIRST_CHARACTER for token in tokens)
    size = min(len(tokens), 6 if 2 * characters > len(tokens) else 4)
    return dict.fromkeys(zip(*(tokens[at:] for at in range(size)), strict=False))


def _index_replies(episodes: Iterable[Episode]) -> tuple[int, list[_Text]]:
    """How many replies there are, silence included, and the texts among them."""
    replies = [
        AgentReply(episode.persona, episode.opening, episode.seed, turn, one.utterance, dialogue)
        for dialogue, episode in enumerate(episodes)
        for turn, one in enumerate(episode.turns, 1)
    ]
    spoken = [(one, tokens) for one in replies if (tokens := _tokenize(one.text))]
    runs = {tokens: _shingle(tokens) for tokens in dict.fromkeys(tokens for _, tokens in spoken)}
    spread = Counter(run for its in runs.values() for run in its)
    rank = {run: number for number, run in enumerate(sorted(spread, key=lambda run: spread[run]))}
    texts = {tokens: _Text(sorted(rank[run] for run in its)) for tokens, its in runs.items()}
    for one, tokens in spoken:
        texts[tokens].add(one)
    return len(replies), list(texts.values())


def _find_neighbours(texts: Sequence[_Text]) -> Iterator[tuple[_Text, _Near]]:
    """Each text with those near it, itself first; no more of them than show that it was said to
    people with other stories.

    Sets that are alike share one of their rarest runs (prefix filtering: Chaudhuri and others, ICDE
    2006), so only those are looked up.
    """
    index: dict[int, list[_Text]] = {}
    for text in texts:
        for run in _prefix(text):
            index.setdefault(run, []).append(text)
    for text in texts:
        near = [(1.0, text)]
        candidates = dict.fromkeys(
            other for run in _prefix(text) for other in index[run] if other is not text
        )
        while candidates and not all(
            _find_copy_to_other(reply, near) for reply in text.stories.values()
        ):
            grown = len(near)
            while candidates and len(near) == grown:
                other, _ = candidates.popitem()
                if (alike := text.similarity(other)) >= MIN_SIMILARITY:
                    near.append((alike, other))
        yield text, near


def _prefix(text: _Text) -> Sequence[int]:
    size = len(text.ranked)
    return text.ranked[: size - math.ceil(MIN_SIMILARITY * size) + 1]


def _find_copy_to_other(reply: AgentReply, near: _Near) -> tuple[float, AgentReply] | None:
    for alike, text in near:
        for (persona, story), other in text.stories.items():
            if persona != reply.persona and story != reply.story:
                return alike, other
    return None


def _find_earlier_copy(reply: AgentReply, near: _Near) -> tuple[float, AgentReply] | None:
    for alike, text in near:
        other = text.dialogues.get(reply.dialogue)
        if other and other.turn < reply.turn:
            return alike, other
    return None
