"""Second opinions: the score beside every other judgement of the same dialogues."""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Annotated, NamedTuple

from pydantic import Field, TypeAdapter

from rlver_gym.bench.raters import is_rated_whole, parse_number, read_ratings
from rlver_gym.bench.rescore import Recorded, Rescored
from rlver_gym.bench.table import Table
from rlver_gym.core.capabilities import DIMENSIONS, HIGHEST, JUDGED, JUDGEMENTS, LOWEST
from rlver_gym.core.emotion import MAX_EMOTION, MIN_EMOTION
from rlver_gym.users import is_own_user
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.correlation import kendall_tau
from rlver_gym.util.errors import RunError
from rlver_gym.util.files import path_inside, read_text
from rlver_gym.util.groups import group, mean_by
from rlver_gym.util.json_lines import read_json_lines
from rlver_gym.util.json_text import parse_json
from rlver_gym.util.model_names import uses_server

SCORE = "score"
RATERS = "rated"
OPINIONS = "opinions.json"
"""Beside a run: the opinions of it that were gathered last."""
_MAX_BYTES = 1 << 20
COMPETENCE = 3.0
"""Of five: what RLVER takes for basic competence (arXiv:2507.03112)."""


def describe_limit(user: str) -> str:
    """What a score by this user cannot tell; empty where a model or code of one's own gives it."""
    if uses_server(user) or is_own_user(user):
        return ""
    if user.partition(":")[0] == "reader":
        return "The reader ranks agents; it hardly tells an agent's better replies from its worse."
    says = "reads words, not meaning: it cannot tell fluent replies from fitting ones."
    return f"The {user} user {says}"


class Opinions(NamedTuple):
    """Every opinion of every agent; an agent of whom there is no such opinion is left out of it."""

    emotions: dict[str, dict[str, Annotated[float, Field(ge=MIN_EMOTION, le=MAX_EMOTION)]]]
    """Mean final emotion of each agent by the score, by other users, and by people's ratings."""
    capabilities: dict[str, dict[str, Annotated[float, Field(ge=LOWEST, le=HIGHEST)]]]
    """A judge's mean marks, 1 to 5."""
    taus: dict[str, Annotated[float, Field(ge=-1, le=1)]]
    """Kendall's tau of the score's order of three agents or more with each other opinion's."""
    only_score: tuple[str, ...]
    """Agents that end above the start by the score, and by no other opinion do well."""

    @property
    def columns(self) -> dict[str, dict[str, float]]:
        return self.emotions | self.capabilities


def gather_opinions(
    folder: Path, dialogues: Sequence[Recorded], rescored: Mapping[str, Sequence[Rescored]]
) -> Opinions:
    """The opinions of a run's dialogues, with those that lie in its folder."""
    if not dialogues:
        raise RunError("no dialogue there counts. See what rlver-gym report says of the run.")
    emotions = {SCORE: mean_by((dialogue.agent, dialogue.final) for dialogue in dialogues)}
    for name, each in rescored.items():
        felt = [dialogue for dialogue in each if not dialogue.failure]
        emotions[name] = mean_by((dialogue.recorded.agent, dialogue.final) for dialogue in felt)
    if rated := _compute_human_rated_finals(folder, dialogues):
        emotions[RATERS] = rated
    agent_of = {dialogue.key: dialogue.agent for dialogue in dialogues}
    marks = _group_capability_scores(folder / JUDGEMENTS, agent_of)
    opinions = Opinions(emotions, marks, {}, ())
    start = fmean(dialogue.scene.card.start for dialogue in dialogues)
    return opinions._replace(
        taus=_correlate_with_score(opinions.columns),
        only_score=tuple(_find_agents_only_the_score_prefers(opinions, start)),
    )


def write_opinions(folder: Path, opinions: Opinions) -> None:
    path = path_inside(folder, OPINIONS)
    write_atomically(path, json.dumps(opinions._asdict(), ensure_ascii=False))


