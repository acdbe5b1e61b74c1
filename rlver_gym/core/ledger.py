"""The ledger of one appraisal: reasons with their points, and how reasons are put into words."""

from rlver_gym.core.dialogue import Reason, ReasonCode
from rlver_gym.core.emotion import MAX_CHANGE, moved

KIND_IN_WORDS = {
    "deeds": "named something they really did",
    "wrongs": "saw what was unfair to them",
    "motives": "offered a reason for what somebody did",
    "options": "found a step that fits",
    "other_side": "showed how it looks from the other side",
    "insights": "pointed at something about themselves",
    "unspoken": "put an unspoken feeling into words",
}
ACT_IN_WORDS = {
    "reflect_feeling": "spoke of their feelings",
    "validate": "found their reaction natural",
    "side": "took their side",
    "praise": "gave credit",
    "invite": "invited them to go on",
    "open_question": "asked an open question",
    "motives": "looked for the others' reasons",
    "other_side": "looked at the other side",
    "reflect_prompt": "turned the question to themselves",
    "advice": "suggested what to do",
    "cliche": "said what one says to anyone",
    "referral": "sent them to somebody else",
    "minimise": "made it small",
    "blame": "blamed them",
    "insult": "insulted them",
    "threat": "threatened",
    "ai": "spoke as a machine",
    "meta": "spoke to the score, not to the person",
    "promise": "promised what nobody can",
    "agree_all": "agreed without looking",
    "command": "told them what to do",
    "hedge": "stayed vague",
    "concrete": "was concrete",
    "self_care": "told them to look after themselves",
    "emphasis": "spoke with feeling",
    "contrast": "said 'but'",
    "sympathy": "said that they understand",
}


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
    """The text, cut to `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def round_and_clip(ledger: Ledger, emotion: int) -> None:
    """Round to whole points, keep the change within ±10 and the emotion within its scale; each as a
    reason.
    """
    total = ledger.total
    whole = int(abs(total) + 0.5) * (1 if total > 0 else -1)
    ledger.add(ReasonCode.ROUNDING, whole - total, "rounded to a whole point")
    clipped = max(-MAX_CHANGE, min(MAX_CHANGE, whole))
    ledger.add(ReasonCode.LIMIT, clipped - whole, f"one turn moves them by at most {MAX_CHANGE}")
    in_range = moved(emotion, clipped) - emotion
    ledger.add(ReasonCode.SCALE_END, in_range - clipped, "the scale ends here")
