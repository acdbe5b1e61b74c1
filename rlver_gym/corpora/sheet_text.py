"""The text of a blind sheet: people, moments with replies, and whole dialogues."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rlver_gym.core.persona import NEEDS_IN_WORDS, Persona
from rlver_gym.corpora.corpus import Candidate, DialogueLine, MomentLine
from rlver_gym.library.personas import library


class SheetMoment(NamedTuple):
    """A moment of a sheet, and the replies to it that are shown."""

    line: MomentLine
    replies: list[Candidate]
    recorded: dict[str, float]
    """By reply, for anchors."""

    @property
    def size(self) -> int:
        return len(self.replies)


class SheetDialogues(NamedTuple):
    """All dialogues of a person, beside each other."""

    lines: list[DialogueLine]
    unrated: frozenset[str]
    """The replies that get an id, by which they are rated."""

    @property
    def size(self) -> int:
        return len(self.unrated)


SheetPart = SheetMoment | SheetDialogues


def render_sheet(
    sheet: Sequence[SheetPart],
    number: int,
    chance: random.Random,
    key: dict[str, dict[str, object]],
) -> str:
    """The text of a sheet; its ids go into the key."""

    def name(reply: str, recorded: float | None) -> str:
        key[shown := f"s{number:02d}-{len(key):04d}"] = {"reply": reply, "recorded": recorded}
        return shown

    lines: list[str] = []
    for shown in sheet:
        if isinstance(shown, SheetMoment):
            lines += _render_moment(shown, chance, name)
        else:
            lines += _render_dialogues(shown, chance, name)
    return "\n".join(lines)


def _render_moment(
    shown: SheetMoment, chance: random.Random, name: Callable[[str, float | None], str]
) -> Iterator[str]:
    moment = shown.line
    yield from (*describe_person(library().get(moment.persona)), "", "## A moment. So far:")
    yield f"PERSON: {_join_lines(moment.opening)}"
    for turn in moment.turns:
        yield f"SUPPORTER: {_join_lines(turn.agent)}"
        yield f"PERSON: {_join_lines(turn.user)}"
    yield "### Replies, each as if it alone came next"
    for reply in chance.sample(shown.replies, len(shown.replies)):
        yield f"{name(reply.id, shown.recorded.get(reply.id))}: {_join_lines(reply.text)}"
    yield ""


def _render_dialogues(
    shown: SheetDialogues, chance: random.Random, name: Callable[[str, float | None], str]
) -> Iterator[str]:
    """What a supporter said stays in its order."""
    yield from describe_person(library().get(shown.lines[0].persona))
    for number, line in enumerate(chance.sample(shown.lines, len(shown.lines)), 1):
        yield from ("", f"## Dialogue {number}", f"PERSON: {_join_lines(line.opening)}")
        for turn in line.turns:
            reply = turn.id if turn.id in shown.unrated else None
            label = f"SUPPORTER {name(reply, None)}" if reply else "SUPPORTER"
            yield f"{label}: {_join_lines(turn.agent)}"
            yield f"PERSON: {_join_lines(turn.user)}"
    yield ""


def _join_lines(text: str) -> str:
    """Words cannot pass for another line of the sheet."""
    return " ".join(text.split()) or "(says nothing)"


def describe_person(persona: Persona) -> list[str]:
    """What a reader is told of the person whose place they take."""
    person, situation = persona.person, persona.situation
    return [
        f"# You are {person.name}",
        (
            f"{person.name}, {person.age}, {person.work}. {person.disposition}"
            f" ({', '.join(person.traits)}). {person.habits}"
        ),
        f"Way of speaking: {person.way_of_speaking}",
        "",
        f"Situation: {situation.cause}",
        "Timeline:",
        *(f"- {event.when}: {event.what} (felt: {event.felt})" for event in situation.timeline),
        f"Now: {situation.now}",
        f"Tried: {' '.join(situation.tried)}",
        "",
        f"HIDDEN NEED, never said aloud: {persona.need.value}: {NEEDS_IN_WORDS[persona.need]}",
    ]
