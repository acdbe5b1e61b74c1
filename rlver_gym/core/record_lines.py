"""The lines of recordings and profiles as others write them: which fields, of which types,
within which bounds. Reads no file.
"""

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from rlver_gym.core.emotion import MAX_EMOTION, MIN_EMOTION
from rlver_gym.core.languages import Language
from rlver_gym.util.terminal import one_line

MAX_TEXT_CHARS = 32_000
"""Of one text: three times the longest that SAGE's agents said."""
MAX_MESSAGES = 200
"""Of one dialogue."""


class JsonObject(BaseModel):
    """A JSON object of a file from others; further fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)]
Name = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
    StringConstraints(min_length=1, max_length=200),
    AfterValidator(one_line),
]
Emotion = Annotated[float, Field(ge=MIN_EMOTION, le=MAX_EMOTION)]
Change = Annotated[float, Field(ge=MIN_EMOTION - MAX_EMOTION, le=MAX_EMOTION - MIN_EMOTION)]


class Message(JsonObject):
    """Something said; what the user says may carry the emotion after it, and its change."""

    text: Text
    role: Literal["user", "agent"] | None = None
    emotion: Emotion | None = None
    change: Change | None = None


def _check_turn_order(messages: list[Message]) -> list[Message]:
    if any(one.role not in (None, ("user", "agent")[at % 2]) for at, one in enumerate(messages)):
        raise ValueError("the dialogue must go user, agent, user, …")
    return messages


Messages = Annotated[
    list[Message], Field(min_length=1, max_length=MAX_MESSAGES), AfterValidator(_check_turn_order)
]


class RecordingLine(JsonObject):
    """One dialogue that was held with a judge; need and disposition may be left out for a shipped
    persona.
    """

    simulator: Name
    agent: Name
    persona: Name
    need: Text | None = None
    disposition: Text | None = None
    final: Emotion | None = None
    messages: Messages


_TRAIT = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def _parse_traits(value: object) -> object:
    """A list, which some files write as the text of one."""
    if isinstance(value, str):
        return tuple(single or double for single, double in _TRAIT.findall(value[:MAX_TEXT_CHARS]))
    return tuple(value) if isinstance(value, list) else value


class ProfileLine(JsonObject):
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
