"""One small picture of a training: the emotion that the reward, held-out people and the reference
see. All other curves are TensorBoard's and the trackers'.
"""

from collections.abc import Sequence
from pathlib import Path

from rlver_gym.io.atomic import write_atomically
from rlver_gym.io.errors import TrainingError
from rlver_gym.io.svg import draw_line_chart
from rlver_gym.io.terminal import one_line
from rlver_gym.policy.learning.metrics import read_metrics

PICTURE = "curves.svg"
_CURVES = {"eval_score": "held out", "emotion": "training", "reference_score": "reference"}


def write_curves(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Draw these run folders, several on the same axes.

    TrainingError for a folder without metrics, or none that tells emotions.
    """
    names = [folder.resolve().name for folder in folders]
    curves: dict[str, list[tuple[float, float]]] = {}
    for folder, name in zip(folders, names, strict=True):
        lines = read_metrics(folder)
        if not lines:
            raise TrainingError(
                f"{folder} holds no metrics yet. Is it the folder of a training run?"
            )
        run = "" if len(folders) == 1 else str(folder) if names.count(name) > 1 else name
        for metric, title in _CURVES.items():
            points = [
                (line["iteration"], line[metric]) for line in lines if _has_value(line, metric)
            ]
            if points:
                curves[one_line(f"{run} {title}".strip())] = points
    if not curves:
        raise TrainingError(
            f"no emotions were measured in {', '.join(map(str, folders))}. Its numbers are in"
            " metrics.jsonl, and in TensorBoard: tensorboard --logdir RUN"
        )
    path = out or folders[0] / PICTURE
    picture = draw_line_chart(curves, {}, across="iterations of training")
    write_atomically(path, picture, TrainingError)
    return path


def _has_value(line: dict[str, float | None], metric: str) -> bool:
    return line.get(metric) is not None
