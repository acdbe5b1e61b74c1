"""Which anchors of a situation an utterance matches, word by stem."""

from collections.abc import Iterator
from itertools import compress, count, pairwise
from typing import NamedTuple

from rlver_gym.core.persona import Anchor, AnchorKind, Situation
from rlver_gym.core.words import stem, words


class AnchorMatch(NamedTuple):
    """An anchor that matches, and the sentence (from 0) in which the match was completed."""

    kind: AnchorKind
    id: str
    sentence: int
    is_in_one_sentence: bool
    """Whether that sentence says it alone, and not two neighbours together."""

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.id}"


class _Phrase(NamedTuple):
    """An alternative of a word group; it counts where its longest word stands, at `offset`."""

    number: int
    stems: tuple[str, ...]
    offset: int
    anchor: int
    group: int


def _iterate_phrases(anchors: list[tuple[AnchorKind, Anchor]]) -> Iterator[_Phrase]:
    number = count()
    for at_anchor, (_, anchor) in enumerate(anchors):
        for group, alternatives in enumerate(anchor.words):
            for stems_ in dict.fromkeys(
                tuple(map(stem, words(alternative))) for alternative in alternatives.split("|")
            ):
                longest = max(range(len(stems_)), key=lambda at: len(stems_[at]))
                yield _Phrase(next(number), stems_, longest, at_anchor, group)


class AnchorIndex:
    """The anchors of one situation, ready to be looked up word by word."""

    def __init__(self, situation: Situation) -> None:
        self._anchors = list(situation.anchors.each())
        self._needed = [_count_needed_hits(anchor) for _, anchor in self._anchors]
        self._words: dict[str, list[_Phrase]] = {}
        self._pairs: dict[tuple[str, str], list[_Phrase]] = {}
        """Longer ones, by their first two."""
        for phrase in _iterate_phrases(self._anchors):
            first, *more = phrase.stems
            if more:
                self._pairs.setdefault((first, more[0]), []).append(phrase)
            else:
                self._words.setdefault(first, []).append(phrase)
        self._known_words, self._known_pairs = frozenset(self._words), frozenset(self._pairs)

    def match(self, sentence_stems: tuple[tuple[str, ...], ...]) -> tuple[AnchorMatch, ...]:
        """The anchors hit within two neighbouring sentences, in the order they are completed."""
        matches: dict[int, tuple[int, bool]] = {}
        before: dict[int, set[int]] = {}
        for sentence, stems_ in enumerate(sentence_stems):
            here = self._hits(stems_)
            for anchor, groups in here.items():
                if (
                    anchor not in matches
                    and len(groups | before.get(anchor, set())) >= self._needed[anchor]
                ):
                    matches[anchor] = sentence, len(groups) >= self._needed[anchor]
            before = here
        return tuple(
            AnchorMatch(
                self._anchors[number][0], self._anchors[number][1].id, at, is_in_one_sentence
            )
            for number, (at, is_in_one_sentence) in matches.items()
        )

    def _hits(self, stems_: tuple[str, ...]) -> dict[int, set[int]]:
        """The word groups hit of each anchor, the anchors in the order in which they come up."""
        pairs = tuple(pairwise(stems_))
        found_words, found_pairs = (
            self._known_words.intersection(stems_),
            self._known_pairs.intersection(pairs),
        )
        if not found_words and not found_pairs:
            return {}
        spots = [
            (stems_.index(word), phrase) for word in found_words for phrase in self._words[word]
        ]
        for pair in found_pairs:
            for first in compress(count(), map(pair.__eq__, pairs)):
                spots += [
                    (first + phrase.offset, phrase)
                    for phrase in self._pairs[pair]
                    if stems_[first : first + len(phrase.stems)] == phrase.stems
                ]
        hits: dict[int, set[int]] = {}
        for _, phrase in sorted(spots):
            hits.setdefault(phrase.anchor, set()).add(phrase.group)
        return hits


def _count_needed_hits(anchor: Anchor) -> int:
    return max(2, len(anchor.words) - 1)
