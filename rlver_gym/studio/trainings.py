"""The curves of training runs, as columns."""

from collections.abc import Sequence
from pathlib import Path

from rlver_gym.io.errors import TrainingError
from rlver_gym.policy.learning.metrics import METRICS, read_metrics
from rlver_gym.studio.views import Json

MOST_POINTS = 2_000
"""Of a curve: more than a screen has columns."""


def is_training(folder: Path) -> bool:
    """Whether a folder is that of a training run."""
    return (folder / METRICS).is_file()


class Trainings:
    """All training runs that are open."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """`folders`: nothing is read yet."""
        self.folders = folders
        self.names = [folder.resolve().name for folder in folders]

    def read(self) -> list[Json]:
        """Each run's numbers by iteration, read anew; of long runs evenly chosen iterations."""
        return [_read(*one) for one in zip(self.folders, self.names, strict=True)]


def _read(folder: Path, name: str) -> Json:
    try:
        lines, problem = read_metrics(folder), ""
    except TrainingError as error:
        lines, problem = [], str(error)
    lines = lines[:: max(1, -(-len(lines) // MOST_POINTS))]
    names = sorted({key for line in lines for key in line} - {"iteration"})
    return {
        "name": name,
        "problem": problem,
        "iteration": [line.get("iteration") for line in lines],
        "columns": {key: [line.get(key) for line in lines] for key in names},
    }
