"""Rows as text, and the folder of an export."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rlver_gym.bench.export.rows import Row
from rlver_gym.util.atomic import convert_write_errors, write_atomically
from rlver_gym.util.errors import RunError
from rlver_gym.util.files import path_inside, read_text
from rlver_gym.util.folders import is_taken

CARD = "README.md"
MARK = "<!-- written by rlver-gym export -->"
"""Stands in the card of a folder that may be written anew."""
_MAX_CARD_BYTES = 16 << 20


def format_jsonl(rows: Sequence[Row], bare: bool = False) -> str:
    """One row a line; `bare` leaves the metadata out."""
    hidden = {"metadata"} if bare else set()
    shown = ({name: row[name] for name in row if name not in hidden} for row in rows)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in shown)


def write_export(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, by their paths, into a folder: all of them on its disk first, then each into its
    place, so that a disk that is full changes nothing and only a stop between two moves leaves some
    of the old. Those that an earlier export left there are replaced, or removed; everything else
    stays.

    RunError when the folder is neither empty nor an earlier export, or cannot be written.
    """
    folder = folder.resolve()
    earlier = _list_earlier_export(folder)
    with convert_write_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = folder if folder.exists() else folder.parent  # on the same disk
        with TemporaryDirectory(prefix=f".{folder.name}-", dir=beside) as name:
            draft = Path(name)
            for path, text in files.items():
                write_atomically(draft / path, text)
            for path in files:
                place = path_inside(folder, path)
                place.parent.mkdir(parents=True, exist_ok=True)
                (draft / path).replace(place)
        for path in earlier - files.keys():
            place = path_inside(folder, path)
            place.unlink(missing_ok=True)
            if not any(place.parent.iterdir()):
                place.parent.rmdir()


def _list_earlier_export(folder: Path) -> set[str]:
    """The files that its card names. RunError for a folder that is no earlier export."""
    card = folder / CARD
    if not is_taken(folder):
        return set()
    text = read_text(card, max_bytes=_MAX_CARD_BYTES) if card.is_file() else ""
    if MARK not in text:
        raise RunError(
            f"{folder}: is there already, and is no earlier export. Choose another place with"
            " --out."
        )
    return set(re.findall(r"^ +path: ([a-z]+/[a-z]+\.jsonl)$", text, re.MULTILINE))
