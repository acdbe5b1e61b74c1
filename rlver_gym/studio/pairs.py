"""Blind comparison of two dialogues with one person, kept in preferences.jsonl."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

from rlver_gym.bench.side_files import PREFERENCES
from rlver_gym.environment.episode import Episode
from rlver_gym.studio.ratings import hide_names
from rlver_gym.studio.request_fields import Name, Rater
from rlver_gym.studio.runs import Run, Runs
from rlver_gym.studio.views import Json
from rlver_gym.util.errors import RunError, UnknownName
from rlver_gym.util.json_lines import append_json, read_json_lines
from rlver_gym.util.json_text import to_plain
from rlver_gym.util.reliability import krippendorff_alpha

Side = Literal["left", "right", "even"]
_POINTS = {"left": 1, "even": 0, "right": -1}


class Pair(NamedTuple):
    """Two dialogues with the same person and seed, by their names in the run."""

    left: str
    right: str


class Pairs:
    """The pairs of each run in an order that is the same for everybody, and what raters said."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def next(self, run: Name, rater: Rater) -> Json:
        """What this rater compares next; nothing in it tells the agents or the scores."""
        benched = self._runs.run(run)
        hidden = hide_names(benched)
        groups = _group_by_person(benched, hidden)
        done = _name_compared_pairs(benched, hidden, rater)
        name = next((name for name in _iterate_pairs(groups) if name not in done), None)
        return {
            "total": sum(len(names) * (len(names) - 1) // 2 for names in groups),
            "done": len(done),
            "next": self._blind(benched, name, _find_pair(benched, hidden, name)) if name else None,
        }

    def _blind(self, run: Run, name: str, pair: Pair) -> Json:
        left, right = (run.dialogues[key] for key in pair)
        return {
            "name": name,
            "person": self._runs.person(run, left)[0],
            "need": left.need,
            "openings": [left.opening, right.opening],
            "turns": [
                [[turn.utterance, turn.reply] for turn in each.turns] for each in (left, right)
            ],
        }

    def prefer(self, run: Name, rater: Rater, name: Name, side: Side) -> Json:
        """Keep which of the two helped more. UnknownName for a pair that is not in the queue."""
        benched = self._runs.run(run)
        pair = _find_pair(benched, hide_names(benched), name)
        append_json(
            benched.folder, PREFERENCES, {**pair._asdict(), "rater": rater, "preferred": side}
        )
        return self.next(run, rater)

    def tally(self, run: Name, rater: Rater = "") -> Json:
        """How often each agent was preferred (even: a half), for a rater who has compared every
        pair, and how far raters agree with each other (alpha) and with the score: the share of
        decided pairs whose preferred side ended higher, where the ends differ. None for all else.
        """
        benched = self._runs.run(run)
        said = {
            pair: by
            for pair, by in _read_preferences(benched).items()
            if set(pair) <= set(benched.dialogues)
        }
        shares: dict[str, list[float]] = defaultdict(list)
        agreed: list[bool] = []
        for pair, by in said.items():
            left, right = (benched.dialogues[key] for key in pair)
            for points in by.values():
                shares[left.agent].append((1 + points) / 2)
                shares[right.agent].append((1 - points) / 2)
                if points and left.final != right.final:
                    agreed.append((left.final > right.final) is (points > 0))
        agents = {
            benched.shown_as[name]: [fmean(points), len(points)] for name, points in shares.items()
        }
        ranked = dict(sorted(agents.items(), key=lambda entry: -entry[1][0]))
        is_done = self.next(run, rater)["next"] is None
        return to_plain(
            {
                "pairs": len(said),
                "raters": len({rater for by in said.values() for rater in by}),
                "shared": sum(len(by) > 1 for by in said.values()),
                "alpha": krippendorff_alpha([[*by.values()] for by in said.values()]),
                "with_score": fmean(agreed) if agreed else None,
                "decided": len(agreed),
                "agents": ranked if is_done else None,
            }
        )


def _find_pair(run: Run, hidden: Mapping[str, str], name: str) -> Pair:
    names = name.split("-")
    if len(names) == 2 and all(each in hidden for each in names) and name == _name_pair(*names):
        pair = Pair(*(hidden[each] for each in names))
        if _is_comparable(run, pair):
            return pair
    raise UnknownName("there is no such pair in the queue. Load the page again.")


def _name_compared_pairs(run: Run, hidden: Mapping[str, str], rater: str) -> set[str]:
    names = {key: name for name, key in hidden.items()}
    return {
        _name_pair(*(names[key] for key in pair))
        for pair, by in _read_preferences(run).items()
        if rater in by and pair.left in names and pair.right in names and _is_comparable(run, pair)
    }


def _is_comparable(run: Run, pair: Pair) -> bool:
    left, right = (_get_person_and_seed(run.dialogues[key]) for key in pair)
    return pair.left != pair.right and left == right


def _group_by_person(run: Run, hidden: Mapping[str, str]) -> list[list[str]]:
    """The hidden names of dialogues that can be compared: of one person and seed."""
    groups: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name, key in hidden.items():
        groups[_get_person_and_seed(run.dialogues[key])].append(name)
    return list(groups.values())


def _get_person_and_seed(episode: Episode) -> tuple[str, int]:
    return episode.persona, episode.seed


def _iterate_pairs(groups: Sequence[Sequence[str]]) -> Iterator[str]:
    """All pairs by name, so that who compares a few has met all people and agents."""
    most = max(map(len, groups), default=0)
    for step in range(1, most // 2 + 1):
        for place in range(most):
            for names in groups:
                # in the last round of an even number they meet from both sides
                count = len(names) // 2 if 2 * step == len(names) else len(names)
                if place < count and 2 * step <= len(names):
                    yield _name_pair(names[place], names[(place + step) % len(names)])


def _name_pair(first: str, second: str) -> str:
    """The left and the right one; which of two that is tells nothing."""
    low, high = sorted((first, second))
    is_even = (int(low, 16) + int(high, 16)) % 2 == 0
    return f"{low}-{high}" if is_even else f"{high}-{low}"


def _read_preferences(run: Run) -> dict[Pair, dict[str, int]]:
    """By pair and rater, 1 for the left, -1 for the right, 0 for even; the last of several."""
    preferences: dict[Pair, dict[str, int]] = defaultdict(dict)
    for where, line in read_json_lines(run.folder, PREFERENCES):
        left, right, rater, side = (
            line.get(name) for name in ("left", "right", "rater", "preferred")
        )
        names = (left, right, rater)
        if not all(isinstance(name, str) for name in names) or side not in _POINTS:
            raise RunError(
                f"{where}: must name left, right, rater and preferred (left, right or even). Mend"
                " or remove the line."
            )
        preferences[Pair(str(left), str(right))][str(rater)] = _POINTS[side]
    return preferences
