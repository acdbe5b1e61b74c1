"""One tidy table: a row a turn, a column each thing that is known of it, as pandas reads it."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlver_gym.bench.export.select_dialogues import Record
from rlver_gym.bench.strategies import STRATEGIES, label_turn
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import RunError

Cell = str | int | float | bool | None
PARQUET = ".parquet"
_BEGIN_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""The last four are what some spreadsheets take for the first."""


def build_table_rows(
    records: Sequence[Record], judged: Mapping[str, Mapping[str, Mapping[str, float]]]
) -> Iterator[dict[str, Any]]:
    """A row for each turn of each dialogue. `judged`: by run and dialogue, the mean mark of each
    capability.

    Columns: run, env, user, user_version, agent, persona, split, need, disposition, seed, start,
    turn (from 1), utterance, reply, change, emotion, reward, final and outcome of the dialogue,
    thought, `uses_STRATEGY` (None for Chinese), and a capability's mark where one was given.
    """
    capabilities = sorted(
        {name for run in judged.values() for scores in run.values() for name in scores}
    )
    for run, split, episode in records:
        marks = judged.get(run, {}).get(str(episode.key), {})
        lines = [episode.opening]
        for number, turn in enumerate(episode.turns, 1):
            used = label_turn(turn.utterance, lines)
            lines.append(turn.reply)
            yield {
                "run": run,
                "env": episode.env,
                "user": episode.user,
                "user_version": episode.user_version,
                "agent": episode.agent,
                "persona": episode.persona,
                "split": split,
                "need": episode.need,
                "disposition": episode.disposition,
                "seed": episode.seed,
                "start": episode.start,
                "turn": number,
                "utterance": turn.utterance,
                "reply": turn.reply,
                "change": turn.appraisal.change,
                "emotion": turn.emotion,
                "reward": turn.reward,
                "final": episode.final,
                "outcome": str(episode.outcome),
                "thought": turn.appraisal.thought,
                **{f"uses_{name}": None if used is None else name in used for name in STRATEGIES},
                **{name: marks.get(name) for name in capabilities},
            }


def write_table(path: Path, rows: Sequence[Mapping[str, Cell]]) -> None:
    """Write CSV with formulas escaped, or Parquet by the path; RunError without pyarrow."""
    if path.suffix == PARQUET:
        _write_parquet(path, rows)
        return
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]), lineterminator="\r\n")
    table.writeheader()
    table.writerows({name: _escape_formula(cell) for name, cell in row.items()} for row in rows)
    write_atomically(path, text.getvalue())


def _escape_formula(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_BEGIN_FORMULA) else cell


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Cell]]) -> None:
    try:
        # an extra of its own, which may be missing where types are checked
        import pyarrow as pa  # noqa: PLC0415  # pyright: ignore[reportMissingImports]
        from pyarrow import parquet  # noqa: PLC0415  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise RunError(
            f"{path}: Parquet needs pyarrow. Run: pip install pyarrow; or write a .csv"
        ) from error
    table = pa.table({name: [row[name] for row in rows] for name in rows[0]})
    data = io.BytesIO()
    parquet.write_table(table, data)
    write_atomically(path, data.getvalue())
