"""Folders that are written all or nothing."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlver_gym.util.atomic import convert_write_errors
from rlver_gym.util.files import MakeError
from rlver_gym.util.json_lines import open_locked

LOCK = ".lock"


@contextmanager
def write_folder(path: Path, error: MakeError) -> Iterator[Path]:
    """A draft beside `path` to write into. It takes the place of what is there when the block ends;
    when that fails, what was there stays. What a killed process left is overwritten, or moved back.
    `error` when another process writes the same folder, or when it cannot be written.
    """
    path = path.resolve()
    draft, old = (path.with_name(f".{path.name}.{kind}") for kind in ("part", "old"))
    with open_locked(draft / LOCK, error):
        try:
            with convert_write_errors(path, error):
                _move_back(old, path)
            for leftover in draft.iterdir():
                if leftover.is_dir():
                    shutil.rmtree(leftover)
                elif leftover.name != LOCK:
                    leftover.unlink()
            yield draft
            with convert_write_errors(path, error):
                (draft / LOCK).unlink()
                sync_to_disk(*filter(Path.is_file, draft.rglob("*")), draft)
                shutil.rmtree(old, ignore_errors=True)
                if path.exists():
                    path.rename(old)
                draft.rename(path)
                sync_to_disk(path.parent)
        except BaseException:
            _move_back(old, path)
            shutil.rmtree(draft, ignore_errors=True)
            raise
    shutil.rmtree(old, ignore_errors=True)


def is_taken(path: Path) -> bool:
    """Whether something is there that writing a folder would lose: all but an empty folder."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def _move_back(old: Path, path: Path) -> None:
    if old.exists() and not path.exists():
        old.rename(path)


def sync_to_disk(*paths: Path) -> None:
    """Onto the disk with them: a name must never stand for less than its contents."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
