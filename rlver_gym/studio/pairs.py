"""Blind comparison of two dialogues with the same person: which supporter helped more. Kept beside
the run in preferences.jsonl.
"""

import hashlib
from collections import defaultdict
from itertools import combinations
from statistics import fmean
from typing import Literal, NamedTuple

from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.episode import Episode
from rlver_gym.studio.asks import Name, Rater
from rlver_gym.studio.runs import Run, Runs
from rlver_gym.studio.views import Json
from rlver_gym.util.errors import RunError, UnknownName
from rlver_gym.util.json_lines import append_json, read_json_lines
from rlver_gym.util.json_text import to_plain
from rlver_gym.util.reliability import krippendorff_alpha

FILE = "preferences.jsonl"
Side = Literal["left", "right", "even"]
_POINTS = {"left": 1, "even": 0, "right": -1}


class Pair(NamedTuple):
    """Two dialogues with the same person and seed, by their names in the run."""

    left: str
    right: str


class Pairs:
    """The pairs of each run in an order that is the same for everybody, and what raters said."""

    def __init__(self, runs: Runs) -> None:
        """`runs`: whose dialogues."""
        self._runs = runs

    def next(self, run: Name, rater: Rater) -> Json:
        """What this rater compares next; nothing in it tells the agents or the scores."""
        found = self._runs.run(run)
        queue, said = _make_pair_queue(found), _read_preferences(found)
        left = [name for name, pair in queue.items() if rater not in said.get(pair, {})]
        return {
            "total": len(queue),
            "done": len(queue) - len(left),
            "next": self._blind(found, left[0], queue[left[0]]) if left else None,
        }

    def _blind(self, run: Run, name: str, pair: Pair) -> Json:
        left, right = (run.dialogues[key] for key in pair)
        return {
            "name": name,
            "person": self._runs.person(run, left)[0],
            "need": left.need,
            "openings": [left.opening, right.opening],
            "turns": [[[one.utterance, one.reply] for one in each.turns] for each in (left, right)],
        }

    def prefer(self, run: Name, rater: Rater, name: Name, side: Side) -> Json:
        """Keep which of the two helped more. UnknownName for a pair that is not in the queue."""
        found = self._runs.run(run)
        pair = _make_pair_queue(found).get(name)
        if pair is None:
            raise UnknownName("there is no such pair in the queue. Load the page again.")
        append_json(found.folder, FILE, {**pair._asdict(), "rater": rater, "preferred": side})
        return self.next(run, rater)

    def tally(self, run: Name) -> Json:
        """How often each agent was preferred (even: a half), and how far raters agree with each
        other (alpha) and with the score: the share of decided pairs whose preferred side ended
        higher, where the ends differ. None for what these pairs cannot tell.
        """
        found = self._runs.run(run)
        said = {
            pair: by
            for pair, by in _read_preferences(found).items()
            if set(pair) <= set(found.dialogues)
        }
        shares: dict[str, list[float]] = defaultdict(list)
        agreed: list[bool] = []
        for pair, by in said.items():
            left, right = (found.dialogues[key] for key in pair)
            for points in by.values():
                shares[left.agent].append((1 + points) / 2)
                shares[right.agent].append((1 - points) / 2)
                if points and left.final != right.final:
                    agreed.append((left.final > right.final) is (points > 0))
        agents = {found.shown_as[name]: [fmean(one), len(one)] for name, one in shares.items()}
        return to_plain(
            {
                "pairs": len(said),
                "raters": len({rater for by in said.values() for rater in by}),
                "shared": sum(len(by) > 1 for by in said.values()),
                "alpha": krippendorff_alpha([[*by.values()] for by in said.values()]),
                "with_score": fmean(agreed) if agreed else None,
                "decided": len(agreed),
                "agents": dict(sorted(agents.items(), key=lambda one: -one[1][0])),
            }
        )


def _make_pair_queue(run: Run) -> dict[str, Pair]:
    """Every two dialogues of one person and seed, by names that tell nothing; which stands on the
    left does not tell either.
    """
    groups: dict[tuple[str, int], list[str]] = defaultdict(list)
    for key, episode in run.dialogues.items():
        if episode.outcome is not Outcome.FAILED:
            groups[_get_person_and_seed(episode)].append(key)
    found = {}
    for keys in groups.values():
        for first, second in combinations(sorted(keys), 2):
            text = f"{run.manifest.fingerprint}\n{first}\n{second}"
            name = hashlib.sha256(text.encode()).hexdigest()[:12]
            found[name] = Pair(first, second) if int(name[-1], 16) % 2 else Pair(second, first)
    return dict(sorted(found.items()))


def _get_person_and_seed(episode: Episode) -> tuple[str, int]:
    return episode.persona, episode.seed


def _read_preferences(run: Run) -> dict[Pair, dict[str, int]]:
    """By pair and rater, 1 for the left, -1 for the right, 0 for even; the last of several."""
    found: dict[Pair, dict[str, int]] = defaultdict(dict)
    for where, line in read_json_lines(run.folder, FILE):
        left, right, rater, side = (
            line.get(name) for name in ("left", "right", "rater", "preferred")
        )
        names = (left, right, rater)
        if not all(isinstance(one, str) for one in names) or side not in _POINTS:
            raise RunError(
                f"{where}: must name left, right, rater and preferred (left, right or even). Mend"
                " or remove the line."
            )
        found[Pair(str(left), str(right))][str(rater)] = _POINTS[side]
    return found
