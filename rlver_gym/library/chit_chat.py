"""Chit-chat: who somebody is on a day on which nothing happened to them. They have an interest."""

import re
from typing import Any

from rlver_gym.core.persona import Disposition, HiddenNeed, Persona
from rlver_gym.library.expand import expand_lean_card
from rlver_gym.library.lean import LeanCard
from rlver_gym.util import shipped_cards
from rlver_gym.util.errors import CardError
from rlver_gym.util.field_errors import explain_invalid
from rlver_gym.util.frozen import Memo, cache_by_identity
from rlver_gym.util.yaml_file import read_yaml

_REST = re.compile(r"[,;(].*| (?:that|which|who|where|with|of which|twice) .*")
"""What a card says further of an interest, often as somebody else would say it."""


def make_chat_persona(persona: Persona, seed: int) -> Persona:
    """The same person with only an interest (without any: walking) on their mind, by the seed."""
    interests = persona.person.interests or ("walking",)
    return _make_persona_cache(persona)[interests[seed % len(interests)]]


@cache_by_identity
def _make_persona_cache(persona: Persona) -> Memo[str, Persona]:
    return Memo(lambda interest: _make_persona_with_interest(persona, interest), 16)


def _make_persona_with_interest(persona: Persona, interest: str) -> Persona:
    short = _REST.sub("", interest)
    short = short if short[1:2].isupper() else short[:1].lower() + short[1:]
    fields = _fill_interest(read_yaml(shipped_cards("personas") / "lean" / "chat.yaml"), short)
    person = persona.person
    who: dict[str, Any] = {"name": person.name, "age": person.age, "gender": person.gender}
    who |= {"work": person.work, "disposition": Disposition.PASSIVE, "traits": person.traits}
    end = ". Small talk takes more of a person than this profile tells: name, work and traits."
    with explain_invalid(CardError, f"{persona.id}: ", "the person", end):
        card = LeanCard(**fields, **who, speaks="as ever", need=HiddenNeed.LISTENING)
    shared, situation = expand_lean_card("nothing-in-particular", card)
    usual = {"manner": shared.manner, "thoughts": shared.thoughts, "answers": {}}
    return persona.model_copy(
        update={
            "person": person.model_copy(update=usual),
            "situation": situation,
            "need": card.need,
        }
    )


def _fill_interest(value: Any, interest: str) -> Any:
    if isinstance(value, str):
        return value.replace("{interest}", interest)
    if isinstance(value, dict):
        return {name: _fill_interest(inner, interest) for name, inner in value.items()}
    return [_fill_interest(inner, interest) for inner in value]
