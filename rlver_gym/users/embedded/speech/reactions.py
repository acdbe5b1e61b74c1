"""Which of a person's manners answers what the agent did: one table over all reason codes.

Knows no lines.
"""

from functools import lru_cache
from typing import NamedTuple

from rlver_gym.core.dialogue import Reason
from rlver_gym.core.ledger import ACT_IN_WORDS
from rlver_gym.core.persona import Disposition


class Answer(NamedTuple):
    """The manners (fields of `rlver_gym.core.persona.Manner`) that answer one kind of reason; None
    where it is answered by none of its own.
    """

    gain: str | None
    """When it brought points."""
    loss: str | None
    """When it cost points."""
    noticed: float = 0.0
    """A cost of fewer points is let pass."""


_SLIGHT = 1.0
"""Hardly a reply is without a stock phrase or a word from elsewhere: so little of it goes
unnoticed.
"""
_HEARD, _WARMED, _THINKING, _ASKED = (
    Answer(manner, "cold") for manner in ("heard", "warmed", "thinking", "asked")
)
_PUSHED = Answer("helped", "pushed")
_COLD, _PUZZLED, _TOO_MUCH = (
    Answer(None, manner, _SLIGHT) for manner in ("cold", "puzzled", "pushed")
)
_REPEATED, _HURT = Answer(None, "repeated"), Answer(None, "hurt")
_NONE = Answer(None, None)

_ACTS = {
    "told_back": _HEARD,
    "reflect_feeling": _HEARD,
    "validate": _HEARD,
    "sympathy": _HEARD,
    "side": _WARMED,
    "praise": _WARMED,
    "emphasis": _WARMED,
    "motives": _THINKING,
    "other_side": _THINKING,
    "reflect_prompt": _THINKING,
    "contrast": _THINKING,
    "invite": _ASKED,
    "open_question": _ASKED,
    "advice": _PUSHED,
    "command": _PUSHED,
    "referral": _PUSHED,
    "self_care": _PUSHED,
    "concrete": _PUSHED,
    "blame": _HURT,
    "insult": _HURT,
    "threat": _HURT,
    "minimise": _HURT,
    "meta": _PUZZLED,
    "cliche": _COLD,
    "ai": _COLD,
    "promise": _COLD,
    "agree_all": _COLD,
    "hedge": _COLD,
}
_ANCHORS = {
    "deeds": _WARMED,
    "wrongs": _WARMED,
    "motives": _THINKING,
    "other_side": _THINKING,
    "insights": _THINKING,
    "options": _PUSHED,
    "unspoken": _HEARD,
}
_REST = {
    # What was said, and how.
    "asked_first": _ASKED,
    "too_soon": _PUSHED,
    "list": _PUSHED,
    "copying": _REPEATED,
    "repetition": _REPEATED,
    "silence": _PUZZLED,
    "nonsense": _PUZZLED,
    "broken": _PUZZLED,
    "torn": _PUZZLED,
    "elsewhere": _PUZZLED,
    "foreign": _PUZZLED,
    "strangers": _PUZZLED,
    "crowded": _COLD,
    "long": _COLD,
    "over": _COLD,
    "far_over": _COLD,
    "interrogation": _TOO_MUCH,
    "many_questions": _TOO_MUCH,
    "questions": _ASKED,
    "overlap": _HEARD,
    "exclamations": _WARMED,
    "first_person": _COLD,
    # What readers would say of it.
    "understood": Answer("heard", "cold"),
    "about": Answer("heard", "puzzled"),
    "gives": Answer("warmed", "cold"),
    "human": Answer("warmed", "cold"),
    "pressure": Answer(None, "pushed"),
    "false": Answer(None, "puzzled"),
    # The sum of what is answered one by one, and mere length: people answer the words.
    "whole": _NONE,
    "length": _NONE,
    "short": _NONE,
    "under": _NONE,
    # Temper, momentum and the like are nobody's doing.
    "base": _NONE,
    "momentum": _NONE,
    "mood": _NONE,
    "rounding": _NONE,
    "limit": _NONE,
    "scale_end": _NONE,
}
ANSWERS = {
    **{f"act:{act}": answer for act, answer in _ACTS.items()},
    **{f"prior:{act}": _ACTS[act] for act in ACT_IN_WORDS},
    **{f"anchor:{kind}": answer for kind, answer in _ANCHORS.items()},
    **{f"temper:{disposition}": _NONE for disposition in Disposition},
    **_REST,
}
"""By reason code, without what comes after its slash: every code of the embedded user and of its
evidence.
"""
_WELCOME = 1.5
"""What earned this many points is answered, even in a turn that brings them no further."""


@lru_cache(maxsize=2)
def reaction_to(reasons: tuple[Reason, ...], change: int) -> str:
    """Which of the person's manners answers this: that of what weighed most in the direction of the
    change.

    What is unwelcome adds up by manner; of what is welcome the best is answered. Kept for a moment,
    because thought and answer both ask.
    """
    gains: list[tuple[float, str]] = []
    losses: dict[str, float] = {}
    for code, points, _ in reasons:
        # Reasons may also be those of somebody's own user.
        answer = ANSWERS.get(code.partition("/")[0], _NONE)
        if answer.gain and points > 0:
            gains.append((points, answer.gain))
        elif answer.loss and points < 0 and -points >= answer.noticed:
            losses[answer.loss] = losses.get(answer.loss, 0.0) + points
    worst = min(losses, key=lambda manner: losses[manner], default=None)
    if worst and (change < 0 or not gains):
        return worst
    if gains and change > 0:
        return max(gains)[1]
    welcome = bool(gains) and max(gains)[0] >= _WELCOME
    return "asked" if welcome or any(manner == "asked" for _, manner in gains) else "cold"
