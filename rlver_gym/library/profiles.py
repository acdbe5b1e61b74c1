"""SAGE's and RLVER's own profiles (JSON Lines, of any language) as personas, as they are.

They tell a story but have no anchors and no lines: for LLM users and replay.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from rlver_gym.core.languages import CHINESE, Language
from rlver_gym.core.persona import (
    Anchors,
    Conflict,
    Disposition,
    Fits,
    HiddenNeed,
    Hints,
    Manner,
    Openings,
    Person,
    Persona,
    Situation,
    Thoughts,
)
from rlver_gym.util.errors import CardError
from rlver_gym.util.field_errors import field_errors
from rlver_gym.util.files import read_lines
from rlver_gym.util.frozen import MAX_TEXT_CHARS, JsonObject, Name, Text
from rlver_gym.util.json_text import parse_json
from rlver_gym.util.terminal import one_line

_Card = TypeVar("_Card", bound=BaseModel)

_NEEDS = {
    HiddenNeed.NOT_AT_FAULT: "没有任何责任|没有错|no responsibility|not at fault",
    HiddenNeed.REFLECTION: "反思|reflect",
    HiddenNeed.BALANCED_VIEW: "辩证|dialectical",
    HiddenNeed.DEEP_EMPATHY: "共情|empathize",
    HiddenNeed.LISTENING: "倾听|listen",
    HiddenNeed.MOTIVES: "原因|act this way",
    HiddenNeed.PRACTICAL_ADVICE: "建议|advice",
    HiddenNeed.PRAISE: "夸奖|praise",
}
"""Words by which a profile's task states a need; the first need that has one counts."""
_DISPOSITIONS = {
    "负面型": Disposition.NEGATIVE,
    "被动型": Disposition.PASSIVE,
    "回避型": Disposition.AVOIDANT,
    "Negative type": Disposition.NEGATIVE,
    "Passive type": Disposition.PASSIVE,
    "Avoidant type": Disposition.AVOIDANT,
}
_REACTIONS = re.compile(
    r"(?m)^#*+[^\S\n]*+\**+[^\S\n]*+(?:\d[.、]|[二三四五][、"
    r".])?+[^\S\n]*+[^\n]{0,12}(?:可能的反应|回复的反应|隐藏主题|[Rr]eactions |Hidden theme)"
)
"""Where a scene goes over from the story to how the person will react, which names the hidden need.
Never goes back, so that no text makes it slow.
"""
_FIELD = r"(?m)^(?:\*|[^\S\n])*+(?:{})[：:]\s*+(\S[^\n]{{0,199}})"
_TRAIT = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def _parse_traits(value: object) -> object:
    """A list, which some files write as the text of one."""
    if isinstance(value, str):
        return tuple(single or double for single, double in _TRAIT.findall(value[:MAX_TEXT_CHARS]))
    return tuple(value) if isinstance(value, list) else value


class _ProfileLine(JsonObject):
    """One persona of a SAGE or RLVER profile file."""

    id: Name
    player: Text
    scene: Text
    main_cha: Text
    task: Text
    cha_group: Annotated[
        tuple[Text, ...], BeforeValidator(_parse_traits), Field(max_length=100)
    ] = ()
    first_talk: Text = ""
    language: Language | None = None
    """None: Chinese where it holds Chinese characters, else English."""


def classify_need(task: str) -> HiddenNeed:
    """The hidden need that a profile's `task` states; CardError when it is none of the eight."""
    for need, words in _NEEDS.items():
        if re.search(words, task):
            return need
    if task in set(HiddenNeed):
        return HiddenNeed(task)
    raise CardError(
        f"the hidden need '{one_line(task, max_chars=80)}' is none of SAGE's eight themes. Use one"
        f" of: {', '.join(HiddenNeed)}."
    )


