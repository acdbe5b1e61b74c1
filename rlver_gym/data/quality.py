"""How good a calibration is: correlations on people that it was not fitted on."""

from collections.abc import Callable, Sequence

import numpy as np

from rlver_gym.data.calibrate import select_rows
from rlver_gym.data.design import Design, build_design
from rlver_gym.data.fit import RIDGE, fit
from rlver_gym.data.recordings import RatedUtterance
from rlver_gym.io.correlation import correlation, correlation_within

FOLDS = 5


def cross_validate(
    judged: Sequence[RatedUtterance],
    ridge: float = RIDGE,
    *,
    on_progress: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Correlation of the reply's worth with recorded changes, each fifth of the people judged by a
    fit on the others.
    """
    judged = [judged[row] for row in select_rows(judged)]
    table = build_design(judged)
    fold_B = table.persona_B % FOLDS
    worth_B = np.zeros(len(judged))
    for fold in range(FOLDS):
        left_out = fold_B == fold
        if left_out.any() and not left_out.all():
            worth_B[left_out] = _worth(
                table,
                fit(table.rows([int(row) for row in np.flatnonzero(~left_out)]), ridge).weight_K,
            )[left_out]
        on_progress()
    change_B = table.change_B
    people_B = table.persona_B
    first_B = table.state_BS[:, 4] == 1
    found = {
        "r, people left out": correlation(worth_B, change_B),
        "r within person, people left out": correlation_within(worth_B, change_B, people_B),
    }
    if first_B.sum() >= 20:
        found["turn-1 r within person, people left out"] = correlation_within(
            worth_B[first_B], change_B[first_B], people_B[first_B]
        )
    return {name: round(value, 3) for name, value in found.items()}


def _worth(table: Design, weight_K: np.ndarray) -> np.ndarray:
    return table.x_BK @ weight_K
