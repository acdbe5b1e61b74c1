"""Level, spread and dynamics of one simulator: how a reply's worth becomes a change. Numpy only."""

import numpy as np

from rlver_gym.core.persona import Disposition
from rlver_gym.data.design import Design
from rlver_gym.users.embedded.weights import Preset


def fit_preset(about: str, data: Design, worth_B: np.ndarray, rows_B: np.ndarray) -> Preset:
    """The preset of the simulator whose rows are marked.

    Least squares of the change on the reply's worth, the last change, the emotion and the
    disposition give the dynamics. The gain then stretches the worth until changes spread as
    recorded, and the base is set so that changes have the recorded mean.
    """
    change, worth = data.change_B[rows_B], worth_B[rows_B]
    level, previous = data.state_BS[rows_B, 0], data.state_BS[rows_B, 2]
    kinds = [kind for kind in Disposition if (data.disposition_B[rows_B] == kind).any()]
    is_kind = np.column_stack([data.disposition_B[rows_B] == kind for kind in kinds]).astype(float)
    z = np.column_stack([worth, 10 * previous, (100 * level - 40) / 20, is_kind])
    found, *_ = np.linalg.lstsq(z, change, rcond=None)
    momentum, pull, kind_points = float(found[1]), float(found[2]), found[3:]
    mean_kind = float((is_kind @ kind_points).mean())
    temper = {
        kind: round(float(points) - mean_kind, 3)
        for kind, points in zip(kinds, kind_points, strict=True)
    }
    dynamics = z[:, 1] * momentum + z[:, 2] * pull + is_kind @ (kind_points - mean_kind)
    gain = _gain(worth, dynamics, change)
    base = change.mean() - dynamics.mean() - gain * worth.mean()
    return Preset(
        about=about,
        base=round(float(base), 3),
        gain=round(gain, 3),
        temper={kind: temper.get(kind, 0.0) for kind in Disposition},
        momentum=round(momentum, 3) + 0.0,
        pull=round(pull, 3) + 0.0,
        residual_sd=round(float((change - z @ found).std()), 3),
        mean=round(float(change.mean()), 3),
        values=_values(change),
    )


def _gain(worth: np.ndarray, dynamics: np.ndarray, change: np.ndarray) -> float:
    """The g >= 1 with var(g worth + dynamics) = var(change), at most 6."""
    a, b = worth.var(), np.cov(worth, dynamics)[0, 1]
    c = dynamics.var() - change.var()
    if a <= 0:
        return 1.0
    return float(min(6.0, max(1.0, (-b + np.sqrt(max(0.0, b * b - a * c))) / a)))


def _values(change: np.ndarray) -> tuple[int, ...]:
    """The fewest whole changes that make up nine tenths of all."""
    values, counts = np.unique(np.round(change).astype(int), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    enough = int(np.searchsorted(np.cumsum(counts[order]), 0.9 * len(change))) + 1
    return tuple(sorted(int(value) for value in values[order[:enough]]))
