"""Correlations, also within groups and of order."""

from collections.abc import Sequence
from math import nan, sqrt

import numpy as np
from numpy.typing import NDArray


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's r; 0 when one side does not vary."""
    return float(np.corrcoef(a, b)[0, 1]) if varies(a) and varies(b) else 0.0


def varies(values: np.ndarray) -> bool:
    """Whether there is more in them than one value and the errors of rounding."""
    return len(values) > 0 and float(values.std()) > 1e-9


def centre(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The values without their group's mean; `group` holds a label for each."""
    _, number = np.unique(group, return_inverse=True)
    return values - (np.bincount(number, values) / np.bincount(number))[number]


def correlation_within(a: np.ndarray, b: np.ndarray, group: np.ndarray) -> float:
    return correlation(centre(a, group), centre(b, group))


def correlate_draws_within(
    places: Sequence[tuple[np.ndarray, np.ndarray]], draws: int
) -> NDArray[np.float64]:
    """Pearson's r within places: of all, then of each draw of places. NaN where nothing varies.

    Products about a place's own means only add up.
    """
    centred = [(a - a.mean(), b - b.mean()) for a, b in places]
    products = np.array([(a @ b, a @ a, b @ b) for a, b in centred])
    drawn = products[draw_places(len(places), draws)].sum(axis=1)
    both, first, second = np.vstack([products.sum(axis=0), drawn]).T
    spread = first * second
    return np.divide(both, np.sqrt(spread), out=np.full(draws + 1, nan), where=spread > 1e-12)


def draw_places(count: int, draws: int) -> NDArray[np.int64]:
    """Numbers of places, drawn with return: shape (draws, count)."""
    return np.random.default_rng(0).integers(count, size=(draws, count))


def kendall_tau(first: Sequence[float], other: Sequence[float]) -> float:
    """Kendall's tau-b, in [-1, 1]: pairs in the same order minus pairs in the other one, over the
    geometric mean of the pairs that each does not tie (Biometrika 1945). nan where one ties all.
    """
    pairs = np.triu_indices(len(first), 1)
    a, b = (np.sign(np.subtract.outer(side, side)[pairs]) for side in (first, other))
    untied = int(np.count_nonzero(a)) * int(np.count_nonzero(b))
    return int((a * b).sum()) / sqrt(untied) if untied else nan
