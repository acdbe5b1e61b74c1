"""The curves of training runs, as columns, and held-out dialogues by iteration."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from rlver_gym.bench.compare import label_runs, put_label
from rlver_gym.policy.learning.metrics import (
    EVALUATIONS,
    METRICS,
    is_number,
    read_iterations,
    read_metrics,
)
from rlver_gym.studio.views import Json
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.files import path_inside

MOST_POINTS = 2_000
"""Of a curve: more than a screen has columns."""
MOST_EVALUATIONS, MOST_PEOPLE = 24, 4
"""Of which dialogues are shown, evenly chosen and with the last; and how many of each."""


def is_training(folder: Path) -> bool:
    return (folder / METRICS).is_file()


class Trainings:
    """All training runs that are open."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = folders
        self.names = label_runs(folders)

    def read(self) -> list[Json]:
        """Each run's numbers by iteration, read anew; of long runs evenly chosen iterations."""
        return [_read_training(*pair) for pair in zip(self.folders, self.names, strict=True)]


def _read_training(folder: Path, name: str) -> Json:
    try:
        lines, samples, problem = read_metrics(folder), _read_samples(folder), ""
    except TrainingError as error:
        lines, samples, problem = [], [], put_label(str(error), folder, name)
    lines = lines[:: max(1, -(-len(lines) // MOST_POINTS))]
    names = sorted({key for line in lines for key in line} - {"iteration"})
    return {
        "name": name,
        "problem": problem,
        "iteration": [line.get("iteration") for line in lines],
        "columns": {key: [line.get(key) for line in lines] for key in names},
        "samples": samples,
    }


def _read_samples(folder: Path) -> list[Json]:
    path = path_inside(folder, EVALUATIONS, error=TrainingError)
    evaluations = read_iterations(path) if path.exists() else []
    step = max(1, -(-len(evaluations) // MOST_EVALUATIONS))
    try:
        return [
            _sample_to_json(evaluation["iteration"], dialogue)
            for evaluation in evaluations[::-1][::step][::-1]
            for dialogue in evaluation["dialogues"][:MOST_PEOPLE]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise TrainingError(f"{path}: a dialogue is none ({error}). Was it edited?") from error


def _sample_to_json(iteration: int, told: dict[str, Any]) -> Json:
    score = told["score"]
    lines = [(str(who), str(text), str(thought or "")) for who, text, thought in told["lines"]]
    return {
        "iteration": iteration,
        "persona": str(told["persona"]),
        "seed": str(told["seed"]),
        "score": score if is_number(score) and isfinite(score) else None,
        "outcome": str(told["outcome"] or ""),
        "lines": lines,
    }
