"""The folder of a run: its manifest, its episodes, and the lock that keeps two runs apart. Knows
files, and no plan.

A folder may come from a stranger: only regular files are read, bounded, and no link in it leads out
of it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from rlver_gym.environment.episode import Episode
from rlver_gym.io.atomic import convert_write_errors
from rlver_gym.io.errors import RunError
from rlver_gym.io.files import path_inside, read_lines, read_text
from rlver_gym.io.json_text import parse_json

try:
    import fcntl
except ImportError:  # not on Windows, which has no lock that a killed process gives back
    fcntl = None

EPISODES = "episodes.jsonl"
MANIFEST = "manifest.json"
RESPONSE_CACHE_FILE = "tape.sqlite"
_MAX_MANIFEST_BYTES = 16 << 20


@contextmanager
def open_locked(path: Path) -> Iterator[FileIO]:
    """Open a file for appending, locked against other processes; its folders are made.

    The kernel gives the lock back when the process ends, however it ends. RunError when another has
    it.
    """
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
                f"{path.parent}: another bench is writing here. Wait until it is done, or choose"
                " another folder with --out."
            ) from None


def rewrite_locked(path: Path, text: str) -> FileIO:
    """Replace a file that `open_locked` gave, all or nothing; returns the new one, open for
    appending and locked since before it had its name.
    """
    draft = path.with_name(path.name + ".part")
    with convert_write_errors(path):
        draft.unlink(missing_ok=True)  # what lies there may be a link to elsewhere
        file = draft.open("xb", buffering=0)
        try:
            _acquire_lock(file, draft)
            append_text(file, text)
            os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            file.close()
            draft.unlink(missing_ok=True)
            raise
    return file


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


def read_manifest(folder: Path) -> dict[str, object]:
    """The manifest of a run folder; RunError when there is none to read."""
    path = path_inside(folder, MANIFEST, error=RunError)
    text = read_text(
        path,
        max_bytes=_MAX_MANIFEST_BYTES,
        error=RunError,
        hint=f"Is {folder} the folder of a run?",
    )
    try:
        manifest = parse_json(text)
    except ValueError as error:
        raise RunError(f"{path}: not valid JSON ({error}). Was it edited or cut?") from error
    if not isinstance(manifest, dict):
        raise RunError(f"{path}: not a manifest. Was it edited?")
    return manifest


def episode_lines(folder: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a run's episodes, read one at a time; the last may be cut off."""
    return read_lines(
        path_inside(folder, EPISODES, error=RunError),
        error=RunError,
        hint=f"Is {folder} the folder of a run?",
    )


def read_episodes(folder: Path) -> list[Episode]:
    """The episodes of a run folder, in the order of the file."""
    path = folder / EPISODES
    return [
        Episode.from_json(line, f"{path}, line {number}")
        for number, line in episode_lines(folder)
        if line
    ]