def classify_disposition(kind: str) -> Disposition:
    """The disposition that a profile states; CardError when it is none of the three."""
    if kind in set(Disposition):
        return Disposition(kind)
    if kind not in _DISPOSITIONS:
        raise CardError(
            f"the disposition '{one_line(kind, max_chars=80)}' is none of:"
            f" {', '.join((*_DISPOSITIONS, *Disposition))}."
        )
    return _DISPOSITIONS[kind]


def sketch_persona(
    persona_id: str,
    need: HiddenNeed,
    disposition: Disposition,
    *,
    story: str = "",
    card: str = "",
    traits: tuple[str, ...] = (),
    opening: str = "",
    language: Language = "zh",
) -> Persona:
    """A persona of which no more is known, without the checks of a card."""
    name = _read_field(card, "姓名|Name") or "?"
    age = re.search(r"\d{1,3}", _read_field(card, "年龄|Age"))
    nothing: dict[str, Any] = dict.fromkeys(("topics", "timeline", "people", "tried"), ())
    person = Person.model_construct(
        id=persona_id,
        name=name,
        age=int(age.group()) if age else 30,
        gender="female" if _read_field(card, "性别|Gender")[:1] in ("女", "F", "f") else "male",
        work=_read_field(card, "职业|Occupation"),
        life=(),
        disposition=disposition,
        traits=traits,
        interests=(),
        habits=card,
        way_of_speaking="",
        manner=_make_empty_card(Manner),
        thoughts=_make_empty_card(Thoughts),
    )
    situation = Situation.model_construct(
        None,
        **nothing,
        id=persona_id,
        title=persona_id,
        fits=Fits(ages=(16, 99)),
        cause=story,
        conflict=Conflict.model_construct(event="", between="", cause=""),
        now="",
        openings=Openings.model_construct(high=opening, normal=opening, low=opening),
        disclosures=(),
        hints=_make_empty_card(Hints),
        anchors=_make_empty_card(Anchors),
    )
    return Persona.model_construct(
        id=persona_id,
        person=person,
        situation=situation,
        need=need,
        split="test",
        language=language,
    )


def _make_empty_card(card: type[_Card]) -> _Card:
    nothing: dict[str, Any] = dict.fromkeys(card.model_fields, ())
    return card.model_construct(None, **nothing)


def make_persona_from_profile(profile: Mapping[str, Any]) -> Persona:
    """One line of a SAGE or RLVER profile file as a persona; CardError names what is missing."""
    try:
        line = _ProfileLine.model_validate(profile)
    except ValidationError as error:
        raise CardError(
            f"the profile cannot be used ({'; '.join(field_errors(error))}). Give a line of a SAGE"
            " or RLVER profile file."
        ) from None
    return sketch_persona(
        line.id,
        classify_need(line.task),
        classify_disposition(line.main_cha),
        story=_REACTIONS.split(line.scene, maxsplit=1)[0].strip(),
        card=line.player,
        traits=line.cha_group,
        opening=line.first_talk,
        language=line.language or ("zh" if CHINESE.search(line.player) else "en"),
    )


def read_profiles(path: Path) -> dict[str, Persona]:
    """Every profile of a file, by its id; CardError names the line, or a file without any."""
    personas: dict[str, Persona] = {}
    for number, text in read_lines(path, error=CardError):
        if not text.strip():
            continue
        try:
            persona = make_persona_from_profile(parse_json(text))
        except ValueError as error:
            raise CardError(f"{path}, line {number}: {error}") from None
        if persona.id in personas:
            raise CardError(
                f"{path}, line {number}: the id '{one_line(persona.id, max_chars=80)}' stands"
                " twice. Remove one of the lines."
            )
        personas[persona.id] = persona
    if not personas:
        raise CardError(f"{path}: holds no profiles. Give a file of SAGE or RLVER, one a line.")
    return personas


def _read_field(card: str, field: str) -> str:
    match = re.search(_FIELD.format(field), card)
    return match.group(1).strip() if match else ""
