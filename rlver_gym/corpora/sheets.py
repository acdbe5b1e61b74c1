"""Blind sheets of replies for readers, people or models, and their ratings back into a corpus.

A sheet holds moments, each with its replies shuffled under ids that say nothing. In every sheet
stands one moment with the replies of two recorded supporters whose ratings are known (the anchors):
they tell how strict a sitting was. `key.json`, which no reader sees, says what each id is.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from rlver_gym.core.persona import Persona
from rlver_gym.corpora.corpus import Candidate, Corpus, MomentLine, Rating, append_ratings
from rlver_gym.corpora.recordings import read_lines
from rlver_gym.library.personas import library
from rlver_gym.util.errors import RecordingError
from rlver_gym.util.field_errors import field_errors
from rlver_gym.util.files import read_text
from rlver_gym.util.folders import write_folder
from rlver_gym.util.frozen import JsonObject, Name

ANCHORS = "rogers", "confused"
"""Recorded supporters of `recordings/en/train`: one whom readers like, one whom they do not."""
KEY, RATINGS = "key.json", "ratings"
_MAX_KEY_BYTES = 16 << 20
NEEDS = {
    "deep_empathy": (
        "to be felt with: that somebody senses what it is like inside, beyond generic comfort"
    ),
    "practical_advice": "concrete, workable help with what to do next",
    "balanced_view": "to see both sides fairly, the others' as well as their own",
    "motives": "to understand why the other person acted as they did",
    "reflection": "to be led to their own part and pattern",
    "listening": "to tell it all to somebody patient who takes in details and fixes nothing",
    "not_at_fault": "to hear convincingly, on the facts, that they are not to blame",
    "praise": "sincere, specific recognition of what they did",
}


class KeyEntry(JsonObject):
    """What an id of the sheets stands for."""

    reply: Name
    recorded: Annotated[float, Field(ge=-10, le=10)] | None = None
    """The change that earlier readers gave an anchor; None for a reply that is to be rated."""


class _Shown(NamedTuple):
    """A moment of a sheet."""

    moment: MomentLine
    replies: list[Candidate]
    recorded: dict[str, float]
    """By reply, for anchors."""


def write_sheets(
    corpus: Corpus,
    recorded: Corpus,
    out: Path,
    *,
    anchors: tuple[str, str] = ANCHORS,
    most: int = 80,
    seed: int = 0,
) -> int:
    """Write the unrated replies to the corpus' moments as sheets of at most `most` replies, with an
    anchor moment from the recorded corpus in each; how many sheets.

    RecordingError when there is nothing to rate, no moment with both anchors, or a sheet cannot be
    written.
    """
    chance = random.Random(seed)
    known = _list_anchor_moments(recorded, anchors)
    rated = {rating.reply for rating in corpus.ratings}
    todo = [
        _Shown(moment, unrated, {})
        for moment in corpus.moments
        if (unrated := [reply for reply in moment.replies if reply.id not in rated])
    ]
    if not todo or not known:
        what = "no unrated reply to a moment" if not todo else f"no moment rated of both {anchors}"
        raise RecordingError(f"there is {what}. Draw some: rlver-gym sample.")
    chance.shuffle(todo)
    chance.shuffle(known)
    key: dict[str, dict[str, object]] = {}
    with write_folder(out, RecordingError) as draft:
        sheets = _fill_sheets(todo, most - len(anchors))
        for number, shown in enumerate(sheets, 1):
            shown.insert(chance.randrange(len(shown) + 1), known[number % len(known)])
            text = _render_sheet(shown, number, chance, key)
            (draft / f"sheet-{number:02d}.md").write_text(text, encoding="utf-8")
        (draft / KEY).write_text(json.dumps(key, indent=1), encoding="utf-8")
        (draft / RATINGS).mkdir()
    return len(sheets)


def _list_anchor_moments(recorded: Corpus, anchors: tuple[str, str]) -> list[_Shown]:
    changes = {reply.id: reply.mean("change") for reply in recorded.rated_replies()}
    found = []
    for moment in recorded.moments:
        theirs = [x for x in moment.replies if x.supporter in anchors and x.id in changes]
        if {reply.supporter for reply in theirs} == set(anchors):
            found.append(_Shown(moment, theirs, {reply.id: changes[reply.id] for reply in theirs}))
    return found


def _fill_sheets(todo: Sequence[_Shown], most: int) -> list[list[_Shown]]:
    """In this order; a moment is never split."""
    sheets: list[list[_Shown]] = []
    room = 0
    for shown in todo:
        if not sheets or len(shown.replies) > room:
            sheets.append([])
            room = most
        sheets[-1].append(shown)
        room -= len(shown.replies)
    return sheets


def _render_sheet(
    sheet: Sequence[_Shown], number: int, chance: random.Random, key: dict[str, dict[str, object]]
) -> str:
    """The text of a sheet; its ids go into the key."""
    lines: list[str] = []
    for shown in sheet:
        moment = shown.moment
        lines += [*describe_person(library().get(moment.persona)), "", "## A moment. So far:"]
        lines.append(f"PERSON: {moment.opening}")
        for turn in moment.turns:
            lines += [f"SUPPORTER: {turn.agent}", f"PERSON: {turn.user}"]
        lines.append("### Replies, each as if it alone came next")
        for reply in chance.sample(shown.replies, len(shown.replies)):
            name = f"s{number:02d}-{len(key):04d}"
            key[name] = {"reply": reply.id, "recorded": shown.recorded.get(reply.id)}
            lines.append(f"{name}: {' '.join(reply.text.split())}")
        lines.append("")
    return "\n".join(lines)


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
        f"HIDDEN NEED, never said aloud: {persona.need.value}: {NEEDS[persona.need.value]}",
    ]


class SheetReading(NamedTuple):
    """What readers' lines come to."""

    added: int
    strictness: dict[str, float]
    """By reader: how far their changes of the anchors lie above those that were recorded."""


