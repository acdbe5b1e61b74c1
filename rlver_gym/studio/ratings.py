"""Blind rating of a run's dialogues by people, in the file that `rlver-gym opinions` reads."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from math import isnan
from statistics import fmean
from typing import Any

import numpy as np

from rlver_gym.bench.opinions import RATERS, SCORE, gather_opinions
from rlver_gym.bench.recompute import Sources
from rlver_gym.bench.rescore import read_dialogues
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.episode import Episode
from rlver_gym.io.correlation import correlation_within, varies
from rlver_gym.io.errors import RlverError, RunError, UnknownName
from rlver_gym.io.json_lines import append_json, read_json_lines
from rlver_gym.io.reliability import intraclass_correlation, krippendorff_alpha
from rlver_gym.studio.asks import Change, Final, Fit, Name, Natural, Rater, TurnNumber
from rlver_gym.studio.runs import Run, Runs
from rlver_gym.studio.views import Json, view_person

FILE = "ratings.jsonl"
Changes = dict[str, dict[str, dict[int, float]]]
"""By dialogue, by rater, by turn."""
MIN_REPLIES = 3
"""Below so many, a correlation says nothing."""


class Ratings:
    """The raters' queue of each run, and what they said."""

    def __init__(self, runs: Runs, personas: str | None = None) -> None:
        """`personas`: as `Runs` takes them."""
        self._runs, self._sources = runs, Sources(personas=personas)

    def next(self, run: Name, rater: Rater, name: Name = "") -> Json:
        """What this rater rates next (or the dialogue of a hidden `name`), in the order that all
        raters have; nothing in it tells the agent or the score.
        """
        found = self._runs.run(run)
        queue, rated = _queue(found), _read(found)
        mine = {key: by[rater] for key, by in rated.items() if rater in by}
        left = [
            one for one, key in queue.items() if not _is_whole(found.dialogues[key], mine.get(key))
        ]
        chosen = name if name in queue else next(iter(left), None)
        return {
            "total": len(queue),
            "done": len(queue) - len(left),
            "raters": _raters(rated),
            "next": chosen and self._blind(found, chosen, queue[chosen], mine),
        }

    def _blind(
        self, run: Run, name: str, key: str, mine: Mapping[str, Mapping[int, float]]
    ) -> Json:
        episode = run.dialogues[key]
        try:
            person: Json | None = view_person(self._runs.cards(run, episode)[1])
        except RlverError:
            person = None
        return {
            "name": name,
            "person": person,
            "need": episode.need,
            "disposition": episode.disposition,
            "opening": episode.opening,
            "turns": [[turn.utterance, turn.reply] for turn in episode.turns],
            "mine": mine.get(key, {}),
        }

    def rate(
        self,
        run: Name,
        rater: Rater,
        name: Name,
        turn: TurnNumber,
        change: Change,
        fit: Fit | None = None,
        final: Final | None = None,
        natural: Natural | None = None,
    ) -> Json:
        """Keep how a reply would feel; a second rating of it replaces the first. `final` and
        `natural`: with the last turn, how one would feel at the end, and how human the person
        reads.
        """
        found = self._runs.run(run)
        key = _queue(found).get(name)
        if key is None or turn > len(found.dialogues[key].turns):
            raise UnknownName("there is no such reply in the queue. Load the page again.")
        said = {"dialogue": key, "rater": rater, "turn": turn, "change": change}
        more = {"fit": fit, "final": final, "natural": natural}
        told = {name: value for name, value in more.items() if value is not None}
        append_json(found.folder, FILE, said | told)
        return said | {"dialogue": name}

    def agreement(self, run: Name) -> Json:
        """How far raters agree with each other and, within a dialogue, with the score."""
        return self._compare(self._runs.run(run))

    def _compare(self, run: Run) -> Json:
        rated = {key: by for key, by in _read(run).items() if key in run.dialogues}
        units = {
            (key, turn): {name: said[turn] for name, said in by.items() if turn in said}
            for key, by in rated.items()
            for turn in range(1, len(run.dialogues[key].turns) + 1)
        }
        units = {place: said for place, said in units.items() if said}
        raters = _raters(rated)
        return {
            "raters": [
                {"name": name, **_describe_rater(run, name, rated, units)} for name in raters
            ],
            "replies": len(units),
            "shared": sum(len(said) > 1 for said in units.values()),
            "dialogues": len(rated),
            "alpha": _or_none(krippendorff_alpha([[*said.values()] for said in units.values()])),
            **_icc(raters, units),
            "within_dialogue_r": _within(run, {at: fmean(s.values()) for at, s in units.items()}),
            "agents": self._agents(run, rated),
        }

    def _agents(self, run: Run, rated: Changes) -> Json:
        """Mean final emotions by the score and by raters, over the same dialogues."""
        try:
            dialogues, _ = read_dialogues(run.folder, self._sources)
            whole = {
                key
                for key, by in rated.items()
                if any(_is_whole(run.dialogues[key], said) for said in by.values())
            }
            chosen = [
                one
                for one in dialogues
                if f"{one.agent}/{one.scene.persona.id}/{one.scene.seed}" in whole
            ]
            emotions = gather_opinions(run.folder, chosen, {}).emotions if chosen else {}
        except RlverError:
            return {}
        return {
            agent: [score, emotions[RATERS][agent]]
            for agent, score in emotions.get(SCORE, {}).items()
            if agent in emotions.get(RATERS, {})
        }


