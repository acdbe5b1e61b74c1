"""Correlations, also within groups and of order, and how far raters agree with each other."""

from collections.abc import Sequence
from math import nan, sqrt

import numpy as np
from numpy.typing import NDArray


def krippendorff_alpha(units: Sequence[Sequence[float]]) -> float:
    """Krippendorff's alpha for interval data (Krippendorff 2011, "Computing Krippendorff's
    alpha-reliability"): 1 minus observed over expected disagreement.

    `units`: the ratings of each reply, by however many raters; those with one are left out. nan
    without two ratings of one reply, or where all ratings are the same.
    """
    paired = [np.asarray(unit, float) for unit in units if len(unit) > 1]
    if not paired:
        return nan
    values = np.concatenate(paired)
    observed = sum(_squared_differences(unit) / (len(unit) - 1) for unit in paired) / len(values)
    expected = _squared_differences(values) / (len(values) * (len(values) - 1))
    return 1 - observed / expected if expected else nan


def _squared_differences(values: np.ndarray) -> float:
    apart = values - values[0]
    return float(2 * len(values) * ((apart - apart.mean()) ** 2).sum())


def intraclass_correlation(ratings: np.ndarray) -> float:
    """ICC(2,1): two-way random effects, absolute agreement, one rater (Shrout and Fleiss 1979).

    `ratings`: shape (replies, raters), nobody missing. nan for fewer than two of either, or where
    nothing varies.
    """
    n, k = ratings.shape if ratings.ndim == 2 else (0, 0)
    if n < 2 or k < 2:
        return nan
    total = ratings.mean()
    rows = k * ((ratings.mean(axis=1) - total) ** 2).sum() / (n - 1)
    columns = n * ((ratings.mean(axis=0) - total) ** 2).sum() / (k - 1)
    rest = ((ratings - total) ** 2).sum() - rows * (n - 1) - columns * (k - 1)
    error = rest / ((n - 1) * (k - 1))
    below = rows + (k - 1) * error + k * (columns - error) / n
    return float((rows - error) / below) if below > 1e-12 else nan


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
