"""Models that are made once and kept in a folder, and loaded without progress bars."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers.utils import logging


def cache_folder() -> Path:
    """Where made models are kept: $RLVER_GYM_CACHE, else rlver-gym in the user's cache folder."""
    own = os.environ.get("RLVER_GYM_CACHE")
    return (
        Path(own)
        if own
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlver-gym"
    )


def make_once(name: str, make: Callable[[Path], None], error: Callable[[str], Exception]) -> Path:
    """The folder of that name, whole or not there; `error` when there is no room for it."""
    folder = cache_folder() / name
    if (folder / "config.json").is_file():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
        try:
            make(draft)
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as problem:
        if (folder / "config.json").is_file():  # another process was faster
            return folder
        raise error(
            f"the model {name} cannot be written to {folder.parent} ({problem}). Set"
            " RLVER_GYM_CACHE to a folder with room."
        ) from problem
    return folder


@contextmanager
def hide_progress_bars() -> Iterator[None]:
    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()
