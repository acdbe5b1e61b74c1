"""Rows as text, and folders that are written whole or not at all."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rlver_gym.bench.export.rows import Row
from rlver_gym.util.atomic import convert_write_errors, write_atomically
from rlver_gym.util.errors import RunError
from rlver_gym.util.files import read_text

CARD = "README.md"
MARK = "<!-- written by rlver-gym export -->"
"""Stands in the card of a folder that may be written anew."""
_MAX_CARD_BYTES = 16 << 20


def format_jsonl(rows: Sequence[Row], bare: bool = False) -> str:
    """One row a line; `bare` leaves the metadata out."""
    hidden = {"metadata"} if bare else set()
    shown = ({name: row[name] for name in row if name not in hidden} for row in rows)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in shown)


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, by their paths within a new folder, which is there only when all are. An earlier
    export is replaced.

    RunError when the folder holds something else, or cannot be written.
    """
    folder = folder.resolve()
    if folder.exists() and not _is_replaceable(folder):
        raise RunError(
            f"{folder}: is there already, and is no earlier export. Choose another place with"
            " --out."
        )
    with convert_write_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as name:
            draft = Path(name)
            for path, text in files.items():
                write_atomically(draft / "new" / path, text)
            if folder.exists():
                folder.rename(draft / "old")
            (draft / "new").rename(folder)


def _is_replaceable(folder: Path) -> bool:
    """Whether it is an empty folder, or one that `write_folder` left with this card."""
    if not folder.is_dir():
        return False
    card = folder / CARD
    return not any(folder.iterdir()) or (
        card.is_file() and MARK in read_text(card, max_bytes=_MAX_CARD_BYTES, error=RunError)
    )
