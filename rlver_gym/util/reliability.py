"""How far raters agree with each other. Pure maths over ratings of the same replies."""

from collections.abc import Sequence
from math import nan

import numpy as np


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
