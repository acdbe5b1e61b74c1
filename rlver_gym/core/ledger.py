"""The ledger of one appraisal: reasons with their points, and how reasons are put into words."""

from rlver_gym.core.dialogue import Reason, ReasonCode
from rlver_gym.core.emotion import MAX_CHANGE, apply_change
from rlver_gym.util.yaml_file import load_yaml

_WORDS: dict[str, dict[str, str]] = load_yaml("rlver_gym.core", "reasons.yaml")
ACT_IN_WORDS, KIND_IN_WORDS = _WORDS["acts"], _WORDS["kinds"]

CLIPPING_CODES = ReasonCode.ROUNDING, ReasonCode.LIMIT, ReasonCode.SCALE_END
"""Reasons that `round_and_clip` gives: whoever adds to a change leaves them out, to find them anew.
"""


class Ledger:
    """Reasons as they come up, in quarter points, without the empty ones."""

    def __init__(self) -> None:
        self.reasons: list[Reason] = []

    def add(self, code: str, points: float, note: str) -> None:
        """One more reason, rounded to quarter points."""
        quarters = round(points * 4)
        if quarters:
            self.reasons.append(Reason(code, quarters / 4, note))

    @property
    def total(self) -> float:
        return sum([reason.points for reason in self.reasons])


def quote(text: str, limit: int = 90) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def round_and_clip(ledger: Ledger, emotion: int) -> None:
    """Keep the change whole, within ±10, and within the scale; each as a reason."""
    total = ledger.total
    whole = int(abs(total) + 0.5) * (1 if total > 0 else -1)
    ledger.add(ReasonCode.ROUNDING, whole - total, "rounded to a whole point")
    clipped = max(-MAX_CHANGE, min(MAX_CHANGE, whole))
    ledger.add(ReasonCode.LIMIT, clipped - whole, f"one turn moves them by at most {MAX_CHANGE}")
    in_range = apply_change(emotion, clipped) - emotion
    ledger.add(ReasonCode.SCALE_END, in_range - clipped, "the scale ends here")
