"""Recorded dialogues and ratings with their judgements, from JSONL files. Knows no user and no statistics."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlver_gym.dialogue import Appraisal, Dialogue, Turn
from rlver_gym.errors import RecordingError
from rlver_gym.library import library
from rlver_gym.persona import Persona
from rlver_gym.sage import disposition_of, need_of, profile_persona, sketch

_ALIASES = {"gpt-4o-0808": "gpt-4o-0806"}
"""SAGE's files call one model by two names; who leaves it out must leave out both."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One agent utterance, what the judge made of it, and what the user said then."""

    utterance: str
    change: int
    emotion: int
    """The judge's emotion score after it."""
    reply: str


@dataclass(frozen=True, slots=True)
class Judged:
    """One agent utterance in its dialogue, and what it did to the judge."""

    simulator: str
    agent: str
    persona: Persona
    dialogue: Dialogue
    emotion: int
    """The judge's emotion before it."""
    previous: int
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
    exchanges: tuple[Exchange, ...]
    source: str

    @property
    def final(self) -> int:
        """The judge's last emotion score."""
        return self.exchanges[-1].emotion

    def judged(self) -> Iterator[Judged]:
        """Every exchange with the dialogue before it."""
        dialogue, emotion, previous = Dialogue(self.opening), self.start, 0
        for one in self.exchanges:
            said = dialogue.said(one.utterance)
            yield Judged(self.simulator, self.agent, self.persona, said, emotion, previous, one.change)
            appraisal = Appraisal(one.change, "", ())
            dialogue = dialogue.answered(Turn(one.utterance, appraisal, one.emotion, 0.0, None, one.reply))
            emotion, previous = one.emotion, one.change


def read_recordings(folder: Path) -> list[Recording]:
    """Every recording in the folder's `SIMULATOR__AGENT.jsonl` files; RecordingError names file and line.

    Other `.jsonl` files in the folder whose lines have a `player` are SAGE profiles, which tell the personas' stories.
    """
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise RecordingError(f"{folder}: there is no .jsonl file. Give a folder of recorded dialogues.")
    profiles: dict[str, Persona] = {}
    lines = [(f"{path.name}:{number}", value) for path in paths for number, value in read_lines(path)]
    for _, value in lines:
        if "player" in value:
            profiles[value["id"]] = profile_persona(value)
    found = [recording(value, profiles, place) for place, value in lines if "messages" in value]
    if not found:
        raise RecordingError(f"{folder}: no line has 'messages'. Give a folder of recorded dialogues.")
    return found


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The numbered JSON objects of a file; RecordingError says which line is not one."""
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise RecordingError(f"{path}:{number}: is not JSON ({error}). Correct or remove the line.") from None
        if not isinstance(value, dict):
            raise RecordingError(f"{path}:{number}: is not a JSON object. Correct or remove the line.")
        yield number, value


def recording(value: Mapping[str, Any], profiles: Mapping[str, Persona], source: str) -> Recording:
    """One line: simulator, agent, persona, need, disposition, messages (user and agent in turn, the user's with emotion and change)."""
    try:
        persona = profiles.get(value["persona"]) or sketch(
            value["persona"], need_of(value["need"]), disposition_of(value["disposition"])
        )
        first, *rest = value["messages"]
        exchanges = tuple(
            Exchange(said["text"], round(answer["change"]), round(answer["emotion"]), answer["text"])
            for said, answer in zip(rest[::2], rest[1::2], strict=False)
            if "change" in answer
        )
        return Recording(
            value["simulator"],
            str(_ALIASES.get(value["agent"], value["agent"])),
            persona,
            first["text"],
            round(first["emotion"]),
            exchanges,
            source,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise RecordingError(
            f"{source}: is no recording ({type(error).__name__}: {error}). A line needs simulator, agent, persona, need, disposition and messages."
        ) from None


def read_judged(path: Path) -> list[Judged]:
    """Everything judged in a folder of recordings, or in a JSONL file of recordings or ratings; RecordingError names file and line.

    A rating is a line `{"persona": ID or {"need", "disposition", "story", "language"}, "dialogue": [{"role": "user"|"agent", "text"}, …], "change": number}`,
    with `rater`, `agent` and `emotion` (before, 0..100) if known; the last of the dialogue is the agent's utterance that was rated.
    """
    if path.is_dir():
        return [one for found in read_recordings(path) for one in found.judged()]
    if not path.is_file():
        raise RecordingError(f"{path}: there is no such file or folder.")
    judged: list[Judged] = []
    for number, value in read_lines(path):
        place = f"{path}:{number}"
        judged += recording(value, {}, place).judged() if "messages" in value else [_rating(value, place)]
    if not judged:
        raise RecordingError(f"{path}: holds no ratings.")
    return judged


def _rating(value: Mapping[str, Any], place: str) -> Judged:
    try:
        texts = [line["text"] for line in value["dialogue"]]
        roles = [line["role"] for line in value["dialogue"]]
        if roles != ["user", "agent"] * (len(roles) // 2) or not roles:
            raise ValueError("the dialogue must go user, agent, user, … and end with the agent")
        change = float(value["change"])
        if not -100 <= change <= 100:
            raise ValueError(f"change is {change:g}, outside [-100, 100]")
        dialogue = Dialogue(texts[0])
        for said, answer in zip(texts[1:-1:2], texts[2::2], strict=True):
            dialogue = dialogue.answered(Turn(said, Appraisal(0, "", ()), 40, 0.0, None, answer))
        who = value["persona"]
        persona = library().get(who) if isinstance(who, str) else _described(who, place)
        emotion = int(value.get("emotion", 40))
        return Judged(
            str(value.get("rater", "rater")),
            str(value.get("agent", "agent")),
            persona,
            dialogue.said(texts[-1]),
            emotion,
            0,
            change,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise RecordingError(
            f"{place}: is no rating ({type(error).__name__}: {error}). A line needs persona, dialogue (role and text, ending with the agent) and change."
        ) from None


def _described(who: Mapping[str, Any], place: str) -> Persona:
    story, language = str(who.get("story", "")), who.get("language", "en")
    if language not in ("en", "zh"):
        raise ValueError(f"the language {language!r} is none of en, zh")
    return sketch(
        who.get("id", place), need_of(who["need"]), disposition_of(who["disposition"]), story=story, language=language
    )
