"""The folder of a run: its manifest and its episodes, as they are read. Knows files, and no plan.

A folder may come from a stranger: only regular files are read, bounded, and no link in it leads out
of it.
"""

from collections.abc import Iterator
from pathlib import Path

from rlver_gym.environment.episode import Episode
from rlver_gym.util import __version__
from rlver_gym.util.errors import RunError
from rlver_gym.util.files import path_inside, read_lines, read_text
from rlver_gym.util.json_text import parse_json
from rlver_gym.util.terminal import one_line

EPISODES = "episodes.jsonl"
MANIFEST = "manifest.json"
RESPONSE_CACHE_FILE = "response_cache.sqlite"
MANIFEST_FORMAT = 1
"""Of the manifests that this version writes, and the only one that it reads."""
_MAX_MANIFEST_BYTES = 16 << 20


def find_response_cache(folder: Path) -> Path:
    """Where the answers of a run's servers are, or go. RunError for a link out of the folder."""
    return path_inside(folder, RESPONSE_CACHE_FILE, error=RunError)


def read_manifest(folder: Path) -> dict[str, object]:
    """The manifest of a run folder; RunError without one, and for one of another format."""
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
    if (found := manifest.get("format")) != MANIFEST_FORMAT:
        raise RunError(
            f"{path}: its format is {_quote_value(found)}, and rlver-gym {__version__} reads format"
            f" {MANIFEST_FORMAT}. Install the version of rlver-gym that the manifest names:"
            f" {_quote_value(manifest.get('package'))}."
        )
    return manifest


def _quote_value(value: object) -> str:
    return "not named" if value is None else one_line(repr(value), max_chars=40)


def read_episode_lines(folder: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a run's episodes, read one at a time; the last may be cut off."""
    return read_lines(
        path_inside(folder, EPISODES, error=RunError),
        error=RunError,
        hint=f"Is {folder} the folder of a run?",
    )


def read_episodes(folder: Path) -> list[Episode]:
    path = folder / EPISODES
    return [
        Episode.from_json(line, f"{path}, line {number}")
        for number, line in read_episode_lines(folder)
        if line
    ]
