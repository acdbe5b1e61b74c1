"""What people rated (`ratings.jsonl`), and how far they agree with each other and the score."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.core.emotion import MAX_CHANGE
from rlver_gym.environment.episode import Episode
from rlver_gym.util.correlation import centre, correlation, varies
from rlver_gym.util.errors import RunError
from rlver_gym.util.json_lines import read_json_lines
from rlver_gym.util.reliability import intraclass_correlation, krippendorff_alpha

RATINGS = "ratings.jsonl"
MIN_REPLIES = 3
"""Below so many, a correlation says nothing."""
Changes = dict[str, dict[str, dict[int, float]]]
"""By dialogue (AGENT/PERSONA/SEED), rater and turn, counted from 1; the last of several."""
Place = tuple[str, int]


class Rater(NamedTuple):
    """What one person rated."""

    name: str
    replies: int
    dialogues: int
    mean: float
    within_dialogue_r: float
    """Correlation with the score, without each dialogue's means; nan where nothing can be told."""


class RaterAgreement(NamedTuple):
    """How far all of them agree; nan for what these ratings cannot tell."""

    raters: tuple[Rater, ...]
    replies: int
    shared: int
    """Replies that more than one rated."""
    dialogues: int
    alpha: float
    """Krippendorff's, over the shared replies."""
    icc: float
    """ICC(2,1), over the replies that every rater rated."""
    icc_replies: int
    within_dialogue_r: float
    """Of the raters' mean with the score, as above."""


def read_ratings(folder: Path) -> Changes:
    """All of them; empty where there is no such file. RunError names a line that is no rating."""
    changes: Changes = defaultdict(lambda: defaultdict(dict))
    for where, (key, rater, turn), line in read_lines(folder):
        changes[key][rater][turn] = parse_number(line.get("change"), -MAX_CHANGE, MAX_CHANGE, where)
    return changes


def parse_number(value: object, low: float, high: float, where: str) -> float:
    """A number of somebody's file; RunError for what is none, or not from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise RunError(
            f"{where}: {value!r:.80} must be a number from {low:g} to {high:g}. Mend or remove the"
            " line."
        )
    return float(value)


def read_lines(folder: Path) -> Iterator[tuple[str, tuple[str, str, int], dict[str, Any]]]:
    """Of each line its place, dialogue, rater and turn, and all. RunError without these."""
    for where, line in read_json_lines(folder, RATINGS):
        key, rater, turn = line.get("dialogue"), line.get("rater"), line.get("turn")
        if not isinstance(key, str) or not isinstance(rater, str) or not isinstance(turn, int):
            raise RunError(f"{where}: must name dialogue, rater and turn. Mend or remove the line.")
        yield where, (key, rater, turn), line


def is_rated_whole(num_turns: int, said: Mapping[int, float]) -> bool:
    return set(said) == set(range(1, num_turns + 1))


def compare_raters(episodes: Mapping[str, Episode], rated: Changes) -> RaterAgreement:
    """`episodes`: by the names that the ratings give them; ratings of others count for nothing."""
    rated = {key: by for key, by in rated.items() if key in episodes}
    said: dict[Place, dict[str, float]] = defaultdict(dict)
    for key, by in rated.items():
        for name, changes in by.items():
            for turn, change in changes.items():
                if 1 <= turn <= len(episodes[key].turns):
                    said[key, turn][name] = change
    names = sorted({name for by in said.values() for name in by})
    score = {
        (key, turn): float(episodes[key].turns[turn - 1].appraisal.change) for key, turn in said
    }
    whole = [[by[name] for name in names] for by in said.values() if len(by) == len(names)]

    def describe(name: str) -> Rater:
        mine = {place: by[name] for place, by in said.items() if name in by}
        turns = {key: len(episodes[key].turns) for key in rated}
        finished = sum(is_rated_whole(turns[key], by.get(name, {})) for key, by in rated.items())
        r = _correlate_within_dialogues(mine, score)
        return Rater(name, len(mine), finished, fmean(mine.values()), r)

    means = {place: fmean(by.values()) for place, by in said.items()}
    return RaterAgreement(
        tuple(map(describe, names)),
        len(said),
        sum(len(by) > 1 for by in said.values()),
        len({key for key, _ in said}),
        krippendorff_alpha([[*by.values()] for by in said.values()]),
        intraclass_correlation(np.array(whole)),
        len(whole),
        _correlate_within_dialogues(means, score),
    )


def _correlate_within_dialogues(
    rated: Mapping[Place, float], score: Mapping[Place, float]
) -> float:
    if len(rated) < MIN_REPLIES:
        return nan
    dialogue = np.array([key for key, _ in rated])
    sides = np.array([(change, score[place]) for place, change in rated.items()], float).T
    ours, theirs = (centre(side, dialogue) for side in sides)
    return correlation(ours, theirs) if varies(ours) and varies(theirs) else nan
