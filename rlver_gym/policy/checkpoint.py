"""Checkpoints on disk: each is whole or not there. Does not know what is in one."""

import json
import math
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rlver_gym.atomic import write_whole
from rlver_gym.errors import TrainingError
from rlver_gym.untrusted.files import read_text
from rlver_gym.untrusted.jsontext import parse_json

BEST = "best.json"
_NAME = re.compile(r"[0-9]{6}")


class _Best(NamedTuple):
    iteration: int
    score: float


class Checkpoints:
    """The checkpoints of a run folder, one folder each, named by the iteration after which it was written."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        """`keep`: how many of the last ones stay, beside the best."""
        self.folder = folder
        self.keep = keep

    def write(self, iteration: int, fill: Callable[[Path], None], score: float | None = None) -> Path:
        """Let `fill` write into a new folder, then give it its name; older ones go. `score`: higher is better; the best one stays. One that is no number says nothing.

        TrainingError when the disk is full or cannot be written; what was there before is intact then.
        """
        final, begun = self.folder / f"{iteration:06d}", self.folder / f".{iteration:06d}.tmp"
        try:
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir(parents=True)
            fill(begun)
            _flush(begun)
            shutil.rmtree(final, ignore_errors=True)
            begun.rename(final)
            _flush_folder(self.folder)
            self._note(iteration, score)
        except OSError as error:
            shutil.rmtree(begun, ignore_errors=True)
            raise TrainingError(
                f"the checkpoint {final} cannot be written ({error}). Make room and go on with --resume; {self._what_stays()}"
            ) from error
        self._clear()
        return final

    def all(self) -> list[Path]:
        """The whole ones, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def latest(self) -> Path | None:
        """The last one; None when there is none."""
        return (self.all() or [None])[-1]

    def best(self) -> Path | None:
        """The one with the highest score; None when none was scored."""
        noted = self._noted()
        path = self.folder / f"{noted.iteration:06d}" if noted else None
        return path if path is not None and path.is_dir() else None

    def _noted(self) -> "_Best | None":
        path = self.folder / BEST
        if not path.exists():
            return None
        try:
            value = parse_json(read_text(path, max_bytes=1 << 10, error=TrainingError))
            iteration, score = value["iteration"], value["score"]
            if type(iteration) is not int or not 0 <= iteration < 10**6 or type(score) not in (int, float):
                raise ValueError("it holds no iteration and score")
        except (ValueError, TypeError, KeyError) as error:
            raise TrainingError(
                f"{path}: does not say which checkpoint is best ({error}). Remove it; then the last one counts."
            ) from error
        return _Best(iteration, score)

    def _note(self, iteration: int, score: float | None) -> None:
        noted = self._noted()
        if (
            score is None
            or not math.isfinite(score)
            or (noted is not None and noted.iteration < iteration and noted.score >= score)
        ):
            return
        write_whole(self.folder / BEST, json.dumps({"iteration": iteration, "score": score}), OSError)

    def _clear(self) -> None:
        stay = {*self.all()[-self.keep :], self.best()}
        for path in self.all():
            if path not in stay:
                shutil.rmtree(path, ignore_errors=True)

    def _what_stays(self) -> str:
        latest = self.latest()
        return f"the one before, {latest}, is intact." if latest else "there is no earlier one."


def _flush(folder: Path) -> None:
    """Onto the disk with every file: a name must never stand for less than its contents."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    _flush_folder(folder)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
