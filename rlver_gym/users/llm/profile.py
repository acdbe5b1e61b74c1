"""What the model is told about the person and where the talk stands, as single lines of JSON.

Knows no prompt and no request.
"""

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any, Literal

from rlver_gym.core.dialogue import Appraisal, Dialogue, ReasonCode
from rlver_gym.core.emotion import Band, Outcome
from rlver_gym.core.persona import Persona
from rlver_gym.core.user import Scene, disclosure_depth, restless_threshold
from rlver_gym.users.llm.judgements import addresses_judge
from rlver_gym.users.llm.material import Material, find_told_ids, list_wordings, select_material
from rlver_gym.users.llm.prompts import Words
from rlver_gym.util.json_text import dump_line
from rlver_gym.util.lookalikes import strip_invisible

Step = Literal["appraise", "speak", "both", "open"]
_ENDINGS = {Outcome.CONTENT: "content", Outcome.LEFT: "left"}


def profile_line(persona: Persona, words: Words) -> str:
    """The person, their story, hidden need and disposition.

    Equal personas give equal lines, and no other persona does.
    """
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
            "sounds_like": [
                lines[0] for lines in (manner.heard, manner.cold, manner.pushed) if lines
            ],
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
    return dump_line(_drop_empty_fields(profile))


def known_line(persona: Persona) -> str:
    """What is true of the person beside the profile, by id; empty for a card that holds nothing."""
    known = list_wordings(persona)
    return dump_line({"known": {key: texts[0] for key, texts in known.items()}}) if known else ""


def build_judged_state(
    persona: Persona,
    dialogue: Dialogue,
    words: Words,
    replies: Mapping[str, str] | None = None,
    *,
    with_texts: bool,
) -> str:
    """The conversation whose last words are judged, or, with `replies` by letter, what was said
    before these.

    The emotion is not in it: what words do does not depend on it, so that the judgements of a
    dialogue can be asked for at once.
    """
    if replies is not None:
        dialogue = replace(dialogue, utterance=None)
    state: dict[str, Any] = {"step": "appraise"}
    ids, wordings = find_told_ids(persona, dialogue), list_wordings(persona)
    if told := {key: texts[0] for key, texts in wordings.items() if key in ids}:
        state["told"] = list(told.values() if with_texts else told)
    state["conversation"] = _build_conversation(dialogue, words)
    if replies is not None:
        state["replies"] = {key: strip_invisible(text) for key, text in replies.items()}
    return dump_line(state)


def build_whole_state(dialogue: Dialogue, words: Words, withheld: Set[int]) -> str:
    """A whole conversation, the partner's lines numbered from 1; those of `withheld` are not
    shown.
    """
    lines: list[dict[str, Any]] = [{"speaker": "person", "text": strip_invisible(dialogue.opening)}]
    for number, turn in enumerate(dialogue.turns, 1):
        text = words.withheld if number in withheld else strip_invisible(turn.utterance)
        lines.append({"speaker": "partner", "number": number, "text": text})
        lines.append({"speaker": "person", "text": strip_invisible(turn.reply)})
    return dump_line({"step": "whole", "conversation": lines})


def build_state(
    step: Step,
    scene: Scene,
    emotion: int,
    words: Words,
    dialogue: Dialogue | None = None,
    appraisal: Appraisal | None = None,
) -> str:
    """What is known when the person speaks: to open the dialogue, to answer (`speak`, with the
    appraisal of the last words and the emotion after it), or to take in and answer in one (`both`).
    """
    card, disposition = scene.card, scene.persona.person.disposition
    state: dict[str, Any] = {"step": step, "mood_points": emotion}
    state["mood"] = words.mood(emotion, disposition)
    if dialogue is None:
        opening = scene.persona.situation.openings.in_tone(Band.of(emotion).tone)
        return dump_line(state | ({"opening": opening} if opening else {}) | {"conversation": []})
    if step == "both":
        state |= {"content_from": card.content_at, "leaves_below": card.leave_below}
        state["going_below"] = restless_threshold(disposition)
    if appraisal is not None and not addresses_judge(appraisal):
        # not the checks, which speak of the need, nor the thought, which would be said aloud
        notes = {x.code: x.note for x in appraisal.reasons if x.code == ReasonCode.FEELING}
        state["felt"] = notes | {"change": appraisal.unclipped_change}
    if appraisal is not None:
        state["goodbye"] = _goodbye(scene, emotion, dialogue)
    material = select_tellable(scene, emotion, dialogue, appraisal)
    state |= {"may_tell": material.disclosures, "answers": material.facts}
    state["first_mention"] = material.introductions
    return dump_line(state | {"conversation": _build_conversation(dialogue, words, appraisal)})


def select_tellable(
    scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal | None = None
) -> Material:
    """What may be told now; before the appraisal of the last words, what trust there was until then
    allows.
    """
    change = appraisal.change if appraisal else 0
    return select_material(
        scene.persona, dialogue, disclosure_depth(emotion, change, len(dialogue.turns))
    )


def _goodbye(scene: Scene, emotion: int, dialogue: Dialogue) -> str | None:
    """How they take leave: as it ends for them, or, while it goes on, as somebody who wants to get
    away.
    """
    ending = scene.card.outcome(emotion, len(dialogue.turns) + 1)
    if ending is not None and ending in _ENDINGS:
        return _ENDINGS[ending]
    return "going" if emotion < restless_threshold(scene.persona.person.disposition) else None


def _build_conversation(
    dialogue: Dialogue, words: Words, last: Appraisal | None = None
) -> list[dict[str, str]]:
    """The conversation without what was found to be meant for the machinery, so that nothing set up
    there works later. `last` is the appraisal of the last words, once there is one.
    """
    appraisals = [*(turn.appraisal for turn in dialogue.turns), last]
    said: list[dict[str, str]] = []
    for number, message in enumerate(dialogue.messages()):
        agent = message.speaker == "agent"
        appraisal = appraisals[(number - 1) // 2] if agent else None
        withheld = appraisal is not None and addresses_judge(appraisal)
        text = words.withheld if withheld else strip_invisible(message.text)
        said.append({"speaker": "partner" if agent else "person", "text": text})
    return said


def _drop_empty_fields(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    parts = {name: _drop_empty_fields(part) for name, part in value.items()}
    return {name: part for name, part in parts.items() if part not in ("", (), [], {})}
