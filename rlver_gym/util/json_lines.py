"""Files of somebody's own beside a run: JSON, a line an object, appended and read back."""

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from rlver_gym.util.atomic import convert_write_errors
from rlver_gym.util.errors import RunError
from rlver_gym.util.files import path_inside, read_lines
from rlver_gym.util.json_text import parse_json

_LOCK = Lock()


def append_json(folder: Path, name: str, *values: dict[str, Any]) -> None:
    """Write the values as lines at the end of a file of the folder; whole lines or none of them."""
    path = path_inside(folder, name, error=RunError)
    text = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
    with _LOCK, convert_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            file.write(text.encode())


def read_json_lines(folder: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object with where it stands; none when there is no such file. RunError for others."""
    path = path_inside(folder, name, error=RunError)
    if not path.exists():
        return
    for number, line in read_lines(path, error=RunError):
        where = f"{path}, line {number}"
        try:
            found = parse_json(line) if line.strip() else {}
        except ValueError as error:
            raise RunError(f"{where}: is no JSON ({error}). Mend or remove the line.") from error
        if not isinstance(found, dict):
            raise RunError(f"{where}: must be an object. Mend or remove the line.")
        if found:
            yield where, found
