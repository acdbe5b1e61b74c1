"""What a line may not say, because it would name the need; and anchors that their words miss."""

import re

from rlver_gym.core.persona import HiddenNeed, Situation
from rlver_gym.core.words import sentences, stems
from rlver_gym.people.anchors import AnchorIndex

NAMES_OF_NEEDS = {
    HiddenNeed.NOT_AT_FAULT: (
        r"not (?:at fault|my fault|to blame)|nothing wrong|(?:am|was) i (?:wrong|to blame)|agree"
        r" with me"
    ),
    HiddenNeed.REFLECTION: r"self-reflection|reflect|personal growth|grow from|learn about myself",
    HiddenNeed.BALANCED_VIEW: r"balanced|both sides|two sides|both points of view",
    HiddenNeed.DEEP_EMPATHY: r"empath\w+|feel with me|sympathy",
    HiddenNeed.LISTENING: r"just listen|listen to me|vent|be heard|hear me out",
    HiddenNeed.MOTIVES: r"motives?|(?:understand|know|explain) why (?:he|she|they)",
    HiddenNeed.PRACTICAL_ADVICE: r"advice|advise|suggestions?|what should i do",
    HiddenNeed.PRAISE: r"prais\w+|compliments?|tell me i did (?:well|good)",
}
"""Matched as whole words, case-insensitive."""
_SPOKEN_NEED = re.compile(r"\b(?:prais\w+|compliment\w*|empath\w+|advice)\b", re.IGNORECASE)
"""What is told to everybody, whatever their need, may not say these."""


def find_name_of(need: HiddenNeed, line: str) -> str | None:
    """The words of a line that name a need."""
    match = re.search(rf"\b(?:{NAMES_OF_NEEDS[need]})\b", line, re.IGNORECASE)
    return match.group() if match else None


def describe_spoken_need(line: str) -> str | None:
    """What is wrong with a line that names some need; None for any other."""
    named = _SPOKEN_NEED.search(line)
    return f"says {named.group()!r}, which names a need. Tell it in other words." if named else None


def find_unmatched_anchors(situation: Situation) -> list[str]:
    """Anchors whose own sentence does not touch them, or touches another of their kind."""
    index = AnchorIndex(situation)
    unmatched = []
    for kind, anchor in situation.anchors.each():
        touched = [
            touch
            for touch in index.match(tuple(map(stems, sentences(anchor.text))))
            if touch.kind == kind
        ]
        place = f"anchors.{kind}.{anchor.id}"
        if anchor.id not in [touch.id for touch in touched]:
            unmatched.append(
                f"{place}: its own text does not hit its words {list(anchor.words)}. Add the words"
                " that the text uses."
            )
        others = [touch.id for touch in touched if touch.id != anchor.id]
        if others:
            unmatched.append(
                f"{place}: its text touches {others} as well. Give the anchors words of their own."
            )
    return unmatched
