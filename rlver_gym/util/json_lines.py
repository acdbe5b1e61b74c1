"""Files that grow: JSON, a line an object, written whole to their end and read back."""

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from rlver_gym.util.atomic import append_parts, convert_write_errors, lock_file, replace_file
from rlver_gym.util.errors import RunError
from rlver_gym.util.files import MakeError, open_regular, path_inside, read_lines
from rlver_gym.util.json_text import parse_json, parse_object

LOG = logging.getLogger("rlver_gym.files")
_BLOCK_BYTES = 64 << 10


def _is_json(line: bytes) -> bool:
    try:
        parse_json(line, allow_nan=True)
    except ValueError:
        return False
    return True


def append_json(folder: Path, name: str, *values: dict[str, Any]) -> None:
    """Write the values as lines at the end of a file of the folder, as `append_lines` does."""
    path = path_inside(folder, name)
    append_lines(path, (json.dumps(value, ensure_ascii=False) for value in values))


def append_lines(
    path: Path,
    lines: Iterable[str],
    error: MakeError = RunError,
    is_complete: Callable[[bytes], bool] = _is_json,
) -> None:
    """Append lines safely, all or with an `error` none. Other writers wait meanwhile.
    `is_complete`: whether a last line without line feed is kept.
    """
    with open_locked(path, error, wait=True, is_complete=is_complete) as file:
        write_lines(file, path, lines, error)


def write_lines(
    file: FileIO, path: Path, lines: Iterable[str], error: MakeError = RunError
) -> None:
    """As `append_lines`, to the file of `open_locked`, which lies at the path."""
    with convert_write_errors(path, error):
        append_parts(file, ["".join(f"{line}\n" for line in lines)])


@contextmanager
def open_locked(
    path: Path,
    error: MakeError = RunError,
    *,
    wait: bool = False,
    is_complete: Callable[[bytes], bool] = _is_json,
) -> Iterator[FileIO]:
    """A file open for `write_lines`, locked until it is closed; its folders are made, and a last
    line that was cut off is dropped. `error` when it cannot be written or, unless `wait`, is
    locked.
    """
    with convert_write_errors(path, error):
        path.parent.mkdir(parents=True, exist_ok=True)
        path = path_inside(path.parent, path.name, error=error)
        if path.exists() and not path.is_file():
            raise error(f"{path}: not a regular file. Choose another folder with --out.")
        file = _open_and_lock(path, error, wait, is_complete)
    with file:
        yield file


def rewrite_locked(path: Path, lines: Iterable[str]) -> FileIO:
    """Replace a file of `open_locked`, all or nothing: the new one, open and locked throughout."""
    ended = (f"{line}\n" for line in lines)
    return replace_file(path, ended, RunError, lambda file: lock_file(file, path, RunError))


def _open_and_lock(
    path: Path, error: MakeError, wait: bool, is_complete: Callable[[bytes], bool]
) -> FileIO:
    while True:
        file = path.open("a+b", buffering=0)
        try:
            lock_file(file, path, error, wait=wait)
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                _end_last_line(file, path, is_complete)
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # somebody has replaced the file meanwhile


def _end_last_line(file: FileIO, path: Path, is_complete: Callable[[bytes], bool]) -> None:
    begin = end = file.seek(0, os.SEEK_END)
    tail, size = b"", _BLOCK_BYTES
    while begin and b"\n" not in tail:
        begin, size = max(0, begin - size), 2 * size
        file.seek(begin)
        tail = file.read(end - begin)
    last = tail.rpartition(b"\n")[2]
    if not last:
        return
    if is_complete(last):
        append_parts(file, ["\n"])
    else:
        file.truncate(end - len(last))
        LOG.warning("%s: the last line was cut off while it was written. It is dropped.", path)


def read_json_lines(folder: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object with its place; a cut last line is passed over, RunError for others."""
    path = path_inside(folder, name)
    if not path.exists():
        return
    lines = read_lines(path)
    for number, line in lines:
        where = f"{path}, line {number}"
        try:
            value = parse_object(line, where) if line.strip() else {}
        except RunError:
            if next(lines, None) is None and not _ends_with_line_feed(path):
                return
            raise
        if value:
            yield where, value


def _ends_with_line_feed(path: Path) -> bool:
    with open_regular(path) as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
