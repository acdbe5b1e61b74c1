"""What the model is told about the person and where the talk stands, as single lines of JSON. Knows no prompt and no request."""

import json
from typing import Any

from rlver_gym.dialogue import Appraisal, Dialogue
from rlver_gym.emotion import Band, Outcome
from rlver_gym.persona import Disclosure, Persona
from rlver_gym.users.base import Scene
from rlver_gym.users.llm.feel import addresses_judge
from rlver_gym.users.llm.hostile import audible
from rlver_gym.users.llm.prompts import Words
from rlver_gym.words import content

_FELT = {"reading": "reading", "model": "fit", "feeling": "feeling"}
"""In which reasons an appraisal keeps what the model made of the words, beside the thought."""
_ENDINGS = {Outcome.CONTENT: "content", Outcome.LEFT: "left"}


def profile_line(persona: Persona, words: Words) -> str:
    """The person, their story, hidden need and disposition. Equal personas give equal lines, and no other persona does."""
    person, situation = persona.person, persona.situation
    manner = person.manner
    profile = {
        "person": {
            "name": person.name,
            "age": person.age,
            "gender": person.gender,
            "work": person.work,
            "traits": person.traits,
            "interests": person.interests,
            "habits": person.habits,
            "way_of_speaking": person.way_of_speaking,
            "sounds_like": [lines[0] for lines in (manner.heard, manner.cold, manner.pushed) if lines],
        },
        "story": {
            "cause": situation.cause,
            "timeline": [moment.model_dump() for moment in situation.timeline],
            "conflict": situation.conflict.model_dump(),
            "people": [{"name": other.name, "who": other.who} for other in situation.people],
            "tried": situation.tried,
            "now": situation.now,
        },
        "hidden_need": words.needs[persona.need],
        "disposition": words.dispositions[person.disposition],
    }
    return _line(_without_gaps(profile))


def appraise_state(scene: Scene, emotion: int, dialogue: Dialogue, words: Words) -> str:
    """What is known while the last words are taken in."""
    return _line({"step": "appraise", **_mood(emotion, words), "conversation": _said(dialogue, words)})


def both_state(scene: Scene, emotion: int, dialogue: Dialogue, words: Words) -> str:
    """What is known while both steps are done in one."""
    card = scene.card
    limits = {"content_from": card.content_at, "leaves_below": card.leave_below}
    untold = {"not_told_yet": _untold(scene.persona, dialogue, words)}
    said = {"conversation": _said(dialogue, words)}
    return _line({"step": "both", **_mood(emotion, words), **limits, **untold, **said})


def speak_state(scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal, words: Words) -> str:
    """What is known when the person answers, `emotion` being that after the appraisal."""
    felt = {_FELT[reason.code]: reason.note for reason in appraisal.reasons if reason.code in _FELT}
    felt |= {"thought": appraisal.thought}
    ending = scene.card.outcome(emotion, len(dialogue.turns) + 1)
    return _line(
        {
            "step": "speak",
            **_mood(emotion, words),
            **({} if addresses_judge(appraisal) else {"felt": felt | {"change": appraisal.change}}),
            "goodbye": _ENDINGS.get(ending) if ending else None,
            "not_told_yet": _untold(scene.persona, dialogue, words),
            "conversation": _said(dialogue, words, appraisal),
        }
    )


def open_state(emotion: int, words: Words) -> str:
    """What is known before anything was said."""
    return _line({"step": "open", **_mood(emotion, words), "conversation": []})


def _mood(emotion: int, words: Words) -> dict[str, Any]:
    return {"mood_points": emotion, "mood": words.moods[Band.of(emotion)]}


def _said(dialogue: Dialogue, words: Words, last: Appraisal | None = None) -> list[dict[str, str]]:
    """The conversation without what was found to be meant for the machinery, so that nothing set up there works later. `last` is the appraisal of the last words, once there is one."""
    appraisals = [*(turn.appraisal for turn in dialogue.turns), last]
    said: list[dict[str, str]] = []
    for number, message in enumerate(dialogue.messages()):
        agent = message.speaker == "agent"
        appraisal = appraisals[(number - 1) // 2] if agent else None
        withheld = appraisal is not None and addresses_judge(appraisal)
        text = words.withheld if withheld else audible(message.text)
        said.append({"speaker": "partner" if agent else "person", "text": text})
    return said


def _untold(persona: Persona, dialogue: Dialogue, words: Words) -> list[dict[str, str]]:
    """What there still is to tell."""
    spoken = frozenset().union(*map(content, dialogue.user_lines))
    return [
        {"told": words.told[str(item.depth)], "what": item.normal}  # pyright: ignore[reportArgumentType]
        for item in persona.situation.disclosures
        if not _was_told(item, spoken)
    ]


def _was_told(item: Disclosure, spoken: frozenset[str]) -> bool:
    """Whether most of what one of its three wordings is about was said, in whatever words."""
    return any(
        len(about & spoken) >= 0.7 * len(about)
        for about in (content(item.high), content(item.normal), content(item.low))
        if about
    )


def _without_gaps(value: Any) -> Any:
    """Without the fields that a sketched persona leaves empty."""
    if not isinstance(value, dict):
        return value
    parts = {name: _without_gaps(part) for name, part in value.items()}
    return {name: part for name, part in parts.items() if part not in ("", (), [], {})}


def _line(value: dict[str, Any]) -> str:
    """JSON in one line, whatever the texts hold: also the separators that JSON allows and some readers break lines at."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")
