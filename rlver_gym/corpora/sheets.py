"""Blind sheets of replies for readers, people or models, and their ratings back into a corpus.

A sheet holds moments, each with its replies shuffled, and whole dialogues, those of a person beside
each other in an order drawn by lot, under ids that say nothing. In every sheet stands one moment
with the replies of two recorded supporters whose ratings are known (the anchors): they tell how
strict a sitting was. `key.json`, which no reader sees, says what each id is.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, NamedTuple

from pydantic import Field, TypeAdapter

from rlver_gym.corpora.corpus import Corpus, Rating, append_ratings
from rlver_gym.corpora.recordings import read_lines
from rlver_gym.corpora.sheet_text import SheetDialogues, SheetMoment, SheetPart, render_sheet
from rlver_gym.util.errors import RecordingError
from rlver_gym.util.field_errors import explain_invalid
from rlver_gym.util.files import read_text
from rlver_gym.util.folders import is_taken, write_folder
from rlver_gym.util.frozen import JsonObject, Name
from rlver_gym.util.groups import group

ANCHORS = "rogers", "confused"
"""Recorded supporters of `recordings/en/train`: one whom readers like, one whom they do not."""
KEY, RATINGS = "key.json", "ratings"
_MAX_KEY_BYTES = 16 << 20


class _KeyEntry(JsonObject):
    """What an id of the sheets stands for."""

    reply: Name
    recorded: Annotated[float, Field(ge=-10, le=10)] | None = None
    """The change that earlier readers gave an anchor; None for a reply that is to be rated."""


def write_sheets(
    corpus: Corpus,
    recorded: Corpus,
    out: Path,
    *,
    anchors: tuple[str, str] = ANCHORS,
    most: int = 80,
    seed: int = 0,
) -> int:
    """Write the unrated replies as sheets of at most `most` replies, with an anchor moment from the
    recorded corpus in each; how many sheets. Neither a moment nor a person's dialogues are split.

    RecordingError when there is nothing to rate, no moment with both anchors, when `out` holds
    something, or a sheet cannot be written.
    """
    chance = random.Random(seed)
    known = _list_anchor_moments(recorded, anchors)
    todo = _list_unrated(corpus)
    if not todo:
        raise RecordingError(
            "there is no unrated reply. Draw some: rlver-gym sample; or rlver-gym export RUN --to"
            " corpus."
        )
    if not known:
        raise RecordingError(
            f"the recorded corpus holds no moment with rated replies of {' and '.join(anchors)},"
            " which tell how strict a reader is. Name recordings/en/train of the clone."
        )
    if is_taken(out):
        raise RecordingError(f"{out} is not empty. Choose another folder with --out.")
    chance.shuffle(todo)
    chance.shuffle(known)
    key: dict[str, dict[str, object]] = {}
    with write_folder(out, RecordingError) as draft:
        sheets = _fill_sheets(todo, most - len(anchors))
        for number, sheet in enumerate(sheets, 1):
            sheet.insert(chance.randrange(len(sheet) + 1), known[number % len(known)])
            text = render_sheet(sheet, number, chance, key)
            (draft / f"sheet-{number:02d}.md").write_text(text, encoding="utf-8")
        (draft / KEY).write_text(json.dumps(key, indent=1), encoding="utf-8")
        (draft / RATINGS).mkdir()
    return len(sheets)


def _list_unrated(corpus: Corpus) -> list[SheetPart]:
    rated = {rating.reply for rating in corpus.ratings}
    todo: list[SheetPart] = []
    for moment in corpus.moments:
        if unrated := [reply for reply in moment.replies if reply.id not in rated]:
            todo.append(SheetMoment(moment, unrated, {}))
    by_person = group(
        (line.persona, (line, unrated))
        for line in corpus.dialogues
        if (unrated := [turn.id for turn in line.turns if turn.id and turn.id not in rated])
    )
    for dialogues in by_person.values():
        ids = frozenset(name for _, unrated in dialogues for name in unrated)
        todo.append(SheetDialogues([line for line, _ in dialogues], ids))
    return todo


def _list_anchor_moments(recorded: Corpus, anchors: tuple[str, str]) -> list[SheetMoment]:
    changes = {reply.id: reply.mean("change") for reply in recorded.rated_replies()}
    moments = []
    for moment in recorded.moments:
        theirs = [x for x in moment.replies if x.supporter in anchors and x.id in changes]
        if {reply.supporter for reply in theirs} == set(anchors):
            moments.append(SheetMoment(moment, theirs, {x.id: changes[x.id] for x in theirs}))
    return moments


def _fill_sheets(todo: Sequence[SheetMoment | SheetDialogues], most: int) -> list[list[SheetPart]]:
    """In this order; neither kind is ever split."""
    sheets: list[list[SheetPart]] = []
    room = 0
    for shown in todo:
        if not sheets or shown.size > room:
            sheets.append([])
            room = most
        sheets[-1].append(shown)
        room -= shown.size
    return sheets


class SheetReading(NamedTuple):
    """What readers' lines come to."""

    added: int
    strictness: dict[str, float]
    """By reader: how far their changes of the anchors lie above those that were recorded."""


