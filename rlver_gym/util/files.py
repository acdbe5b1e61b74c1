"""One way to read a file, bounded."""

import json
import os
import re
import stat
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

from rlver_gym.util.errors import RunError

MAX_LINE_BYTES = 8 << 20
"""Of one line of JSON: hundreds of times the longest dialogue."""
MAX_FILE_BYTES = 1 << 30

MakeError = Callable[[str], Exception]
"""Makes the caller's error from a message, such as `CardError`."""


def read_bytes(
    path: Path, *, max_bytes: int, error: MakeError = RunError, hint: str = "Check the path."
) -> bytes:
    """The content of a regular file, or of a link to one, of at most `max_bytes`. `error` names the
    file; `hint` says what to do where it cannot be opened. No pipe or device is waited for.
    """
    with open_regular(path, error=error, hint=hint) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise error(
            f"{path}: larger than {_size(max_bytes)}, which is more than such a file needs."
        )
    return data


def read_text(
    path: Path, *, max_bytes: int, error: MakeError = RunError, hint: str = "Check the path."
) -> str:
    """As `read_bytes`, as UTF-8 text with line feeds as they are."""
    return _decode(read_bytes(path, max_bytes=max_bytes, error=error, hint=hint), path, error, "")


def read_lines(
    path: Path,
    *,
    error: MakeError = RunError,
    hint: str = "Check the path.",
    max_bytes: int = MAX_FILE_BYTES,
) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file, from 1, read one at a time; errors as `read_bytes`."""
    with open_regular(path, error=error, hint=hint) as file:
        number = size = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number, size = number + 1, size + len(line)
            if len(line) > MAX_LINE_BYTES:
                raise error(
                    f"{path}, line {number}: longer than {_size(MAX_LINE_BYTES)}. Was the file"
                    " damaged?"
                )
            if size > max_bytes:
                raise error(
                    f"{path}: larger than {_size(max_bytes)}, which is more than such a file needs."
                )
            if number == 1:
                line = line.removeprefix(BOM_UTF8)  # some editors and spreadsheets begin with it
            yield number, _decode(line.removesuffix(b"\n"), path, error, f", line {number}")


def stamp_file(path: Path) -> tuple[Any, ...]:
    """What differs once a file has changed or is another: where it lies, its time and its size."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # whoever reads it says so
        return (path.absolute(),)
    return path.absolute(), status.st_mtime_ns, status.st_size


def make_file_name(text: str, max_chars: int = 40) -> str:
    """Lower-case letters and digits of a text, parted by single hyphens; empty without any."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))[:max_chars].strip("-")


def _refuse_circle(link: Path) -> None:
    """OSError for links in a circle; from Python 3.13 on they resolve without one."""
    try:
        os.stat(link)
    except FileNotFoundError:
        return


def path_inside(folder: Path, *parts: str, error: MakeError = RunError) -> Path:
    """A file's path in a folder of somebody else's; `error` where a link leads out of it."""
    path = folder.joinpath(*parts)
    try:
        if path.is_symlink():
            _refuse_circle(path)
        stays = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, a NUL in a name
        stays = False
    if not stays:
        raise error(
            f"{path}: leads out of the folder {folder}. Copy what it points to into the folder."
        )
    return path


@contextmanager
def open_regular(
    path: Path, *, error: MakeError = RunError, hint: str = "Check the path."
) -> Iterator[BinaryIO]:
    """A regular file, open for reading. Neither opening nor reading it waits for anybody."""
    try:
        descriptor = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the path
        raise error(
            f"{path}: cannot be read ({getattr(problem, 'strerror', None) or problem}). {hint}"
        ) from problem
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise error(f"{path}: cannot be read (it is {_kind(mode)}, not a regular file). {hint}")
    with os.fdopen(descriptor, "rb") as file:
        try:
            yield file
        except OSError as problem:
            raise error(
                f"{path}: cannot be read ({problem.strerror or problem}). {hint}"
            ) from problem


def _decode(data: bytes, path: Path, error: MakeError, place: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise error(
            f"{path}{place}: not UTF-8 text (byte {problem.start}). Save it as UTF-8."
        ) from problem


def _kind(mode: int) -> str:
    kinds = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}
    return next((name for is_kind, name in kinds.items() if is_kind(mode)), "a device")


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def load_json(package: str, name: str) -> dict[str, Any]:
    """A JSON file that is shipped inside of a package, such as its weights."""
    return json.loads((files(package) / name).read_text(encoding="utf-8"))
