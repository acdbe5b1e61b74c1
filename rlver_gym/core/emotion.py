"""The emotion scale from 0 (despair) to 100 (at peace), bands, ends, and rewards."""

from collections.abc import Callable
from enum import StrEnum
from typing import Literal

Tone = Literal["high", "normal", "low"]

MIN_EMOTION = 0
MAX_EMOTION = 100
MAX_CHANGE = 10
"""The largest change of one turn, in points, either way (SAGE, arXiv:2505.02847)."""


class Band(StrEnum):
    """The five states of SAGE's user: S at 100, A from 70, B from 40, C from 10, F below."""

    S = "S"
    A = "A"
    B = "B"
    C = "C"
    F = "F"

    @classmethod
    def of(cls, emotion: int) -> "Band":
        """The band of an emotion score in [0, 100]."""
        if emotion >= 100:
            return cls.S
        if emotion >= 70:
            return cls.A
        if emotion >= 40:
            return cls.B
        if emotion >= 10:
            return cls.C
        return cls.F

    @property
    def tone(self) -> Tone:
        """The tone in which a person in this band speaks: high (S, A), normal (B) or low (C, F)."""
        if self in (Band.S, Band.A):
            return "high"
        return "normal" if self is Band.B else "low"


class Outcome(StrEnum):
    """How a dialogue ended."""

    CONTENT = "content"
    """The emotion reached the content threshold: the person has what they came for."""
    LEFT = "left"
    """The emotion fell below the leaving threshold: the person walked away."""
    OUT_OF_TURNS = "out_of_turns"
    """The horizon was reached with the person still there."""
    FAILED = "failed"
    """The simulated user could not answer. Never a score: counted apart everywhere."""


def apply_change(emotion: int, change: int) -> int:
    """The emotion after a change, kept within [0, 100]."""
    return max(MIN_EMOTION, min(MAX_EMOTION, emotion + change))


def delta(before: int, after: int, outcome: Outcome | None) -> float:
    """The change of the emotion, in points; an episode's sum to the last minus the first."""
    return float(after - before)


def terminal(before: int, after: int, outcome: Outcome | None) -> float:
    """max(e_T, 0) / 100 with the last turn, else 0: RLVER's reward (arXiv:2507.03112, 2)."""
    return max(after, 0) / 100 if outcome is not None else 0.0


REWARDS: dict[str, Callable[[int, int, Outcome | None], float]] = {
    "delta": delta,
    "terminal": terminal,
}
