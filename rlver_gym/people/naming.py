"""What a line may not say, because it would name the need; and anchors that their words miss."""

import re
from itertools import pairwise

from rlver_gym.core.persona import Anchor, HiddenNeed, Situation
from rlver_gym.core.words import sentences, stems

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
    unmatched = []
    for kind, anchor in situation.anchors.each():
        anchors: tuple[Anchor, ...] = getattr(situation.anchors, kind)
        touched = [other.id for other in anchors if _touches(anchor.text, other)]
        place = f"anchors.{kind}.{anchor.id}"
        if anchor.id not in touched:
            unmatched.append(
                f"{place}: its own text does not hit its words {list(anchor.words)}. Add the words"
                " that the text uses."
            )
        if others := [name for name in touched if name != anchor.id]:
            unmatched.append(
                f"{place}: its text touches {others} as well. Give the anchors words of their own."
            )
    return unmatched


def _touches(text: str, anchor: Anchor) -> bool:
    """Whether two neighbouring sentences hit all word groups but one, and of two both."""
    groups = [[_join_stems(phrase) for phrase in group.split("|")] for group in anchor.words]
    lines = [*map(_join_stems, sentences(text)), ""]
    return any(
        sum(any(phrase in both for phrase in group) for group in groups) >= max(2, len(groups) - 1)
        for both in map("|".join, pairwise(lines))
    )


def _join_stems(text: str) -> str:
    return f" {' '.join(stems(text))} "
