"""Models that are made once and kept in a folder, loaded without progress bars, and shared within a
process; the name that their cache goes by.
"""

import inspect
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers.utils import logging


@dataclass(frozen=True)
class SharedModel:
    """A decoder in memory that others may read, as it is below its adapters."""

    model: Any
    tokenizer: Any
    without_adapters: Callable[[], AbstractContextManager[Any]]
    lock: AbstractContextManager[Any]
    """Held by whoever runs it: several threads read it, while another samples with it."""
    readers: dict[Any, Any] = field(default_factory=dict)
    """Who reads it, gone with it."""


SHARED: dict[str, SharedModel] = {}
"""What is in memory now, by the name that it was loaded by."""


def _cache_folder() -> Path:
    """Where made models are kept: $RLVER_GYM_CACHE, else rlver-gym in the user's cache folder."""
    own = os.environ.get("RLVER_GYM_CACHE")
    return (
        Path(own)
        if own
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlver-gym"
    )


def make_once(name: str, make: Callable[[Path], None], error: Callable[[str], Exception]) -> Path:
    """The folder of that name, whole or not there; `error` when there is no room for it."""
    folder = _cache_folder() / name
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


@contextmanager
def hide_warnings() -> Iterator[None]:
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def find_cache_argument_name(trunk: Any) -> str:
    """`cache` from transformers 5.24 on; `past_key_values` before, and in models that bring their
    own code.
    """
    parameters = inspect.signature(type(trunk).forward).parameters
    return "cache" if "cache" in parameters else "past_key_values"
