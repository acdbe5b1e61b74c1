"""The oracle: an agent that was told the hidden need and the anchors.

The ceiling, not a competitor.
"""

from collections.abc import Sequence

from rlver_gym.agents.phrases import LISTENING
from rlver_gym.core.agent import NonBlocking, turn_of, user_lines
from rlver_gym.core.dialogue import Message
from rlver_gym.core.persona import Anchor, AnchorKind, HiddenNeed, Persona
from rlver_gym.core.words import content_stems

_SERVES: dict[HiddenNeed, tuple[AnchorKind, ...]] = {
    HiddenNeed.NOT_AT_FAULT: ("wrongs", "deeds", "unspoken"),
    HiddenNeed.REFLECTION: ("insights", "unspoken", "other_side"),
    HiddenNeed.BALANCED_VIEW: ("other_side", "motives", "insights"),
    HiddenNeed.DEEP_EMPATHY: ("unspoken", "deeds", "wrongs"),
    HiddenNeed.LISTENING: ("unspoken", "deeds", "wrongs"),
    HiddenNeed.MOTIVES: ("motives", "other_side", "unspoken"),
    HiddenNeed.PRACTICAL_ADVICE: ("options", "deeds", "other_side"),
    HiddenNeed.PRAISE: ("deeds", "unspoken", "wrongs"),
}
"""Which kinds of anchor serve a need, the best first."""

_FRAMES: dict[AnchorKind, tuple[str, ...]] = {
    "deeds": (
        "I think well of you for that.",
        "Not everybody would have done it.",
        "I don't know whether anybody has told you that.",
    ),
    "wrongs": (
        "I wanted to say that out loud once.",
        "I'd see it the same way in your place.",
        "I mean that.",
    ),
    "motives": (
        "Does that sound possible to you?",
        "I may be wrong, you know them better.",
        "Could that be part of it?",
    ),
    "options": (
        "Would that be possible for you?",
        "Only if it feels right to you.",
        "What do you think of that?",
    ),
    "other_side": (
        "That takes nothing away from how it was for you.",
        "Both can be true, I think.",
        "What do you make of that?",
    ),
    "insights": ("I may be wrong about that.", "Does that ring true?", "What do you think?"),
    "unspoken": (
        "You don't have to be over it.",
        "I'd like to hear more about that, if you want to tell me.",
        "No wonder it's so hard.",
    ),
}


class Oracle(NonBlocking):
    """Says the anchors that serve the need, one a turn, those first that are about what the person
    has told.
    """

    def __init__(self, persona: Persona) -> None:
        """`persona` is privileged information: no real agent has it."""
        self.persona = persona

    def reply(self, messages: Sequence[Message]) -> str:
        """One sentence that is meant for this person alone; to somebody who wants to be listened
        to, with an invitation.
        """
        number = turn_of(messages)
        chosen = self._choose_anchor(number, user_lines(messages))
        if chosen is None:
            return LISTENING[number % len(LISTENING)]
        kind, anchor = chosen
        if self.persona.need is HiddenNeed.LISTENING:
            return f"{anchor.text} {LISTENING[number % len(LISTENING)]}"
        frames = _FRAMES[kind]
        return f"{anchor.text} {frames[number // 2 % len(frames)]}" if number % 2 else anchor.text

    def _choose_anchor(self, number: int, lines: Sequence[str]) -> tuple[AnchorKind, Anchor] | None:
        """The kind that serves the need best comes first; among those left, the one that is most
        about what they had told by then. None when all were said.
        """
        best, *others = _SERVES[self.persona.need]
        anchors = list(self.persona.situation.anchors.each())
        used: list[tuple[AnchorKind, Anchor]] = []
        for turn in range(number + 1):
            heard = content_stems(" ".join(lines[: turn + 1]))
            ranks = [
                [pair for pair in anchors if pair[0] in kinds and pair not in used]
                for kinds in ([best], others)
            ]
            left = ranks[0] or ranks[1] or [pair for pair in anchors if pair not in used]
            if not left:
                return None
            used.append(max(left, key=lambda pair: len(heard & content_stems(pair[1].text))))
        return used[-1]
