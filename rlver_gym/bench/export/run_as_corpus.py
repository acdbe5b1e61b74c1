"""The dialogues of a run, with what people rated of them, in the form of the corpus."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlver_gym.bench.export.files import CARD, MARK, format_jsonl, write_export
from rlver_gym.bench.export.select_dialogues import Record
from rlver_gym.bench.raters import RATINGS, read_lines
from rlver_gym.corpora import recordings
from rlver_gym.corpora.corpus import (
    DIALOGUES,
    MOMENTS,
    SUPPORTERS,
    DialogueLine,
    Rating,
    Supporter,
)
from rlver_gym.environment.episode import Episode
from rlver_gym.util.errors import RunError
from rlver_gym.util.field_errors import explain_invalid
from rlver_gym.util.terminal import format_count

_NO_THOUGHT = "(nothing was noted)"
_README = f"""{MARK}
# Dialogues to rate

Dialogues of the run {{run}}, with ratings by {{readers}}, in the form of rlver-gym's corpus of
rated replies. `rlver_gym.corpora.corpus.Corpus(folder)` reads it; `rlver-gym sheets write` makes
blind sheets of what is not rated.
"""


_LEFT_OUT = "rated without the factors that the corpus asks for, or in no such dialogue"


def write_corpus(run: Path, records: Sequence[Record], out: Path) -> tuple[int, dict[str, int]]:
    """Write a run's dialogues as a corpus, the agents as supporters, with those ratings of people
    that say why; how many ratings, and how many not.

    RunError for what cannot be read or written.
    """
    by_key = {str(record.episode.key): record for record in records}
    said, total = _select_last_ratings(run, by_key)
    readers = {rating.reader for rating in said.values()}
    lines = {
        DIALOGUES: [_dialogue_to_json(key, record.episode) for key, record in by_key.items()],
        MOMENTS: [],
        RATINGS: [rating.model_dump() for rating in said.values()],
    }
    _refuse_to_lose(out / RATINGS, {(rating.reply, rating.reader) for rating in said.values()})
    files = {name: format_jsonl(values) for name, values in lines.items()}
    files[SUPPORTERS] = json.dumps(_list_supporters(records), indent=1) + "\n"
    files[CARD] = _README.format(run=run.resolve().name, readers=f"{len(readers)} people")
    write_export(out, files)
    left_out = total - len(said)
    return len(said), {_LEFT_OUT: left_out} if left_out else {}


def _refuse_to_lose(ratings: Path, kept: set[tuple[str, str]]) -> None:
    """RunError when an earlier export holds ratings that came to it later, from readers' sheets."""
    if not ratings.exists():
        return
    lost = sum(
        (line.get("reply"), line.get("reader")) not in kept
        for _, line in recordings.read_lines(ratings)
    )
    if lost:
        raise RunError(
            f"{ratings.parent}: holds {format_count(lost, 'rating')} that the run does not, and"
            " would lose them. Choose another folder with --out."
        )


def _select_last_ratings(
    run: Path, records: Mapping[str, Record]
) -> tuple[dict[tuple[str, str, int], Rating], int]:
    """The last rating of each reply by each rater that says why, and how many there are in all."""
    last: dict[tuple[str, str, int], Rating] = {}
    places = set()
    for where, (key, rater, turn), line in read_lines(run):
        places.add((key, rater, turn))
        factors = line.get("factors")
        is_known = key in records and 1 <= turn <= len(records[key].episode.turns)
        if not isinstance(factors, dict) or not is_known:
            kept = last.get((key, rater, turn))
            if kept and kept.change != line.get("change"):  # it was rated anew, without why
                del last[key, rater, turn]
            continue
        told = {"reply": _format_reply_id(key, turn), "reader": rater, "change": line.get("change")}
        why = {"thought": line.get("thought", _NO_THOUGHT), "words": line.get("words", "")}
        end = ". Mend or remove the line."
        with explain_invalid(RunError, f"{where}: ", "the line", end):
            last[key, rater, turn] = Rating.model_validate({**factors, **told, **why})
    return last, len(places)


def _format_reply_id(key: str, turn: int) -> str:
    return f"{key}#{turn}"


def _dialogue_to_json(key: str, episode: Episode) -> dict[str, Any]:
    turns = [
        {"agent": turn.utterance, "user": turn.reply, "id": _format_reply_id(key, number)}
        for number, turn in enumerate(episode.turns, 1)
    ]
    line = {
        "id": key,
        "supporter": episode.agent,
        "persona": episode.persona,
        "seed": episode.seed,
        "opening": episode.opening,
        "turns": turns,
    }
    return DialogueLine.model_validate(line).model_dump()


def _list_supporters(records: Iterable[Record]) -> list[dict[str, Any]]:
    """In the order of the run, which is that of the benchmark's agents."""
    split_of = {record.episode.agent: record.split for record in records}
    return [
        Supporter(
            name=agent,
            split="train" if split in ("train", "validation") else "test",
            kind="machine",
            brief=f"the agent {agent}"[:2_000],
        ).model_dump()
        for agent, split in split_of.items()
    ]
