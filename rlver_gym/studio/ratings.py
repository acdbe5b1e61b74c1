"""Blind rating of a run's dialogues by people, in the file that `rlver-gym rescore` reads."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from rlver_gym.bench.opinions import RATERS, SCORE, gather_opinions
from rlver_gym.bench.raters import (
    RATINGS,
    Changes,
    compare_raters,
    is_rated_whole,
    read_lines,
    read_ratings,
)
from rlver_gym.bench.recompute import Sources
from rlver_gym.bench.rescore import read_dialogues
from rlver_gym.core.capabilities import Factors
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.episode import Episode
from rlver_gym.studio.request_fields import (
    Change,
    FalseWords,
    Final,
    Fit,
    Name,
    Natural,
    Rater,
    Thought,
    TurnNumber,
)
from rlver_gym.studio.runs import Run, Runs
from rlver_gym.studio.views import Json
from rlver_gym.util.errors import RlverError, UnknownName
from rlver_gym.util.json_lines import append_json
from rlver_gym.util.json_text import to_plain

_TOLD = "change fit final natural factors thought words".split()
"""What is said of a reply."""


class Ratings:
    """The raters' queue of each run, and what they said."""

    def __init__(self, runs: Runs, personas: str | None = None) -> None:
        self._runs, self._sources = runs, Sources(personas=personas)

    def next(self, run: Name, rater: Rater, name: Name = "") -> Json:
        """What this rater rates next, or the dialogue `name`; nothing tells agent or score."""
        benched = self._runs.run(run)
        queue, rated = hide_names(benched), read_ratings(benched.folder)
        mine = {key: by[rater] for key, by in rated.items() if rater in by}
        left = [
            code
            for code, key in queue.items()
            if not _is_completely_rated(benched.dialogues[key], mine.get(key))
        ]
        chosen = name if name in queue else next(iter(left), None)
        return {
            "total": len(queue),
            "done": len(queue) - len(left),
            "next": chosen and self._blind(benched, chosen, queue[chosen], rater, mine),
        }

    def _blind(
        self, run: Run, name: str, key: str, rater: str, mine: Mapping[str, Mapping[int, float]]
    ) -> Json:
        episode = run.dialogues[key]
        return {
            "name": name,
            "person": self._runs.person(run, episode)[0],
            "need": episode.need,
            "disposition": episode.disposition,
            "opening": episode.opening,
            "turns": [[turn.utterance, turn.reply] for turn in episode.turns],
            "mine": mine.get(key, {}),
            "told": self._told(run.folder, key, rater),
        }

    @staticmethod
    def _told(folder: Path, key: str, rater: str) -> dict[int, Json]:
        """What a rater said of a dialogue last, by turn: a page sends it along with a change."""
        return {
            turn: {name: line[name] for name in _TOLD if name in line}
            for _, (dialogue, who, turn), line in read_lines(folder)
            if (dialogue, who) == (key, rater)
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
        factors: Factors | None = None,
        thought: Thought = "",
        words: FalseWords = "",
    ) -> Json:
        """Keep how a reply would feel; a second rating of it replaces the first. `final` and
        `natural`: with the last turn, how one would feel at the end, and how human the person
        reads. `factors`, `thought`, `words`: why, and what is false.
        """
        benched = self._runs.run(run)
        key = hide_names(benched).get(name)
        if key is None or turn > len(benched.dialogues[key].turns):
            raise UnknownName("there is no such reply in the queue. Load the page again.")
        said = {"dialogue": key, "rater": rater, "turn": turn, "change": change}
        more = {"fit": fit, "final": final, "natural": natural}
        more |= {"factors": factors and factors.model_dump()}
        is_false = factors is None or factors.false
        more |= {"thought": thought or None, "words": (is_false and words) or None}
        told = {name: value for name, value in more.items() if value is not None}
        append_json(benched.folder, RATINGS, said | told)
        return said | {"dialogue": name}

    def agreement(self, run: Name, rater: Rater = "") -> Json:
        """How far raters agree; the agents by name for who has rated every dialogue."""
        benched = self._runs.run(run)
        rated = read_ratings(benched.folder)
        agreed = to_plain(compare_raters(benched.dialogues, rated))
        is_done = all(
            _is_completely_rated(benched.dialogues[key], rated.get(key, {}).get(rater))
            for key in hide_names(benched).values()
        )
        return {**agreed, "agents": self._agents(benched, rated) if is_done else None}

    def _agents(self, run: Run, rated: Changes) -> Json:
        """Mean final emotions by the score and by raters, over the same dialogues."""
        try:
            dialogues, _ = read_dialogues(run.folder, self._sources)
            chosen = [
                dialogue
                for dialogue in dialogues
                if any(
                    is_rated_whole(len(dialogue.dialogue.turns), said)
                    for said in rated.get(dialogue.key, {}).values()
                )
            ]
            emotions = gather_opinions(run.folder, chosen, {}).emotions if chosen else {}
        except RlverError:
            return {}
        return {
            agent: [score, emotions[RATERS][agent]]
            for agent, score in emotions.get(SCORE, {}).items()
            if agent in emotions.get(RATERS, {})
        }


def hide_names(run: Run) -> dict[str, str]:
    """The run's dialogues that did not fail, by names that tell nothing, always in one order."""
    names = {
        hashlib.sha256(f"{run.manifest.fingerprint}\n{key}".encode()).hexdigest()[:12]: key
        for key, episode in run.dialogues.items()
        if episode.outcome is not Outcome.FAILED
    }
    return dict(sorted(names.items()))


def _is_completely_rated(episode: Episode, said: Mapping[int, float] | None) -> bool:
    return is_rated_whole(len(episode.turns), said or {})
