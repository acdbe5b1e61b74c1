"""Deeds: who does what in a sentence, roughly: the subject and the first verb behind it. Knows no card."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rlver_gym.conversation.parse import NEGATIONS
from rlver_gym.conversation.tokens import PRONOUNS, YOU, token_of

_SKIPPED = frozenset(
    """is are was were am be been being has have had having do does did will would can could should shall may might must not never no just only even still already also
    always often once really actually then so to up the a an very quite almost nearly first finally later simply both all own that which who it there""".split()
)
_PASSIVE = frozenset("was were been be being is are got".split())
_BREAKS = frozenset(
    "because if when while although though since until after before where why how what as than whether".split()
)
_REACH = 5
"""How many words may stand between a subject and its verb."""


class Deed(NamedTuple):
    """Somebody does something."""

    subject: str
    verb: str
    is_negative: bool


def deeds_of(words: Sequence[str], people: Mapping[str, str], first_person: str = YOU) -> tuple[Deed, ...]:
    """Who does what. `people`: token of a name or relation → of whom; pronouns for others stay as they are."""
    found: list[Deed] = []
    subject, since, negative, passive = "", 0, False, False
    for word in words:
        token = first_person if word in ("i", "we") else token_of(word)
        who = people.get(token, token if token in PRONOUNS or token == YOU else "")
        if word in ("me", "my", "mine", "your", "yours", "his", "her", "him", "them", "their", "us", "our"):
            who = ""
            if word in ("me", "him", "them", "us"):
                continue
        if who:
            subject, since, negative, passive = who, 0, False, False
        elif word in ("and", "then", "or", "but") and found:
            subject, since, negative, passive = subject or found[-1].subject, 0, False, False
        elif word in _BREAKS:
            subject = ""
        elif subject:
            negative |= word in NEGATIONS
            passive |= word in _PASSIVE
            since += 1
            if word in _SKIPPED:
                continue
            if token and since <= _REACH and not (passive and word.endswith(("ed", "en"))):
                found.append(Deed(subject, token, negative))
            subject = ""
    return tuple(found)
