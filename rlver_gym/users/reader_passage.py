"""What the encoder is given of one utterance to one person: the reply first, then what it answers, then the story. Pure."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.persona import Persona

MOST_REPLY, MOST_LAST, MOST_BEFORE, MOST_STORY = 100, 60, 16, 48
"""Tokens of the reply, of the person's last words, of those before, and of their story."""


class Passage(NamedTuple):
    """Token ids, and how many of them are the reply with the marks around it."""

    ids: list[int]
    reply: int


def lay_out_passage(
    tokenize: Callable[[str], Sequence[int]], begin: int, between: int, persona: Persona, dialogue: Dialogue
) -> Passage:
    """Lay out an utterance and what it is to be read with.

    `tokenize` gives the ids of a text without marks; `begin` and `between` are the encoder's marks at the beginning and between parts.
    """
    lines = dialogue.user_lines
    situation = persona.situation
    reply = list(tokenize(dialogue.utterance or ""))[:MOST_REPLY]
    person = list(tokenize(f"{persona.need.replace('_', ' ')}. {persona.person.disposition}."))
    last = list(tokenize(lines[-1]))[:MOST_LAST]
    before = list(tokenize(lines[-2]))[-MOST_BEFORE:] if len(lines) > 1 else []
    story = list(tokenize(f"{situation.cause} {situation.now}"))[:MOST_STORY]
    ids = [begin, *reply, between, *person, *last, between, *before, between, *story]
    return Passage(ids, len(reply) + 2)
