"""What people rated in a run, in the form of the corpus of rated replies, and read as that is."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rlver_gym.bench.export.files import CARD, MARK, format_jsonl, write_export
from rlver_gym.bench.export.select_dialogues import Record
from rlver_gym.bench.raters import read_lines
from rlver_gym.core.capabilities import FACTORS
from rlver_gym.corpora.corpus import DialogueLine, Rating, Supporter
from rlver_gym.environment.episode import Episode
from rlver_gym.util.errors import RunError
from rlver_gym.util.field_errors import field_errors
from rlver_gym.util.groups import group

_NO_THOUGHT = "(nothing was noted)"
_README = f"""{MARK}
# Rated replies

Ratings of the run {{run}} by {{readers}}, in the form of rlver-gym's corpus of rated replies.
`rlver_gym.corpora.corpus.Corpus(folder)` reads it.
"""


_LEFT_OUT = "rated without the factors that the corpus asks for, or in no such dialogue"


def write_corpus(run: Path, records: Sequence[Record], out: Path) -> tuple[int, dict[str, int]]:
    """Write those of a run's dialogues that people rated, and the ratings that say why, as a
    corpus; how many ratings, and how many not.

    RunError where no rating says why, and for what cannot be read or written.
    """
    by_key = {"/".join(map(str, one.episode.key)): one for one in records}
    said, total = _select_last_ratings(run, by_key)
    if not said:
        raise RunError(
            f"{run}: no rating in it says why, with all of {', '.join(FACTORS)}. Rate in the studio"
            " with 'why' open."
        )
    rated = group((key, turn) for key, _, turn in said)
    chosen = {key: by_key[key] for key in by_key if key in rated}
    readers = sorted({rating.reader for rating in said.values()})
    lines = {
        "dialogues.jsonl": [
            _dialogue_to_json(key, one.episode, rated[key]) for key, one in chosen.items()
        ],
        "moments.jsonl": [],
        "ratings.jsonl": [rating.model_dump() for rating in said.values()],
    }
    files = {name: format_jsonl(values) for name, values in lines.items()}
    files["supporters.json"] = json.dumps(_list_supporters(chosen.values()), indent=1) + "\n"
    files[CARD] = _README.format(run=run.resolve().name, readers=f"{len(readers)} people")
    write_export(out, files)
    left_out = total - len(said)
    return len(said), {_LEFT_OUT: left_out} if left_out else {}


def _select_last_ratings(
    run: Path, records: Mapping[str, Record]
) -> tuple[dict[tuple[str, str, int], Rating], int]:
    """The last rating of each reply by each rater that says why, and how many there are in all."""
    found: dict[tuple[str, str, int], Rating] = {}
    places = set()
    for where, (key, rater, turn), line in read_lines(run):
        places.add((key, rater, turn))
        factors = line.get("factors")
        is_known = key in records and 1 <= turn <= len(records[key].episode.turns)
        if not isinstance(factors, dict) or not is_known:
            continue
        told = {"reply": _format_reply_id(key, turn), "reader": rater, "change": line.get("change")}
        why = {"thought": line.get("thought", _NO_THOUGHT), "words": line.get("words", "")}
        try:
            found[key, rater, turn] = Rating.model_validate({**factors, **told, **why})
        except ValidationError as error:
            problem = field_errors(error, "the line")[0]
            raise RunError(f"{where}: {problem}. Mend or remove the line.") from error
    return found, len(places)


def _format_reply_id(key: str, turn: int) -> str:
    return f"{key}#{turn}"


def _dialogue_to_json(key: str, episode: Episode, rated: Iterable[int]) -> dict[str, Any]:
    turns: list[dict[str, Any]] = [
        {"agent": turn.utterance, "user": turn.reply} for turn in episode.turns
    ]
    for number in rated:
        turns[number - 1]["id"] = _format_reply_id(key, number)
    line = {
        "id": key,
        "supporter": episode.agent,
        "persona": episode.persona,
        "seed": episode.seed,
        "opening": episode.opening,
        "turns": turns,
    }
    return DialogueLine.model_validate(line).model_dump(exclude_none=True)


def _list_supporters(records: Iterable[Record]) -> list[dict[str, Any]]:
    split_of = {one.episode.agent: one.split for one in records}
    return [
        Supporter(
            name=agent,
            split="train" if split in ("train", "validation") else "test",
            kind="machine",
            brief=f"the agent {agent}"[:2_000],
        ).model_dump()
        for agent, split in sorted(split_of.items())
    ]
