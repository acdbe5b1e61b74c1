"""Recorded dialogues and ratings with their judgements, from JSONL files.

Knows no user and no statistics.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rlver_gym.core.dialogue import Appraisal, Dialogue, Turn
from rlver_gym.core.library import field_errors, library
from rlver_gym.core.persona import Persona
from rlver_gym.data.record_lines import Described, Message, RatingLine, RecordingLine
from rlver_gym.data.sage import disposition_of, need_of, profile_persona, sketch_persona
from rlver_gym.io import files
from rlver_gym.io.errors import CardError, RecordingError, UnknownName
from rlver_gym.io.files import path_inside
from rlver_gym.io.json_text import parse_json

MAX_BYTES = 256 << 20
"""Of a file, or all files of a folder: ten times SAGE's."""
MAX_RATED = 200_000
"""Utterances with a rating or a judgement."""
_ALIASES = {"gpt-4o-0808": "gpt-4o-0806"}
"""SAGE's files call one model by two names; who leaves it out must leave out both."""


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
class RatedUtterance:
    """One agent utterance in its dialogue, with the change that a judge or a reader gave it."""

    simulator: str
    agent: str
    persona: Persona
    dialogue: Dialogue
    emotion: int
    """The judge's emotion before it."""
    previous: float
    """The judge's last change; 0 at first."""
    change: float

    @property
    def turn(self) -> int:
        """Counted from 0."""
        return len(self.dialogue.turns)


@dataclass(frozen=True, slots=True)
class Recording:
    """One dialogue that was held with a judge (`simulator`) by an agent."""

    simulator: str
    agent: str
    persona: Persona
    opening: str
    start: int
    exchanges: tuple[RecordedTurn, ...]
    final: float
    """The emotion that the judge named at the end, or else the last one."""
    source: str

    def rated_utterances(self) -> Iterator[RatedUtterance]:
        """Every recorded turn as a rated utterance, with the dialogue before it."""
        dialogue, emotion, previous = Dialogue(self.opening), self.start, 0
        for one in self.exchanges:
            current = dialogue.with_utterance(one.utterance)
            yield RatedUtterance(
                self.simulator, self.agent, self.persona, current, emotion, previous, one.change
            )
            appraisal = Appraisal(round(one.change), "", ())
            dialogue = dialogue.with_turn(
                Turn(one.utterance, appraisal, one.emotion, 0.0, None, one.reply)
            )
            emotion, previous = one.emotion, one.change


def read_recordings(folder: Path) -> list[Recording]:
    """Every recording in the folder's `SIMULATOR__AGENT.jsonl` files; RecordingError names file and
    line.

    A persona is a shipped card's id, or told by a SAGE profile (other `.jsonl` files in the folder
    whose lines have a `player`), or no more than need and disposition are known of it.
    """
    profiles: dict[str, Persona] = {}
    lines: list[tuple[str, dict[str, Any]]] = []
    for path in recording_files(folder):
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
    found: list[Recording] = []
    count = 0
    for place, value in lines:
        found.append(parse_recording(value, profiles, place))
        count += len(found[-1].exchanges)
        _refuse_too_many(count, folder)
    return found


