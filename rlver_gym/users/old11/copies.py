"""Copies: what of an utterance was said before, by the person or by the agent. One measure: runs of
three words, speaker and listener folded.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rlver_gym.core.words import split_words
from rlver_gym.users.embedded.hearing.utterance_features import (
    SentenceFeatures,
    UtteranceFeatures,
    sum_weights,
)

if TYPE_CHECKING:
    from rlver_gym.users.embedded.perception import Past

_PAUSE = re.compile(r"[,;:–—()\"“”]")
_JOINTS = frozenset(
    "and or but so then that because when while if how who which as like for with about".split()
)
"""Words after which a clause may begin, and before which one may end."""
MINE = frozenset({"i", "me", "my", "mine", "myself", "we", "our", "us"})
YOURS = frozenset({"you", "your", "yours", "yourself"})
_TORN_WORDS = 6
_PARROT_WORDS = 4
_QUOTED, _PARROTED, _STALE = 0.75, 0.99, 0.6
_OWN_STORY = 600
"""Hundredths of a nat in one sentence from which their story is told as the agent's own."""


class Copies(NamedTuple):
    """What is not the agent's own, or not new."""

    share: float
    """Of its runs, those that the person said."""
    copied: int
    """The number of those."""
    most: float
    """Of one sentence, the share of its runs that the person said, the largest."""
    longest: int
    """The longest stretch of theirs, in words."""
    quoted: frozenset[int]
    """Numbers of the sentences that are mostly theirs."""
    parroted: frozenset[int]
    """Of those that are nothing but theirs."""
    torn: frozenset[int]
    """Of those into which a piece of theirs is glued."""
    stale: frozenset[int]
    """Of those that the agent said before."""
    repeated: float
    """Of its runs, those that the agent said before."""
    repeated_most: float
    """The same of one utterance, the most alike."""
    repeated_times: int
    """How many utterances had a fifth of it."""
    as_own: str
    """A sentence in which the agent tells their story as its own; empty when there is none."""
    of_own: float
    """How much of it, in nats."""


def find_copies(heard: UtteranceFeatures, past: "Past") -> Copies:
    """Compare an utterance with everything said before. A sentence of three words is a run."""
    runs, size = heard.line.runs, max(4, len(heard.line.runs))
    quoted, parroted, torn, stale = [], [], [], []
    longest, as_own, most, total, most_copied = 0, "", 0, 0, 0.0
    is_copied, is_again = not runs.isdisjoint(past.runs), not runs.isdisjoint(past.own_runs)
    own_runs = past.utterances
    for at, piece in enumerate(heard.pieces):
        if is_copied and piece.runs:
            copied = list(map(past.runs.__contains__, piece.runs))
            share = sum(copied) / len(copied)
            most_copied = max(most_copied, share)
            if share >= _QUOTED:
                quoted.append(at)
                if share >= _PARROTED and len(piece.words) >= _PARROT_WORDS:
                    parroted.append(at)
            if share:
                stretch = _find_copied_spans(copied)
                longest = max(longest, max(end - start for start, end in stretch))
                if any(end - start >= _TORN_WORDS for start, end in stretch) and _splices_quotes(
                    piece, stretch
                ):
                    torn.append(at)
        if is_again and _was_said_before(piece, past, own_runs):
            stale.append(at)
        if not MINE.isdisjoint(piece.words) and YOURS.isdisjoint(piece.words):
            shared = 0 if "?" in piece.text[-3:] else sum_weights(piece.tokens & past.told)
            total += shared
            if shared > max(most, _OWN_STORY):
                as_own, most = piece.text, shared
    repeats = [len(runs & one) / size for one in own_runs] if is_again else []
    count = len(runs & past.runs) if is_copied else 0
    return Copies(
        count / size,
        count,
        most_copied,
        longest,
        frozenset(quoted),
        frozenset(parroted),
        frozenset(torn),
        frozenset(stale),
        len(runs & past.own_runs) / size if is_again else 0.0,
        max(repeats, default=0.0),
        sum([share > 0.2 for share in repeats]),
        as_own,
        total / 100,
    )


def _was_said_before(
    piece: SentenceFeatures, past: "Past", own_runs: Sequence[frozenset[int]]
) -> bool:
    if " ".join(piece.words) in past.said:
        return True
    if len(piece.runs) < 4:
        return False
    least = _STALE * len(piece.runs)
    return any(sum(map(one.__contains__, piece.runs)) >= least for one in own_runs)


def _find_copied_spans(copied: list[bool]) -> list[tuple[int, int]]:
    """Word positions [start, end) of the stretches whose runs were all said."""
    found: list[tuple[int, int]] = []
    for at, is_said in enumerate(copied):
        if is_said:
            if found and found[-1][1] == at + 2:
                found[-1] = (found[-1][0], at + 3)
            else:
                found.append((at, at + 3))
    return found


def _splices_quotes(piece: SentenceFeatures, stretches: list[tuple[int, int]]) -> bool:
    """Whether a long stretch begins or ends in the middle of a clause."""
    words, pauses, at = piece.words, {0}, 0
    for part in _PAUSE.split(piece.text):
        at += len(split_words(part))
        pauses.add(at)

    def is_boundary(place: int) -> bool:
        return (
            place in pauses
            or place >= len(words)
            or not _JOINTS.isdisjoint(words[place - 1 : place + 1])
        )

    return any(
        end - start >= _TORN_WORDS and not (is_boundary(start) and is_boundary(end))
        for start, end in stretches
    )
