"""Means with their intervals, as the benchmark and the learner's evaluations give them.

Alone in its file because both of them need it and neither may import the other.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000


class Interval(NamedTuple):
    """An estimate with its 95 % percentile bootstrap interval over personas."""

    mean: float
    low: float
    high: float


def bootstrap(values: NDArray[np.float64]) -> Interval:
    """Mean and 95 % percentile interval of `values`, shape (personas,); the resampling is seeded,
    so equal values give equal intervals.
    """
    if not len(values):
        return Interval(float("nan"), float("nan"), float("nan"))
    rng = np.random.default_rng(0)
    means = values[rng.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(values.mean()), float(low), float(high))