def read_opinions(folder: Path) -> Opinions | None:
    """What was kept there; None where there is nothing. RunError for a file that is damaged."""
    path = path_inside(folder, OPINIONS)
    if not path.exists():
        return None
    text = read_text(path, max_bytes=_MAX_BYTES)
    try:
        opinions = TypeAdapter(Opinions).validate_python(parse_json(text))
        _ = opinions.emotions[SCORE]
    except (ValueError, KeyError) as error:
        raise RunError(
            f"{path}: holds no opinions. Gather them again: rlver-gym rescore"
        ) from error
    return opinions


def read_capabilities(path: Path) -> dict[str, dict[str, float]]:
    """By dialogue (AGENT/PERSONA/SEED), the mean mark of each capability, as judged."""
    said: dict[str, list[tuple[str, float]]] = {}
    for where, line in read_json_lines(path.parent, path.name):
        scores, dialogue = line.get("scores", {}), line.get("dialogue")
        if not isinstance(scores, dict) or not isinstance(dialogue, str):
            raise RunError(f"{where}: must name dialogue and scores. Judge the run again.")
        if strange := sorted(scores.keys() - set(JUDGED)):
            raise RunError(f"{where}: nobody is asked for {strange[0]!r:.80}. Judge the run again.")
        marks = [(name, parse_number(scores[name], LOWEST, HIGHEST, where)) for name in scores]
        said.setdefault(dialogue, []).extend(marks)
    return {dialogue: mean_by(marks) for dialogue, marks in said.items()}


def _group_capability_scores(
    path: Path, agent_of: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """By capability and agent. Of dialogues with one key those after the first have a number."""
    said = group(
        (name, (agent, mark))
        for dialogue, marks in read_capabilities(path).items()
        if (agent := agent_of.get(dialogue) or agent_of.get(dialogue.rpartition("#")[0]))
        for name, mark in marks.items()
    )
    return {name: mean_by(values) for name, values in said.items()}


def _compute_human_rated_finals(folder: Path, dialogues: Sequence[Recorded]) -> dict[str, float]:
    """Mean final emotion by people's ratings, over dialogues that somebody rated whole."""
    known = {dialogue.key: dialogue for dialogue in dialogues}
    finals = mean_by(
        (key, known[key].scene.card.final_emotion(changes[turn] for turn in sorted(changes)))
        for key, by_rater in read_ratings(folder).items()
        for changes in by_rater.values()
        if key in known and is_rated_whole(len(known[key].dialogue.turns), changes)
    )
    return mean_by((known[key].agent, final) for key, final in finals.items())


def _correlate_with_score(columns: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    correlations = {}
    for name, column in columns.items():
        shared = sorted(columns[SCORE].keys() & column.keys())
        if name != SCORE and len(shared) > 2:
            tau = kendall_tau([columns[SCORE][x] for x in shared], [column[x] for x in shared])
            correlations |= {} if isnan(tau) else {name: tau}
    return correlations


def _find_agents_only_the_score_prefers(opinions: Opinions, start: float) -> Iterator[str]:
    others = [column for name, column in opinions.emotions.items() if name != SCORE]
    for agent, final in opinions.emotions[SCORE].items():
        likes = [column[agent] > start for column in others if agent in column]
        columns = [opinions.capabilities.get(name, {}) for name in DIMENSIONS]
        marks = [column[agent] for column in columns if agent in column]
        likes += [fmean(marks) >= COMPETENCE] if marks else []
        if final > start and likes and not any(likes):
            yield agent


def tabulate_opinions(opinions: Opinions) -> Table:
    agents = sorted(opinions.emotions[SCORE], key=lambda agent: -opinions.emotions[SCORE][agent])
    rows = [["agent", *(name.replace("_", " ") for name in opinions.columns), ""]]
    for agent in agents:
        cells = [
            f"{column[agent]:.1f}" if agent in column else "–"
            for column in opinions.columns.values()
        ]
        rows.append(
            [agent, *cells, "liked by the score only" if agent in opinions.only_score else ""]
        )
    if opinions.taus:
        taus = [
            f"{opinions.taus[name]:.2f}" if name in opinions.taus else ""
            for name in opinions.columns
        ]
        rows.append(["tau with the score", *taus, ""])
    shown = rows if opinions.only_score else [row[:-1] for row in rows]
    return Table("opinions: final emotion, and marks from 1 to 5", shown)
