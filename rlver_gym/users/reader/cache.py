"""Where unpacked models are kept."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """$RLVER_GYM_CACHE, else rlver-gym in the user's cache folder."""
    own = os.environ.get("RLVER_GYM_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlver-gym"