def read_sheets(folder: Path, corpus_folder: Path) -> SheetReading:
    """Append the ratings of `folder`/ratings/READER.jsonl to the corpus; those that it has already
    are left out. RecordingError names the first line that is wrong, or gives a reply another change
    than its reader gave before, and nothing is written then.
    """
    key = _read_key(folder / KEY)
    corpus = Corpus(corpus_folder)
    replies = {reply.id for reply in corpus.replies()}
    changes = {(rating.reply, rating.reader): rating.change for rating in corpus.ratings}
    new: list[Rating] = []
    apart: dict[str, list[float]] = {}
    for path in sorted((folder / RATINGS).glob("*.jsonl")):
        for number, value in read_lines(path):
            where = f"{path.name}:{number}"
            name = str(value.pop("id", ""))
            entry = key.get(name)
            rating = _parse_rating(value, entry, path.stem, where)
            if entry is None or (entry.recorded is None and entry.reply not in replies):
                raise RecordingError(f"{where}: rates what stands in no sheet of {folder}.")
            # an anchor is rated once on each sheet, for the reader's strictness alone
            place = (f"anchor {name}" if entry.recorded is not None else rating.reply), path.stem
            if (before := changes.get(place)) is None:
                changes[place] = rating.change
                if entry.recorded is None:
                    new.append(rating)
                else:
                    apart.setdefault(path.stem, []).append(rating.change - entry.recorded)
            elif before != rating.change:
                raise RecordingError(
                    f"{where}: gives {rating.change:+d} where {path.stem} gave {before:+d} before."
                    f" Correct it here, or in ratings.jsonl of {corpus_folder}."
                )
    append_ratings(corpus_folder, new)
    return SheetReading(len(new), {reader: fmean(values) for reader, values in apart.items()})


def _parse_rating(value: object, entry: _KeyEntry | None, reader: str, where: str) -> Rating:
    with explain_invalid(RecordingError, f"{where}: is no rating (", "the whole line", ")."):
        assert isinstance(value, dict)
        given = {**value, "reply": entry.reply if entry else "?", "reader": reader}
        rating = Rating.model_validate(given)
    if bool(rating.words) != bool(rating.false):
        raise RecordingError(f"{where}: is false without words, or has false words without it.")
    return rating


def _read_key(path: Path) -> dict[str, _KeyEntry]:
    text = read_text(path, max_bytes=_MAX_KEY_BYTES, error=RecordingError)
    with explain_invalid(RecordingError, f"{path}: is no key of sheets (", "the whole file", ")."):
        return TypeAdapter(dict[str, _KeyEntry]).validate_json(text)
