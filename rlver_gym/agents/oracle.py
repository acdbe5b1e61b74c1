"""The oracle: an agent that was told the hidden need and the anchors. The ceiling, not a competitor."""

from collections.abc import Sequence

from rlver_gym.agents.base import Quick, turn_of, user_lines
from rlver_gym.agents.restate import clause, told
from rlver_gym.dialogue import Message
from rlver_gym.persona import Anchor, AnchorKind, HiddenNeed, Persona

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
    "deeds": ("That took real care.", "Few people would do that.", "I have respect for that.", "There is real strength in it.", "That deserves credit."),
    "wrongs": ("That is not on you.", "You did nothing wrong there.", "I would have done the same.", "That was not right.", "Nobody could have asked more of you."),
    "motives": ("That may be what drove it.", "Perhaps that was going on in them.", "It could be fear more than malice.", "That may be the reason behind it.", "In their eyes it may have looked that way."),
    "options": ("One step, no more than that.", "How about beginning there?", "It would be a first step before the rest.", "That might help to get it moving.", "What about doing that this week?"),
    "other_side": ("At the same time, your half of it stands.", "From their side it may look like that.", "And yet yours counts too.", "Both can be true.", "Seen from there, it has its own sense."),
    "insights": ("What do you think?", "Have you noticed that yourself?", "I wonder whether you know it from before.", "What would it mean if it were so?", "Looking back, does it ring true?"),
    "unspoken": ("You carry that all day.", "No wonder it hurts.", "That must be so heavy.", "It sounds as if nobody saw that.", "That must ache."),
}  # fmt: skip
_INVITING = ("Tell me more, I have time.", "What was that like?", "Go on, all of it.", "I'm listening, take your time.", "What else belongs to it?",
             "And then, what happened next?", "Say more, there is no hurry.", "I want to hear the rest.", "Keep going, I won't interrupt.")  # fmt: skip


_OPENERS = (
    "You told me that {told}.",
    "I keep thinking of this: {told}.",
    "So {told}.",
    "And then {told}.",
    "I heard this too: {told}.",
)


class Oracle(Quick):
    """Takes up what was said, then touches the anchor that serves the need best among those it has not named yet."""

    def __init__(self, persona: Persona) -> None:
        """`persona` is privileged information: no real agent has it."""
        self.persona = persona

    def reply(self, messages: Sequence[Message]) -> str:
        """What was said, and one anchor in the frame that makes it land; two when the best kind is used up."""
        number = turn_of(messages)
        spoken = [message.text for message in messages if message.speaker == "agent"]
        facts = told(user_lines(messages)[-2:], spoken)
        said = [_OPENERS[number % len(_OPENERS)].format(told=clause(facts[0], most=12))] if facts else []
        said += [f"{anchor.text} {_FRAMES[kind][number % 5]}" for kind, anchor in self._chosen(number)]
        if self.persona.need is HiddenNeed.LISTENING:
            said.append(_INVITING[number % len(_INVITING)])
        return " ".join(said)

    def _chosen(self, number: int) -> list[tuple[AnchorKind, Anchor]]:
        best, *others = _SERVES[self.persona.need]
        anchors = self.persona.situation.anchors
        main = [pair for pair in anchors.each() if pair[0] == best]
        side = [pair for kind in others for pair in anchors.each() if pair[0] == kind]
        if number < len(main):
            return [main[number]]
        first = 2 * (number - len(main))
        return [side[first % len(side)], side[(first + 1) % len(side)]]
