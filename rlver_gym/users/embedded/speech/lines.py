"""What a person may say: the lines of their card, cut into sentences once, and which of several is
said: the same on every machine.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rlver_gym.core.persona import Disclosure, Situation
from rlver_gym.core.user import Scene
from rlver_gym.core.words import content_stems, is_short, sentences
from rlver_gym.io.frozen import cache_by_identity


class SplitLine(NamedTuple):
    """A line cut into sentences."""

    text: str
    folded: frozenset[str]
    """Its sentences, case-folded, by which it is known again: the short ones ("Yes.") only where
    there are no others.
    """
    backwards: tuple[tuple[str, str], ...]
    """Each sentence case-folded and as it is written, the last one first."""


@lru_cache(maxsize=2_048)
def split_line(line: str) -> SplitLine:
    """A line in sentences. Cached, because every turn looks back at all earlier lines."""
    pairs = [(sentence.casefold(), sentence) for sentence in sentences(line)]
    telling = frozenset(folded for folded, _ in pairs if not is_short(folded))
    return SplitLine(line, telling or frozenset(folded for folded, _ in pairs), tuple(pairs[::-1]))


@lru_cache(maxsize=1_024)
def split_lines(lines: tuple[str, ...]) -> tuple[SplitLine, ...]:
    """The same of several lines, among which one is chosen."""
    return tuple(map(split_line, lines))


class DisclosureSummary(NamedTuple):
    """A disclosure, its three tones taken together."""

    item: Disclosure
    folded: frozenset[str]
    """Its sentences, case-folded."""
    about: frozenset[str]
    """The stems that say what it is about."""


@cache_by_identity
def summarise_disclosures(situation: Situation) -> tuple[DisclosureSummary, ...]:
    """All that there is to tell, in order."""
    return tuple(
        _telling(item, (item.high, item.normal, item.low)) for item in situation.disclosures
    )


def _telling(item: Disclosure, tones: tuple[str, ...]) -> DisclosureSummary:
    return DisclosureSummary(
        item,
        frozenset().union(*(split_line(line).folded for line in tones)),
        frozenset().union(*map(content_stems, tones)),
    )


def _number(scene: Scene, turn: int, purpose: str, words: Sequence[str]) -> int:
    key = f"{scene.seed}/{scene.persona.id}/{turn}/{purpose}/{' '.join(words[:20])}"
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")


def draw(scene: Scene, turn: int, purpose: str, words: Sequence[str]) -> float:
    """A number in [0, 1)."""
    return _number(scene, turn, purpose, words) / 2**64


def choose(
    scene: Scene, turn: int, purpose: str, words: Sequence[str], lines: Sequence[str]
) -> str:
    """One of the lines."""
    return lines[_number(scene, turn, purpose, words) % len(lines)]
