"""Quotation: how a sentence uses the person's own words. Whole clauses may be given back; pieces torn out of them make no sense to anybody."""

import re
from collections.abc import Sequence
from functools import lru_cache

from rlver_gym.core.words import sentences, words

_PAUSE = re.compile(r"[,;:–—()\"“”]")
_JOINTS = frozenset("and or but so then that because when while if how who which as like for with about".split())
"""Words after which a clause may begin, and before which one may end."""

_FOLDED = {
    **dict.fromkeys(("i", "me", "we", "us", "you", "one", "myself", "ourselves", "yourself"), "you"),
    **dict.fromkeys(("my", "our", "your", "mine", "ours", "yours"), "your"),
    **dict.fromkeys(("am", "is", "are"), "are"),
    **dict.fromkeys(("was", "were"), "were"),
}
"""Speaker and listener folded: "we had our list" given back is "you had your list"."""


def torn(text: str, lines: tuple[str, ...], least: int) -> bool:
    """Whether a run of at least `least` words from `lines` is glued to other words in the middle of a clause."""
    clauses = [words(part) for part in _PAUSE.split(text)]
    spoken = [word for clause in clauses for word in clause]
    pauses, at = {0}, 0
    for clause in clauses:
        at += len(clause)
        pauses.add(at)
    return any(
        not (_seam(spoken, start, pauses) and _seam(spoken, end, pauses))
        for start, end in _runs(_trigrams(spoken), _said(lines))
        if end - start >= least
    )


def _seam(spoken: list[str], at: int, pauses: set[int]) -> bool:
    """Whether a clause may begin or end before the word at `at`."""
    return at in pauses or spoken[at - 1] in _JOINTS or spoken[at] in _JOINTS


@lru_cache(maxsize=256)
def _said(lines: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    if not lines:
        return frozenset()
    before = _said(lines[:-1])
    return before.union(*(_trigrams(words(sentence)) for sentence in sentences(lines[-1])))


def _trigrams(spoken: Sequence[str]) -> list[tuple[str, ...]]:
    folded = [_FOLDED.get(word, word) for word in spoken]
    return list(zip(folded, folded[1:], folded[2:], strict=False))


def _runs(grams: Sequence[tuple[str, ...]], said: frozenset[tuple[str, ...]]) -> list[tuple[int, int]]:
    """Word positions [start, end) of the longest stretches whose 3-grams were all said."""
    found: list[tuple[int, int]] = []
    for at, gram in enumerate(grams):
        if gram in said:
            if found and found[-1][1] == at + 2:
                found[-1] = (found[-1][0], at + 3)
            else:
                found.append((at, at + 3))
    return found
