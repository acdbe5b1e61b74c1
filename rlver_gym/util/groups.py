"""Values by what they belong to, in the order in which it first comes."""

from collections.abc import Hashable, Iterable
from statistics import fmean
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def group(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def mean_by(pairs: Iterable[tuple[K, float]]) -> dict[K, float]:
    return {key: fmean(values) for key, values in group(pairs).items()}
