"""One small picture of a training: the emotion that the reward, held-out people and the reference
see. All other curves are the studio's, TensorBoard's and the trackers'.
"""

from pathlib import Path

from rlver_gym.policy.learning.metrics import read_metrics
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.svg import draw_line_chart

PICTURE = "curves.svg"
_CURVES = {"eval_score": "held out", "emotion": "training", "reference_score": "reference"}


def write_curves(folder: Path) -> Path | None:
    """Draw this run folder; None where no emotions were measured. TrainingError without metrics."""
    lines = read_metrics(folder)
    if not lines:
        raise TrainingError(f"{folder} holds no metrics yet. Is it the folder of a training run?")
    curves = {
        title: points
        for metric, title in _CURVES.items()
        if (
            points := [
                (line["iteration"], value)
                for line in lines
                if (value := line.get(metric)) is not None
            ]
        )
    }
    if not curves:
        return None
    path = folder / PICTURE
    write_atomically(path, draw_line_chart(curves, {}, across="iterations"), TrainingError)
    return path
