"""Which anchors of a situation an utterance touches. Matches words by stem; knows nothing of needs or points."""

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from rlver_gym.persona import Anchor, AnchorKind, Situation
from rlver_gym.words import FUNCTION_WORDS, stem, words


class Touch(NamedTuple):
    """An anchor touched, and in which sentence (counted from 0) it was completed."""

    kind: AnchorKind
    id: str
    sentence: int
    whole: bool
    """Whether that sentence says it alone, and not two neighbours together."""

    @property
    def key(self) -> str:
        """The anchor's name within its situation."""
        return f"{self.kind}/{self.id}"


class _Phrase(NamedTuple):
    """An alternative of a word group. It is looked up by its rarest word, `rarest` words after its first, and counts as said where its longest one stands."""

    number: int
    stems: tuple[str, ...]
    rarest: int
    longest: int
    anchor: int
    group: int


def _phrases(anchors: list[tuple[AnchorKind, Anchor]]) -> Iterator[_Phrase]:
    number = count()
    for at_anchor, (_, anchor) in enumerate(anchors):
        for group, alternatives in enumerate(anchor.words):
            for alternative in alternatives.split("|"):
                spoken = words(alternative)
                stems_ = tuple(map(stem, spoken))
                longest = max(range(len(stems_)), key=lambda at: len(stems_[at]))
                rarest = max(range(len(stems_)), key=lambda at: (spoken[at] not in FUNCTION_WORDS, len(stems_[at])))
                yield _Phrase(next(number), stems_, rarest, longest, at_anchor, group)


class AnchorIndex:
    """The anchors of one situation, ready to be looked up word by word."""

    def __init__(self, situation: Situation) -> None:
        """Compile the anchors' word groups."""
        self._anchors = list(situation.anchors.each())
        self._needed = [_hits_needed(anchor) for _, anchor in self._anchors]
        self._by_rarest: dict[str, list[_Phrase]] = {}
        for phrase in _phrases(self._anchors):
            self._by_rarest.setdefault(phrase.stems[phrase.rarest], []).append(phrase)

    def touched(self, sentence_stems: tuple[tuple[str, ...], ...]) -> tuple[Touch, ...]:
        """The anchors whose word groups are hit within two neighbouring sentences, in the order they are completed."""
        found: dict[int, tuple[int, bool]] = {}
        before: dict[int, set[int]] = {}
        for sentence, stems_ in enumerate(sentence_stems):
            here = self._hits(stems_)
            for anchor, groups in here.items():
                if anchor not in found and len(groups | before.get(anchor, set())) >= self._needed[anchor]:
                    found[anchor] = sentence, len(groups) >= self._needed[anchor]
            before = here
        return tuple(
            Touch(self._anchors[number][0], self._anchors[number][1].id, at, whole)
            for number, (at, whole) in found.items()
        )

    def _hits(self, stems_: tuple[str, ...]) -> dict[int, set[int]]:
        """The word groups hit of each anchor, the anchors in the order in which they come up."""
        if self._by_rarest.keys().isdisjoint(stems_):
            return {}
        found: list[tuple[int, int, _Phrase]] = []
        for at, word in enumerate(stems_):
            for phrase in self._by_rarest.get(word, ()):
                number, stems, rarest, longest, _, _ = phrase
                first = at - rarest
                if len(stems) == 1 or (first >= 0 and stems_[first : first + len(stems)] == stems):
                    found.append((first + longest, number, phrase))
        hits: dict[int, set[int]] = {}
        for _, _, phrase in sorted(found):
            hits.setdefault(phrase.anchor, set()).add(phrase.group)
        return hits


def _hits_needed(anchor: Anchor) -> int:
    return max(2, len(anchor.words) - 1)
