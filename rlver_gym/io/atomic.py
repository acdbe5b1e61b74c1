"""Files written all or nothing.

Errors are of the caller's kind. Knows nothing of what is written.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rlver_gym.io.errors import RunError

MakeError = Callable[[str], Exception]
"""Makes the caller's error from a message, such as `RunError`."""


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

    `error` when it cannot be written: what was there before is intact then.
    """
    draft = path.with_name(path.name + ".part")
    with convert_write_errors(path, error):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        try:
            # A link or a pipe of that name, in a folder from somebody else, is not written through.
            draft.unlink(missing_ok=True)
            with draft.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
