"""Values as the pages get them: plain, and all that a reader of a dialogue needs."""

from typing import Any

from rlver_gym.core.persona import Persona
from rlver_gym.environment.episode import turn_to_dict
from rlver_gym.environment.session import EmpathySession

Json = dict[str, Any]
_OF_PERSON = {"name", "age", "work", "traits", "habits", "disposition"}


def view_person(persona: Persona) -> Json:
    """Who somebody is, what happened to them, and (to be hidden by the page) what they need."""
    person, situation = persona.person, persona.situation
    return {
        "id": persona.id,
        **person.model_dump(mode="json", include=_OF_PERSON),
        "speaks": person.way_of_speaking,
        **situation.model_dump(mode="json", include={"title", "cause", "now"}),
        "timeline": [[event.when, event.what, event.felt] for event in situation.timeline],
        "need": persona.need.value,
        "hints": list(situation.hints.of(persona.need)),
    }


def view_session(session: EmpathySession) -> Json:
    card, dialogue = session.scene.card, session.dialogue
    return {
        "env": card.id,
        "seed": session.scene.seed,
        "start": card.start,
        "horizon": card.turns,
        "emotion": session.emotion,
        "opening": dialogue.opening,
        "turns": [turn_to_dict(turn) for turn in dialogue.turns],
        "outcome": session.outcome,
        "person": view_person(session.scene.persona),
    }
