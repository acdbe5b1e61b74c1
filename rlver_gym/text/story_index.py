"""What a person knows: the anchors, the words and the names of their story.

Compiled once a situation.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import repeat
from sys import intern
from typing import Any, NamedTuple

from rlver_gym.core.anchors import AnchorIndex, AnchorMatch
from rlver_gym.core.persona import Situation
from rlver_gym.core.words import content_stems, words
from rlver_gym.io.files import load_json
from rlver_gym.io.frozen import cache_by_identity
from rlver_gym.text.utterance_analysis import analyse_utterance

_MAX_PLAIN_WEIGHT = 100
"""Hundredths of a nat for a plain word, at most: that of a word in every third story."""
_UNKNOWN_WEIGHT = 50
"""That of a word of no story at all: it may be a slip of the finger, and proves little."""


def _load(name: str) -> dict[str, Any]:
    return load_json("rlver_gym.text", f"english/{name}")


class Rarity(NamedTuple):
    """How much stems say about which story they belong to, in hundredths of a nat."""

    of: dict[str, int]
    unknown: int
    """That of a stem that no known story has."""


@lru_cache(maxsize=1)
def load_rarity() -> Rarity:
    """The shipped counts."""
    data = _load("stories.json")
    return Rarity(
        {
            intern(stem): int(weight)
            for weight, stems in data["weights"].items()
            for stem in stems.split()
        },
        data["unknown"],
    )


class StoryIndex:
    """The story of one situation, ready to be looked up."""

    def __init__(self, situation: Situation) -> None:
        """Compile the situation."""
        texts = list(texts_of(situation.model_dump()))
        self.anchors = AnchorIndex(situation)
        self.story = frozenset().union(*map(content_stems, texts))
        self.vocabulary = self.story | load_everyday_stems()
        self._rarity = load_rarity()
        self._rarest, self._familiar = load_stem_weights()
        self.names = frozenset(word for text in texts for word in words(text)) | _CALENDAR

    def weight(self, stems: frozenset[str]) -> int:
        """How much some stems together say about which story they belong to, in hundredths of a
        nat.
        """
        rarity_of, unknown = self._rarity
        return sum(map(rarity_of.get, stems, repeat(unknown)))

    def strangeness(self, about: frozenset[str], alien: frozenset[str], own: float) -> float:
        """How far words are from this story: rare ones that are `alien` to it add, the other rare
        ones take away `own` times as much. In nats.
        """
        odd = about & alien
        found = sum(map(self._familiar.get, odd, repeat(_UNKNOWN_WEIGHT))) / 100 if odd else 0.0
        return found if len(odd) == len(about) else found - own * self.particularity(about - odd)

    def particularity(self, about: frozenset[str]) -> float:
        """How much words single out one life among many, in nats."""
        if not about:
            return 0.0
        # Whole numbers: their order must not matter.
        return sum(map(self._familiar.get, about, repeat(self._rarest))) / 100


def texts_of(value: Any) -> Iterator[str]:
    """Every text in a dump of a card."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from texts_of(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from texts_of(part)


_CALENDAR = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may
    june july august september october november december christmas easter god english mum
    dad mom gran grandma grandad""".split()
)


@lru_cache(maxsize=1)
def load_everyday_stems() -> frozenset[str]:
    """Stems that are at home in any story."""
    return frozenset(map(intern, _load("everyday.json")["stems"]))


@lru_cache(maxsize=1)
def load_stem_weights() -> tuple[int, dict[str, int]]:
    """How rare a stem is among the known stories, in hundredths of a nat: that of a stem which one
    of them has, and those of all; plain words are never rare.
    """
    known = load_rarity().of
    plain = load_everyday_stems().union(_load("plain.json")["stems"].split())
    return max(known.values()), known | {
        stem: min(_MAX_PLAIN_WEIGHT, known.get(stem, _MAX_PLAIN_WEIGHT)) for stem in plain
    }


@cache_by_identity
def index_story(situation: Situation) -> StoryIndex:
    """The story of a situation, compiled once."""
    return StoryIndex(situation)


@lru_cache(maxsize=2)
def match_anchors(index: AnchorIndex, text: str) -> tuple[AnchorMatch, ...]:
    """The anchors that an utterance touches."""
    return index.match(tuple(sentence.stems for sentence in analyse_utterance(text).sentences))


@lru_cache(maxsize=2_048)
def match_anchor_keys(index: AnchorIndex, text: str) -> frozenset[str]:
    """Their keys; kept longer, because every turn looks back at all earlier ones."""
    return frozenset(touch.key for touch in match_anchors(index, text))
