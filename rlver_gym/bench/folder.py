"""The folder of a run: its manifest and its episodes, as they are read. Knows files, and no plan.

A folder may come from a stranger: only regular files are read, bounded, and no link in it leads out
of it.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlver_gym.environment.episode import Episode
from rlver_gym.util import __version__
from rlver_gym.util.errors import RunError
from rlver_gym.util.files import open_regular, path_inside, read_lines, read_text
from rlver_gym.util.json_text import parse_object
from rlver_gym.util.terminal import one_line

EPISODES = "episodes.jsonl"
MANIFEST = "manifest.json"
RESPONSE_CACHE_FILE = "response_cache.sqlite"
MANIFEST_FORMAT = 1
"""Of the manifests that this version writes, and the only one that it reads."""
_MAX_MANIFEST_BYTES = 16 << 20


def find_response_cache(folder: Path) -> Path:
    """Where the answers of a run's servers are, or go. RunError for a link out of the folder."""
    return path_inside(folder, RESPONSE_CACHE_FILE)


def compute_manifest_checksum(plain: dict[str, Any]) -> str:
    """The checksum of a manifest: 12 hex digits of SHA-256 over all else in it."""
    rest = {name: value for name, value in plain.items() if name != "check"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:12]


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder; RunError without one, and for one that was changed."""
    path = path_inside(folder, MANIFEST)
    text = read_text(path, max_bytes=_MAX_MANIFEST_BYTES, hint=f"Is {folder} the folder of a run?")
    manifest = parse_object(text, path, remedy="Was it edited or cut?")
    if (kind := manifest.get("format")) != MANIFEST_FORMAT:
        raise RunError(
            f"{path}: its format is {_quote_value(kind)}, and rlver-gym {__version__} reads format"
            f" {MANIFEST_FORMAT}. Install the version of rlver-gym that the manifest names:"
            f" {_quote_value(manifest.get('package'))}."
        )
    if manifest.get("check") != compute_manifest_checksum(manifest):
        raise RunError(
            f"{path}: it was changed after it was written, so nothing in it is believed. Take the"
            " manifest that the run wrote, or hold the run again."
        )
    return manifest


def _quote_value(value: object) -> str:
    return "not named" if value is None else one_line(repr(value), max_chars=40)


def read_episode_lines(folder: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a run's episodes. RunError where the last is cut off."""
    path, hint = path_inside(folder, EPISODES), f"Is {folder} the folder of a run?"
    with open_regular(path, hint=hint) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if file.read(1) not in (b"", b"\n"):
            raise RunError(
                f"{path}: the last line is cut off, as when a run is killed while it writes. The"
                " same bench command goes on from there."
            )
    return read_lines(path, hint=hint)


def read_episodes(folder: Path) -> list[Episode]:
    path = folder / EPISODES
    return [
        Episode.from_json(line, f"{path}, line {number}")
        for number, line in read_episode_lines(folder)
        if line
    ]
