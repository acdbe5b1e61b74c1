"""Files that are written, or replaced, all or nothing."""

import errno
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from rlver_gym.util.errors import RunError
from rlver_gym.util.files import MakeError

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
        return (
            "A file lies where a folder is needed. Choose another place (of most commands --out)."
        )
    if isinstance(error, IsADirectoryError):
        return "It is a folder. Give the path of a file (of most commands --out)."
    return "Choose a place that you may write to (of most commands --out)."


def write_atomically(
    path: Path, content: str | bytes | Iterator[str], error: MakeError = RunError
) -> None:
    """Write a file all or nothing; its folders are made. Of many writers at once the last one's
    stays. `error` when it cannot be written: what was there before is intact then.
    """
    parts = content if isinstance(content, Iterator) else (content,)
    replace_file(path, parts, error, lambda file: file.close())


def replace_file(
    path: Path, parts: Iterable[str | bytes], error: MakeError, finish: Callable[[FileIO], object]
) -> FileIO:
    draft = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(8)}.part")
    with convert_write_errors(path, error):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        file = draft.open("xb", buffering=0)
        try:
            append_parts(file, parts)
            finish(file)
            draft.replace(path)
        except BaseException:
            file.close()
            draft.unlink(missing_ok=True)
            raise
    return file


def append_parts(file: FileIO, parts: Iterable[str | bytes]) -> None:
    """Write at the end of a file, out to the disk; on an error the file is as it was."""
    end = file.seek(0, os.SEEK_END)
    try:
        for part in parts:
            rest = memoryview(part.encode() if isinstance(part, str) else part)
            while rest:
                rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except BaseException:
        file.truncate(end)
        raise


def lock_file(file: FileIO, path: Path, error: MakeError, *, wait: bool = False) -> None:
    """Lock a file until it is closed; `error` when another has it, unless this may `wait`."""
    try:
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise error(
            f"{path.parent}: another process is writing here. Wait until it is done, or choose"
            " another folder with --out."
        ) from None
