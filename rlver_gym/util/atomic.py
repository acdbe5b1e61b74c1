"""Files written all or nothing, or line by line under a lock between processes."""

import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from rlver_gym.util.errors import RunError
from rlver_gym.util.files import MakeError, path_inside

try:
    import fcntl
except ImportError:  # not on Windows, which has no lock that a killed process gives back
    fcntl = None


@contextmanager
def convert_write_errors(path: Path, error: MakeError = RunError) -> Iterator[None]:
    """Convert an OSError of the block into an `error` that names the path and what to do."""
    try:
        yield
    except OSError as problem:
        raise error(
            f"{path}: cannot be written ({problem.strerror or problem}). {_remedy(problem)}"
        ) from problem


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            "Free some space: what was finished is kept, and the same command goes on from there."
        )
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "A file lies where a folder is needed. Choose another place with --out."
    if isinstance(error, IsADirectoryError):
        return "It is a folder. Give the path of a file with --out."
    return "Choose a place that you may write to with --out."


def write_atomically(path: Path, text: str, error: MakeError = RunError) -> None:
    """Write a file atomically, all or nothing; its folders are made.

    Many may write the same file at once, each a draft of its own: whoever reads it finds what one
    of them wrote, and the last one's stays. `error` when it cannot be written: what was there
    before is intact then.
    """
    _replace(path, text, error, lambda file: file.close())


def rewrite_locked(path: Path, text: str) -> FileIO:
    """Replace a file of `open_locked`, all or nothing: the new one, open and locked throughout."""
    return _replace(path, text, RunError, lambda file: _acquire_lock(file, path))


def _replace(path: Path, text: str, error: MakeError, finish: Callable[[FileIO], object]) -> FileIO:
    """The file that took the place of the one there, `finish`ed just before."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(8)}.part")
    with convert_write_errors(path, error):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        file = draft.open("xb", buffering=0)
        try:
            append_text(file, text)
            os.fsync(file.fileno())
            finish(file)
            draft.replace(path)
        except BaseException:
            file.close()
            draft.unlink(missing_ok=True)
            raise
    return file


@contextmanager
def open_locked(path: Path) -> Iterator[FileIO]:
    """A file open for appending, locked until the process ends. RunError when another has it."""
    with convert_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if (
            path := path_inside(path.parent, path.name, error=RunError)
        ).exists() and not path.is_file():
            raise RunError(f"{path}: not a regular file. Choose another folder with --out.")
        file = path.open("ab", buffering=0)
    with file:
        _acquire_lock(file, path)
        yield file


def _acquire_lock(file: FileIO, path: Path) -> None:
    with convert_write_errors(path):
        try:
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{path.parent}: another process is writing here. Wait until it is done, or choose"
                " another folder with --out."
            ) from None


def append_line(file: FileIO, line: str) -> None:
    """Write a line out; on an error a part of it may be in the file."""
    append_text(file, f"{line}\n")


def append_text(file: FileIO, text: str) -> None:
    """As `append_line`, for lines with their ends."""
    rest = memoryview(text.encode())
    while rest:
        rest = rest[file.write(rest) :]


def drop_partial_line(path: Path) -> None:
    """Remove a last line that was cut off while being written."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
