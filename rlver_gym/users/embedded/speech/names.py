"""Names: what the person says to "What's her name?"."""

import re

from rlver_gym.conversation.knowledge import RELATIONS
from rlver_gym.conversation.parse import Question
from rlver_gym.core.persona import Other
from rlver_gym.text.tokens import tokens_of
from rlver_gym.users.embedded.speech.moment import Moment

_ASKS_NAME = re.compile(
    r"^what (?:is|was|are|were) (?P<whose>.+?) (?:first |full |last )?name(?: again| then)?$"
    r"|^what (?:is|was|are|were) (?P<called>.+?) called(?: again| then)?$"
    r"|^what (?:do|did) (?:you|they|people) call (?P<call>him|her|them|it|your \w+|the \w+)$"
)
"""In the words of a question, which have no apostrophes and no possessive s."""
_TELLS_NAME = re.compile(r"\b(?:name|names|named|called)\b", re.IGNORECASE)
_THEIR_OWN = frozenset({"your", "you", "i", "me"})
_OBJECT = {"he": "him", "she": "her", "they": "them"}


def whose_name(question: Question) -> tuple[str, ...] | None:
    """The words that say whose name a question asks for, ("your", "sister"); None when it asks for
    something else.
    """
    found = _ASKS_NAME.match(" ".join(question.words))
    return tuple(found[found.lastgroup].split()) if found and found.lastgroup else None


def answer_name(moment: Moment, whose: tuple[str, ...]) -> tuple[str, ...]:
    """Ways to say who it is by name; none when the story does not say whom they mean, or names no
    such one.
    """
    if _THEIR_OWN.issuperset(whose):
        name = moment.scene.persona.person.name
        return f"I'm {name}.", f"{name}, as I said."
    token = moment.answerer.resolve_description(whose)
    people = zip(moment.known.people, moment.scene.persona.situation.people, strict=True)
    return next((_tell_name(other) for one, other in people if one.token == token), ())


def tells_name(text: str) -> bool:
    """Whether a text says what somebody or something is called."""
    return _TELLS_NAME.search(text) is not None


def _tell_name(other: Other) -> tuple[str, ...]:
    """The name; of a father who is "Dad" to them, that he is."""
    if not RELATIONS.isdisjoint(tokens_of([other.name.casefold()])):
        return (f"I just call {_OBJECT[other.pronoun]} {other.name}.",)
    return f"{other.name}.", f"{other.name}, as I said."
