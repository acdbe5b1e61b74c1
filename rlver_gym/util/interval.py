"""Means with intervals, and how far they move between replicates: for benchmark and learner."""

from collections.abc import Iterable
from itertools import combinations
from math import isnan, nan, sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.util.correlation import kendall_tau

RESAMPLES = 10_000
_MAX_DRAWS = 5_000_000
"""Held in memory at once."""
REPEATABILITY = 1.96 * sqrt(2)
"""Times the standard deviation of a measurement: two measurements of the same thing differ by less
in 95 % of cases (the repeatability limit of ISO 5725-6; Bland and Altman 1999).
"""


class Interval(NamedTuple):
    """An estimate with its 95 % percentile bootstrap interval over personas."""

    mean: float
    low: float
    high: float


UNKNOWN = Interval(nan, nan, nan)


def mean_or_nan(values: Iterable[float]) -> float:
    value_N = np.fromiter(values, np.float64)
    return float(value_N.mean()) if len(value_N) else nan


def bootstrap(values: Iterable[float]) -> Interval:
    """Mean and 95 % percentile interval of a value for each persona; seeded, so repeatable."""
    value_P = np.fromiter(values, np.float64)
    people = len(value_P)
    if not people:
        return UNKNOWN
    rng, rows = np.random.default_rng(0), max(1, _MAX_DRAWS // people)
    sizes = [min(rows, RESAMPLES - done) for done in range(0, RESAMPLES, rows)]
    draws = (rng.integers(people, size=(size, people)) for size in sizes)
    means = np.concatenate([value_P[drawn].mean(axis=1) for drawn in draws])
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(value_P.mean()), float(low), float(high))


class AgentSpread(NamedTuple):
    """How far the score of one agent moves."""

    agent: str
    means: tuple[float, ...]
    """Its score in each replicate, in points; at least two."""

    @property
    def mean(self) -> float:
        return fmean(self.means)

    @property
    def sd(self) -> float:
        return stdev(self.means)

    @property
    def range(self) -> float:
        return max(self.means) - min(self.means)


class Spread(NamedTuple):
    """The scores of the same agents in several replicates of one benchmark."""

    replicates: tuple[str, ...]
    """What they are called; at least two."""
    agents: tuple[AgentSpread, ...]
    """The best first; at least one."""

    @property
    def noise_floor(self) -> float:
        """Two replicates of one agent differ by less in 95 % of cases; variance pooled over all."""
        return REPEATABILITY * sqrt(fmean(agent.sd**2 for agent in self.agents))

    @property
    def rank_correlations(self) -> tuple[float, ...]:
        """Kendall's tau-b for every two replicates that order the agents; empty for one agent."""
        columns = list(zip(*(agent.means for agent in self.agents), strict=True))
        taus = (kendall_tau(first, other) for first, other in combinations(columns, 2))
        return tuple(tau for tau in taus if not isnan(tau))

    def to_dict(self) -> dict[str, Any]:
        taus = self.rank_correlations
        return {
            "replicates": self.replicates,
            "agents": {
                agent.agent: {"means": agent.means, "sd": agent.sd, "range": agent.range}
                for agent in self.agents
            },
            "noise_floor": self.noise_floor,
            "kendall_tau": {"mean": fmean(taus), "lowest": min(taus)} if taus else None,
        }


def format_mean(interval: Interval, *, signed: bool = False, digits: int = 1) -> str:
    return "–" if isnan(interval.mean) else f"{interval.mean:{'+' if signed else ''}.{digits}f}"


def format_interval(interval: Interval, *, signed: bool = False, digits: int = 1) -> str:
    if isnan(interval.mean):
        return "–"
    form = f"{'+' if signed else ''}.{digits}f"
    return f"{interval.low:{form}}, {interval.high:{form}}"


def format_estimate(interval: Interval, *, signed: bool = False, digits: int = 1) -> str:
    mean = format_mean(interval, signed=signed, digits=digits)
    bounds = format_interval(interval, signed=signed, digits=digits)
    return mean if isnan(interval.mean) else f"{mean} [{bounds}]"