def recording_files(data: Path) -> list[Path]:
    """The `.jsonl` files of a folder, sorted, or the one file given.

    RecordingError when there are none, or they are too large, or lead out of the folder.
    """
    if not data.is_dir():
        return [data]
    paths = [
        path_inside(data, path.name, error=RecordingError) for path in sorted(data.glob("*.jsonl"))
    ]
    if not paths:
        raise RecordingError(
            f"{data}: there is no .jsonl file. Give a folder of recorded dialogues."
        )
    if sum(path.stat().st_size for path in paths) > MAX_BYTES:
        raise RecordingError(
            f"{data}: holds more than {MAX_BYTES >> 20} MiB of .jsonl files. Split the folder."
        )
    return paths


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The numbered JSON objects of a file; RecordingError says which line is not one."""
    for number, line in files.read_lines(path, error=RecordingError, max_bytes=MAX_BYTES):
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except ValueError as error:
            raise RecordingError(
                f"{path}:{number}: is not JSON ({error}). Correct or remove the line."
            ) from None
        if not isinstance(value, dict):
            raise RecordingError(
                f"{path}:{number}: is not a JSON object. Correct or remove the line."
            )
        yield number, value


def parse_recording(
    value: Mapping[str, Any], profiles: Mapping[str, Persona], source: str
) -> Recording:
    """One line: simulator, agent, persona, need, disposition, messages (user and agent in turn, the
    user's with emotion and change).
    """
    try:
        line = RecordingLine.model_validate(value)
        persona = profiles.get(line.persona) or _persona_of(line)
        first, *rest = line.messages
        exchanges = tuple(
            RecordedTurn(utterance.text, answer.change, round(_emotion(answer)), answer.text)
            for utterance, answer in zip(rest[::2], rest[1::2], strict=False)
            if answer.change is not None
        )
        if not exchanges:
            raise ValueError("messages: no answer of the user has a change")
        start = round(_emotion(first))
    except ValueError as error:
        raise RecordingError(
            f"{source}: is no recording ({_first_problem(error)}). A line needs simulator, agent,"
            " persona, need, disposition and messages."
        ) from None
    final = exchanges[-1].emotion if line.final is None else line.final
    return Recording(
        line.simulator,
        _ALIASES.get(line.agent, line.agent),
        persona,
        first.text,
        start,
        exchanges,
        final,
        source,
    )


def _persona_of(line: RecordingLine) -> Persona:
    """The shipped card, whose disposition counts, with the need that the line names; else what the
    line itself tells.
    """
    if line.persona.partition("/")[0] in library().pairings:
        shipped = library().get(line.persona)
        need = need_of(line.need) if line.need else shipped.need
        return (
            shipped
            if need is shipped.need
            else library().get(f"{line.persona.partition('/')[0]}/{need}")
        )
    if line.need is None or line.disposition is None:
        raise ValueError("need, disposition: must be told of a persona that is not shipped")
    return sketch_persona(line.persona, need_of(line.need), disposition_of(line.disposition))


def _emotion(message: Message) -> float:
    if message.emotion is None:
        raise ValueError("messages: what the user says needs an emotion")
    return message.emotion


def _first_problem(error: ValueError) -> str:
    return (
        field_errors(error, "the whole line")[0]
        if isinstance(error, ValidationError)
        else str(error)
    )


def read_rated_utterances(path: Path) -> list[RatedUtterance]:
    """Every rated utterance of a folder of recordings, or in a JSONL file of recordings or ratings;
    RecordingError names file and line.

    A rating is a line `{"persona": ID or {"need", "disposition", "story", "language"}, "dialogue":
    [{"role": "user"|"agent", "text"}, …], "change": number}`, with `rater`, `agent` and `emotion`
    (before, 0..100) if known; the last of the dialogue is the agent's utterance that was rated.
    """
    if path.is_dir():
        return [one for found in read_recordings(path) for one in found.rated_utterances()]
    rated: list[RatedUtterance] = []
    for number, value in read_lines(path):
        place = f"{path}:{number}"
        if "messages" in value:
            rated += parse_recording(value, {}, place).rated_utterances()
        else:
            rated.append(_parse_rating(value, place, number))
        _refuse_too_many(len(rated), path)
    if not rated:
        raise RecordingError(f"{path}: holds no ratings.")
    return rated


def _refuse_too_many(count: int, source: Path) -> None:
    if count > MAX_RATED:
        raise RecordingError(
            f"{source}: holds more than {MAX_RATED:,} judged utterances. Give a part of them."
        )


def _parse_rating(value: Mapping[str, Any], place: str, number: int) -> RatedUtterance:
    try:
        line = RatingLine.model_validate(value)
        if len(line.dialogue) % 2 or any(one.role is None for one in line.dialogue):
            raise ValueError(
                "the dialogue must go user, agent, user, … with their roles, and end with the agent"
            )
        texts = [one.text for one in line.dialogue]
        who = line.persona
        persona = library().get(who) if isinstance(who, str) else _sketch_of(who, number)
    except (ValueError, UnknownName) as error:
        problem = str(error) if isinstance(error, UnknownName) else _first_problem(error)
        raise RecordingError(
            f"{place}: is no rating ({problem}). A line needs persona, dialogue (role and text,"
            " ending with the agent) and change."
        ) from None
    dialogue = Dialogue(texts[0])
    for utterance, answer in zip(texts[1:-1:2], texts[2::2], strict=True):
        dialogue = dialogue.with_turn(Turn(utterance, Appraisal(0, "", ()), 40, 0.0, None, answer))
    return RatedUtterance(
        line.rater,
        line.agent,
        persona,
        dialogue.with_utterance(texts[-1]),
        int(line.emotion),
        0,
        line.change,
    )


def _sketch_of(who: Described, number: int) -> Persona:
    return sketch_persona(
        who.id or f"line {number}",
        need_of(who.need),
        disposition_of(who.disposition),
        story=who.story,
        language=who.language,
    )


def _parse_profile(value: Mapping[str, Any], place: str) -> Persona:
    try:
        return profile_persona(value)
    except CardError as error:
        raise RecordingError(f"{place}: {error}") from None