def _queue(run: Run) -> dict[str, str]:
    """The dialogues by names that tell nothing, in an order that is the same for everybody."""
    names = {
        hashlib.sha256(f"{run.manifest.fingerprint}\n{key}".encode()).hexdigest()[:12]: key
        for key, episode in run.dialogues.items()
        if episode.outcome is not Outcome.FAILED
    }
    return dict(sorted(names.items()))


def _read(run: Run) -> Changes:
    found: Changes = defaultdict(lambda: defaultdict(dict))
    for where, line in read_json_lines(run.folder, FILE):
        key, rater, turn = line.get("dialogue"), line.get("rater"), line.get("turn")
        change: Any = line.get("change")
        is_number = type(change) in (int, float)
        if not (
            isinstance(key, str) and isinstance(rater, str) and type(turn) is int and is_number
        ):
            raise RunError(
                f"{where}: must name dialogue, rater, turn and change. Mend or remove the line."
            )
        found[key][rater][turn] = float(change)
    return found


def _raters(rated: Changes) -> list[str]:
    return sorted({name for by in rated.values() for name in by})


def _is_whole(episode: Episode, said: Mapping[int, float] | None) -> bool:
    return set(said or ()) >= set(range(1, len(episode.turns) + 1))


def _describe_rater(run: Run, name: str, rated: Changes, units: Mapping[Any, Any]) -> Json:
    mine = {place: said[name] for place, said in units.items() if name in said}
    return {
        "replies": len(mine),
        "dialogues": sum(_is_whole(run.dialogues[key], by.get(name)) for key, by in rated.items()),
        "mean": fmean(mine.values()) if mine else None,
        "within_dialogue_r": _within(run, mine),
    }


def _icc(raters: list[str], units: Mapping[Any, Mapping[str, float]]) -> Json:
    """Over the replies that every rater rated."""
    rows = [[said[one] for one in raters] for said in units.values() if len(said) == len(raters)]
    return {"icc": _or_none(intraclass_correlation(np.array(rows))), "icc_replies": len(rows)}


def _within(run: Run, means: Mapping[tuple[str, int], float]) -> float | None:
    """Correlation of ratings and score, each dialogue's means taken out of both."""
    places = list(means)
    score = np.array([run.dialogues[key].turns[at - 1].appraisal.change for key, at in places])
    group, mine = np.array([key for key, _ in places]), np.array(list(means.values()))
    if len(places) < MIN_REPLIES or not (varies(score) and varies(mine)):
        return None
    return correlation_within(mine, score.astype(float), group)


def _or_none(value: float) -> float | None:
    return None if isnan(value) else value