def read_sheets(folder: Path, corpus_folder: Path) -> SheetReading:
    """Append the ratings of `folder`/ratings/READER.jsonl to the corpus; those that it has already
    are left out. RecordingError names the first line that is wrong, and nothing is written then.
    """
    key = _read_key(folder / KEY)
    corpus = Corpus(corpus_folder)
    replies = {reply.id for reply in corpus.replies()}
    have = Counter((rating.reply, rating.reader) for rating in corpus.ratings)
    new: list[Rating] = []
    apart: dict[str, list[float]] = {}
    for path in sorted((folder / RATINGS).glob("*.jsonl")):
        for number, value in read_lines(path):
            where = f"{path.name}:{number}"
            entry = key.get(str(value.pop("id", "")))
            rating = _parse_rating(value, entry, path.stem, where)
            if entry is None or (entry.recorded is None and entry.reply not in replies):
                raise RecordingError(f"{where}: rates what stands in no sheet of {folder}.")
            if entry.recorded is not None:
                apart.setdefault(path.stem, []).append(rating.change - entry.recorded)
            elif not have[rating.reply, rating.reader]:
                have[rating.reply, rating.reader] += 1
                new.append(rating)
    append_ratings(corpus_folder, new)
    return SheetReading(len(new), {reader: fmean(values) for reader, values in apart.items()})


def _parse_rating(value: object, entry: KeyEntry | None, reader: str, where: str) -> Rating:
    try:
        assert isinstance(value, dict)
        given = {**value, "reply": entry.reply if entry else "?", "reader": reader}
        rating = Rating.model_validate(given)
    except ValidationError as error:
        problem = field_errors(error, "the whole line")[0]
        raise RecordingError(f"{where}: is no rating ({problem}).") from None
    if bool(rating.words) != bool(rating.false):
        raise RecordingError(f"{where}: is false without words, or has false words without it.")
    return rating


def _read_key(path: Path) -> dict[str, KeyEntry]:
    text = read_text(path, max_bytes=_MAX_KEY_BYTES, error=RecordingError)
    try:
        return TypeAdapter(dict[str, KeyEntry]).validate_json(text)
    except ValidationError as error:
        problem = field_errors(error, "the whole file")[0]
        raise RecordingError(f"{path}: is no key of sheets ({problem}).") from None
