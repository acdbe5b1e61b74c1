"""What `info` says of a dialogue, and how much of it a real supporter could know."""

from typing import Any, Literal, get_args

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.dialogue import Appraisal, Turn
from rlver_gym.core.emotion import Band, Outcome
from rlver_gym.environment.session import EmpathySession
from rlver_gym.util.errors import UnknownName

InfoChoice = Literal["public", "privileged"]
"""Whether `info` holds what a supporter could know, or everything."""
_OF_EMOTION = ("emotion", "change", "band")
PRIVILEGED = ("hidden_need", *_OF_EMOTION, "thought", "reasons", "spread")


def describe_turn(session: EmpathySession, turn: Turn | None, cut_chars: int) -> dict[str, Any]:
    emotion, dialogue, outcome = session.snapshot()
    persona = session.scene.persona
    appraisal = turn.appraisal if turn else Appraisal(0, "", ())
    return {
        "emotion": emotion,
        "change": appraisal.change,
        "band": str(Band.of(emotion)),
        "turn": len(dialogue.turns) if dialogue else 0,
        "outcome": str(outcome) if outcome else None,
        "valid": outcome is not Outcome.FAILED,
        "thought": appraisal.thought,
        "reasons": [
            {"code": str(code), "points": points, "note": note}
            for code, points, note in appraisal.reasons
        ],
        **({} if appraisal.spread is None else {"spread": appraisal.spread}),
        "persona": persona.id,
        "hidden_need": str(persona.need),
        "cut_chars": cut_chars,
    }


def select_info(info: dict[str, Any], choice: InfoChoice, card: EnvCard) -> dict[str, Any]:
    if choice == "privileged":
        return info
    shown = _OF_EMOTION if card.shows_emotion else ()
    public = {name: info[name] for name in info if name not in PRIVILEGED or name in shown}
    return public | {"persona": info["persona"].partition("/")[0]}


def check_info_choice(choice: object) -> InfoChoice:
    for known in get_args(InfoChoice):
        if choice == known:
            return known
    raise UnknownName.of("info", choice, get_args(InfoChoice), '"public" or "privileged"')
