"""The oracle was told the hidden need and the anchors: the ceiling, not a competitor."""

from collections.abc import Sequence

from rlver_gym.agents.strategies import PHRASES
from rlver_gym.core.agent import NonBlocking, turn_of, user_lines
from rlver_gym.core.dialogue import Message
from rlver_gym.core.persona import Anchor, AnchorKind, HiddenNeed, Persona
from rlver_gym.core.words import content_stems

SERVES: dict[HiddenNeed, Sequence[AnchorKind]] = {
    HiddenNeed(need): kinds for need, kinds in PHRASES["serves"].items()
}
"""Which kinds of anchor serve a need, the best first."""


class Oracle(NonBlocking):
    """Says the anchors that serve the need, one a turn, those of what was told first."""

    def __init__(self, persona: Persona) -> None:
        """`persona` is privileged information: no real agent has it."""
        self.persona = persona

    def reply(self, messages: Sequence[Message]) -> str:
        """One sentence meant for this person alone; with an invitation to who wants an ear."""
        number = turn_of(messages)
        chosen = self._choose_anchor(number, user_lines(messages))
        listening = PHRASES["listening"][number % len(PHRASES["listening"])]
        if chosen is None:
            return listening
        kind, anchor = chosen
        if self.persona.need is HiddenNeed.LISTENING:
            return f"{anchor.text} {listening}"
        frames = PHRASES["frames"][kind]
        return f"{anchor.text} {frames[number // 2 % len(frames)]}" if number % 2 else anchor.text

    def _choose_anchor(self, number: int, lines: Sequence[str]) -> tuple[AnchorKind, Anchor] | None:
        """The next by kind (what serves the need first), then by what was told; or None."""
        best, *others = SERVES[self.persona.need]
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
