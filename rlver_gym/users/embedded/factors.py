"""Factors: how readers would rate a reply (understood, about me, gives what I need, human,
pressure, false), and what that is worth. Whole numbers inside; pure.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from rlver_gym.conversation.sentences import Sentence
from rlver_gym.core.dialogue import ReasonCode
from rlver_gym.core.ledger import quote
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.io.frozen import cache_by_identity
from rlver_gym.users.embedded.belonging import belonging
from rlver_gym.users.embedded.english import PRIOR_SCALE, Described, grams_of
from rlver_gym.users.embedded.weights import FACTOR_SCALE, FACTORS, Factor, Factors

_STEP = 256
"""Feature values are counted in steps of 1/256."""
_HIGHEST = {Factor.FALSE: 1.0}
"""Of a factor; 4 for the others."""
FOR_A_NEED = ("does", "share", "suggests", "asks", "feelings")
"""Features (up to their colon) whose worth depends on the hidden need."""
IN_WORDS = {
    Factor.UNDERSTOOD: ("did not feel understood", "felt understood"),
    Factor.ABOUT: ("little of this was about them", "it was about them and their story"),
    Factor.GIVES: ("gave little of what they need", "gave something of what they need"),
    Factor.HUMAN: ("sounded like a script", "sounded like a real person"),
    Factor.PRESSURE: ("left them free", "felt pushed, or judged"),
    Factor.FALSE: ("nothing in it was wrong", "something in it was not true"),
}
"""Of each factor, what is said when it is low and when it is high."""


VOID = (ReasonCode.SILENCE, ReasonCode.NONSENSE)
"""Evidence beside which nothing else counts."""
PLAIN = frozenset(
    {
        ReasonCode.BROKEN,
        ReasonCode.TORN,
        ReasonCode.COPYING,
        ReasonCode.REPETITION,
        ReasonCode.LIST,
        ReasonCode.INTERROGATION,
        "act:ai",
        "act:referral",
    }
)
"""Evidence that is told by itself, where it costs: it can be pointed at."""


class Worth(NamedTuple):
    """What a part of a reply is worth."""

    code: str
    """A factor, or "whole" for all factors of which nothing is known surely enough to be told."""
    points: float
    """Before gain and gain factors."""
    note: str


class FactorModel:
    """Fitted factors, ready to be asked."""

    def __init__(self, factors: Factors) -> None:
        """Lay out the weights as one table of whole numbers, with a row of zeros for what is
        unknown.
        """
        self._at = {name: at for at, name in enumerate(factors.weights)}
        self._table = np.array([*factors.weights.values(), (0,) * len(FACTORS)], dtype=np.int64)
        self._factors = factors

    def predict(self, described: Described, need: HiddenNeed) -> dict[Factor, float]:
        """Each factor's rating, within its scale."""
        return self._predict(described, need, self.belonging(described))

    def _predict(
        self, described: Described, need: HiddenNeed, belongs: float
    ) -> dict[Factor, float]:
        rows, steps = [], []
        for name, value in columns_of(described, need, belongs):
            at = self._at.get(name)
            if at is not None:
                rows.append(at)
                steps.append(round(value * _STEP))
        sums = (
            (np.array(steps, dtype=np.int64) @ self._table[rows]).tolist()
            if rows
            else [0] * len(FACTORS)
        )
        return {
            name: max(
                0.0,
                min(
                    _HIGHEST.get(name, 4.0),
                    self._factors.typical[name] + total / (_STEP * FACTOR_SCALE),
                ),
            )
            for name, total in zip(FACTORS, sums, strict=True)
        }

    def belonging(self, described: Described) -> float:
        """How far it is meant for this person; see `belonging.belonging`."""
        return belonging(self._factors.belonging, described.values, described.overlap)

    def worth(self, described: Described, need: HiddenNeed) -> Iterator[Worth]:
        """What each factor is worth; those of which nothing can be said surely, together."""
        void = [one for one in described.evidence if one.code in VOID]
        if void:
            yield Worth(*void[0])
            return
        card, rest, belongs = self._factors, 0.0, self.belonging(described)
        for one in self._plain(described, belongs):
            yield one
            rest -= one.points
        for name, rating in self._predict(described, need, belongs).items():
            above = rating - card.neutral[name]
            points = card.worth[name] * above
            is_high = above > 0 and rating >= card.high.get(name, math.inf)
            is_low = above < 0 < card.worth[name] and rating <= card.low.get(name, -math.inf)
            if is_high or is_low:
                yield Worth(str(name), points, self._note(name, is_high, described))
            else:
                rest += points
        yield Worth(
            ReasonCode.WHOLE,
            rest,
            "on the whole it did them " + ("good" if rest > 0 else "no good"),
        )

    def _plain(self, described: Described, belongs: float) -> Iterator[Worth]:
        """What the evidence that can be pointed at costs, as far as it was measured to cost."""
        for code, points, note in described.evidence:
            if code in PLAIN and points < 0:
                steps = round(points / PRIOR_SCALE * _STEP)
                row = self._table[self._at.get(f"prior:{code}", -1)].tolist()
                cost = sum(
                    self._factors.worth[name] * weight
                    for name, weight in zip(FACTORS, row, strict=True)
                )
                cost *= belongs * steps / (_STEP * FACTOR_SCALE)
                if cost < 0:
                    yield Worth(code, cost, note)

    def _note(self, name: Factor, is_high: bool, described: Described) -> str:
        """The factor in words, with the sentence that speaks for it most."""
        words = IN_WORDS[name][is_high]
        if not described.sentences:
            return words
        column, sign = FACTORS.index(name), 1 if is_high else -1
        shares: dict[str, int] = defaultdict(int)  # a sentence said twice counts twice
        for one in described.sentences:
            shares[one.text] += self._share(one, column)
        best = max(shares, key=lambda text: sign * shares[text])
        return f"{words}: “{quote(best)}”"

    def _share(self, sentence: Sentence, column: int) -> int:
        """What one sentence adds to a factor, by its acts and words."""
        known, rows, steps = self._at, [], []
        for label, probability in sentence.classification.ranked:
            rows.append(known.get(f"does:{label}", -1))
            steps.append(round(probability * _STEP))
        of_words = [
            at for gram in grams_of([sentence]) if (at := known.get(f"={gram}")) is not None
        ]
        return int(self._table[rows, column] @ np.array(steps)) + _STEP * int(
            self._table[of_words, column].sum()
        )


@cache_by_identity
def factor_model(factors: Factors) -> FactorModel:
    """The model of some factors, laid out once."""
    return FactorModel(factors)


def columns_of(
    described: Described, need: HiddenNeed, belongs: float
) -> Iterable[tuple[str, float]]:
    """Everything that may have a weight, by name, with its value: as far as it belongs to this
    person, in [0, 1].
    """
    yield "elsewhere", 1 - belongs
    if not belongs:
        return
    for name, value in described.values.items():
        yield name, value * belongs
        if name.partition(":")[0] in FOR_A_NEED:
            yield f"{name}@{need}", value * belongs
    for gram in described.grams:
        yield f"={gram}", belongs
