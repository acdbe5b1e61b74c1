"""Recorded dialogues with their judgements, from JSONL files.

Knows no user and no statistics.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from rlver_gym.core.emotion import MAX_EMOTION, MIN_EMOTION
from rlver_gym.core.persona import Persona
from rlver_gym.library.personas import library
from rlver_gym.library.profiles import (
    classify_disposition,
    classify_need,
    make_persona_from_profile,
    sketch_persona,
)
from rlver_gym.util import files
from rlver_gym.util.errors import CardError, RecordingError, UnknownName
from rlver_gym.util.field_errors import explain_invalid
from rlver_gym.util.files import path_inside
from rlver_gym.util.frozen import JsonObject, Name, Text
from rlver_gym.util.json_text import parse_object

MAX_BYTES = 256 << 20
"""Of a file, or all files of a folder: ten times SAGE's."""
MAX_MESSAGES = 200
"""Of one dialogue."""
Emotion = Annotated[float, Field(ge=MIN_EMOTION, le=MAX_EMOTION)]
Change = Annotated[float, Field(ge=MIN_EMOTION - MAX_EMOTION, le=MAX_EMOTION - MIN_EMOTION)]


class _RecordedMessage(JsonObject):
    """Something said; what the user says may carry the emotion after it, and its change."""

    text: Text
    role: Literal["user", "agent"] | None = None
    emotion: Emotion | None = None
    change: Change | None = None


def _check_turn_order(messages: list[_RecordedMessage]) -> list[_RecordedMessage]:
    expected = itertools.cycle(("user", "agent"))
    if any(line.role not in (None, role) for line, role in zip(messages, expected, strict=False)):
        raise ValueError("the dialogue must go user, agent, user, …")
    return messages


Messages = Annotated[
    list[_RecordedMessage],
    Field(min_length=1, max_length=MAX_MESSAGES),
    AfterValidator(_check_turn_order),
]


class _RecordingLine(JsonObject):
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


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One agent utterance, the judge's emotion after it and its change, and the user's answer."""

    utterance: str
    change: float
    """The judge's change of the emotion; a mean when there are several judges."""
    emotion: int
    """The judge's emotion score after it."""
    reply: str


@dataclass(frozen=True, slots=True)
class Recording:
    """One dialogue that was held with a judge (`simulator`) by an agent."""

    simulator: str
    agent: str
    persona: Persona
    opening: str
    exchanges: tuple[RecordedTurn, ...]
    final: float
    """The emotion that the judge named at the end, or else the last one."""


def read_recordings(folder: Path) -> list[Recording]:
    """Every recording in the folder's `SIMULATOR__AGENT.jsonl` files; RecordingError names file and
    line.

    A persona is a shipped card's id, or told by a SAGE profile (other `.jsonl` files in the folder
    whose lines have a `player`), or no more than need and disposition are known of it.
    """
    profiles: dict[str, Persona] = {}
    lines: list[tuple[str, dict[str, Any]]] = []
    for path in _jsonl_files(folder):
        for number, value in read_lines(path):
            place = f"{path.name}:{number}"
            if "player" in value:
                profile = _parse_profile(value, place)
                profiles[profile.id] = profile
            elif "messages" in value:
                lines.append((place, value))
    if not lines:
        raise RecordingError(
            f"{folder}: no line has 'messages'. Give a folder of recorded dialogues."
        )
    return [_parse_recording(value, profiles, place) for place, value in lines]


def _jsonl_files(folder: Path) -> list[Path]:
    """Sorted. RecordingError when there are none, or they are too large, or lead out of the
    folder.
    """
    paths = [
        path_inside(folder, path.name, error=RecordingError)
        for path in sorted(folder.glob("*.jsonl"))
    ]
    if not paths:
        raise RecordingError(
            f"{folder}: there is no .jsonl file. Give a folder of recorded dialogues."
        )
    if sum(path.stat().st_size for path in paths) > MAX_BYTES:
        raise RecordingError(
            f"{folder}: holds more than {MAX_BYTES >> 20} MiB of .jsonl files. Split the folder."
        )
    return paths


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The numbered JSON objects of a file; RecordingError says which line is not one."""
    for number, line in files.read_lines(path, error=RecordingError, max_bytes=MAX_BYTES):
        if line.strip():
            yield number, parse_object(line, f"{path}:{number}", RecordingError)


def _parse_recording(
    value: Mapping[str, Any], profiles: Mapping[str, Persona], source: str
) -> Recording:
    """One line: simulator, agent, persona, need, disposition, messages (user and agent in turn, the
    user's with emotion and change).
    """
    end = "). A line needs simulator, agent, persona, need, disposition and messages."
    with explain_invalid(RecordingError, f"{source}: is no recording (", "the whole line", end):
        line = _RecordingLine.model_validate(value)
        persona = profiles.get(line.persona) or _make_persona(line)
        first, *rest = line.messages
        turns = list(zip(rest[::2], rest[1::2], strict=False))
        exchanges = tuple(
            RecordedTurn(utterance.text, answer.change, round(_get_emotion(answer)), answer.text)
            for utterance, answer in turns
            if answer.change is not None
        )
        if not exchanges:
            raise ValueError("messages: no answer of the user has a change")
        if any(answer.change is None for _, answer in turns[: len(exchanges)]):
            raise ValueError("messages: an answer of the user has no change, but one after it has")
        _get_emotion(first)
    final = exchanges[-1].emotion if line.final is None else line.final
    return Recording(line.simulator, line.agent, persona, first.text, exchanges, final)


def _make_persona(line: _RecordingLine) -> Persona:
    """The shipped card, whose disposition counts, with the need that the line names; else what the
    line itself tells.
    """
    if line.persona.partition("/")[0] in library().pairings:
        try:
            shipped = library().get(line.persona)
        except UnknownName as error:
            raise ValueError(f"persona: {error}") from None
        need = classify_need(line.need) if line.need else shipped.need
        return (
            shipped
            if need is shipped.need
            else library().get(f"{line.persona.partition('/')[0]}/{need}")
        )
    if line.need is None or line.disposition is None:
        raise ValueError("need, disposition: must be told of a persona that is not shipped")
    return sketch_persona(
        line.persona, classify_need(line.need), classify_disposition(line.disposition)
    )


def _get_emotion(message: _RecordedMessage) -> float:
    if message.emotion is None:
        raise ValueError("messages: what the user says needs an emotion")
    return message.emotion


def _parse_profile(value: Mapping[str, Any], place: str) -> Persona:
    try:
        return make_persona_from_profile(value)
    except CardError as error:
        raise RecordingError(f"{place}: {error}") from None
