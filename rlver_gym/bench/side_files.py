"""What a judge, raters and other users have left beside a run: which of it is of this run."""

from collections.abc import Iterable, Iterator, Mapping
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple

from rlver_gym.bench.opinions import OPINIONS, SCORE, read_capabilities, read_opinions
from rlver_gym.bench.raters import RATINGS, read_ratings
from rlver_gym.bench.score import drop_failed
from rlver_gym.core.capabilities import JUDGEMENTS
from rlver_gym.environment.episode import Episode
from rlver_gym.util.errors import RlverError
from rlver_gym.util.files import path_inside
from rlver_gym.util.groups import mean_by
from rlver_gym.util.json_lines import read_json_lines

NOTES, PREFERENCES, BRANCHES = "notes.jsonl", "preferences.jsonl", "studio/branches.jsonl"
_DIALOGUES = {
    JUDGEMENTS: ("dialogue",), RATINGS: ("dialogue",), NOTES: ("dialogue",),
    BRANCHES: ("dialogue",), PREFERENCES: ("left", "right"),
}  # fmt: skip
"""In which fields a line of each file names dialogues."""
SIDE_FILES = (OPINIONS, *_DIALOGUES)


class SideFile(NamedTuple):
    """A file beside a run."""

    name: str
    problem: str
    """Why it is not of this run; empty when it is."""


def check_side_files(folder: Path, episodes: Iterable[Episode]) -> Iterator[SideFile]:
    """Those that are there, each against the dialogues of the run that count."""
    by_key = {str(episode.key): episode for episode in episodes}
    for name in SIDE_FILES:
        try:
            if path_inside(folder, *name.split("/")).exists():
                yield SideFile(name, _find_problem(folder, name, by_key))
        except RlverError as error:
            yield SideFile(name, str(error))


def _find_problem(folder: Path, name: str, episodes: Mapping[str, Episode]) -> str:
    if name == OPINIONS:
        return _compare_scores(folder, episodes)
    if name == JUDGEMENTS:
        read_capabilities(folder / name)
    if name == RATINGS:
        read_ratings(folder)
    lines = [line for _, line in read_json_lines(folder, name)]
    strange = sum(not _is_of_run(line, name, episodes) for line in lines)
    return f"{strange:,} of {len(lines):,} lines name no dialogue of it" if strange else ""


def _is_of_run(line: Mapping[str, Any], name: str, episodes: Mapping[str, Episode]) -> bool:
    keys, turn = [line.get(field) for field in _DIALOGUES[name]], line.get("turn", 0)
    return all(
        isinstance(key, str)
        and key in episodes
        and isinstance(turn, int)
        and 0 <= turn <= len(episodes[key].turns)
        for key in keys
    )


def _compare_scores(folder: Path, episodes: Mapping[str, Episode]) -> str:
    opinions = read_opinions(folder)
    scores = mean_by(
        (episode.agent, episode.final) for episode in drop_failed([*episodes.values()])
    )
    there = opinions.emotions[SCORE] if opinions else {}
    for agent in {**scores, **there}:
        was, is_now = there.get(agent), scores.get(agent)
        if was is None or is_now is None or not isclose(was, is_now, abs_tol=1e-6):
            was, is_now = ("none" if value is None else f"{value:.1f}" for value in (was, is_now))
            return f"it has a score of {was} for {agent}, the run one of {is_now}"
    return ""
