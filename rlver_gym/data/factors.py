"""The factors of rated replies: a ridge regression of readers' ratings on features and words.

Needs scikit-learn (extra `calibrate`), whose scipy holds the tables.
"""

from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.core.persona import HiddenNeed
from rlver_gym.data.fit import sklearn
from rlver_gym.data.replies import DescribedPair, DescribedReply
from rlver_gym.users.embedded.belonging import belonging
from rlver_gym.users.embedded.english import Described
from rlver_gym.users.embedded.factors import columns_of
from rlver_gym.users.embedded.weights import FACTOR_SCALE, FACTORS, Belonging, Factor, Factors

_RIDGE = 60.0
_GRAM_SUPPORTERS = 6
"""How many supporters must use a word or a pair of words before it has a weight: else it tells who
speaks, not how well.
"""
_GRAM = 0.5
_NEED = 0.7
"""Columns for words, and those for one need, are so much shorter: the same penalty then draws them
harder to 0.
"""
_FLOOR = 0.1
_PREFERRED = 0.5
"""What a pair of replies, the better and the worse, weighs beside a rated reply."""
_GAP = 6.0
"""Points of change by which the better reply of a pair is taken to be better."""
_SURE, _LEAST = 0.86, 60
"""Of replies with such a prediction left out of the fit, the share that must be rated so before it
is told, and their number: a little more than promised, since it is chosen on them.
"""
_LOW, _HIGH = 1.0, 2.0
"""Ratings up to and from which a factor counts as low and high."""


class FactorFit(NamedTuple):
    """The factors, and what they say of each row by a fit that had not seen its supporter."""

    factors: Factors
    worth_B: np.ndarray
    """In points."""
    ratings_BF: np.ndarray


def fit_factors(
    rows: Sequence[DescribedReply], pairs: Sequence[DescribedPair], known: Belonging
) -> FactorFit:
    """Fit all rows; what is told of a reply is decided by a fit that had not seen its supporter."""
    table = Table(rows, pairs, known)
    change_B = np.array([one.change for one in rows])
    ratings_BF = np.array([one.ratings for one in rows])
    worth, neutral = _worth(ratings_BF, change_B, table.weight_B)
    weight_KF, typical_F, unseen_BF = table.fit(
        ratings_BF,
        change_B,
        np.array([one.supporter for one in rows]),
        np.array([one.supporter for one in pairs], dtype=str),
    )
    unseen_BF = np.clip(unseen_BF, 0, [4.0] * (len(FACTORS) - 1) + [1.0])
    low, high = _sure(unseen_BF, ratings_BF)
    whole = np.round(weight_KF / table.stretch_K[:, None] * FACTOR_SCALE).astype(int)
    # dispositions are controls: the preset's temper has them, and the mean person's goes to the
    # constant
    typical_F = typical_F + table.mean_disposition @ weight_KF[len(table.names) :]
    factors = Factors(
        typical=_by_factor(typical_F),
        neutral=_by_factor(neutral),
        worth=_by_factor(worth),
        low=low,
        high=high,
        belonging=known,
        weights={
            name: tuple(map(int, row))
            for name, row in zip(table.names, whole, strict=False)
            if row.any()
        },  # pyright: ignore[reportArgumentType]
    )
    return FactorFit(factors, (unseen_BF - neutral) @ worth, unseen_BF)


class Table:
    """The design matrix: a row a reply, columns for features, words and features for one need, then
    dispositions as controls.
    """

    def __init__(
        self, rows: Sequence[DescribedReply], pairs: Sequence[DescribedPair], known: Belonging
    ) -> None:
        """Choose the columns, and lay out rows and pairs."""
        sklearn("linear_model")  # says how to get it, and scipy with it
        self._sparse: Any = import_module("scipy.sparse")

        def columns(described: Described, need: HiddenNeed) -> dict[str, float]:
            return dict(
                columns_of(described, need, belonging(known, described.values, described.overlap))
            )

        found = [columns(one.described, one.persona.need) for one in rows]
        self.names = _names(found, [one.supporter for one in rows])
        place = {name: at for at, name in enumerate(self.names)}
        raw = self._matrix(found, place)
        spread = np.sqrt(np.maximum(raw.power(2).mean(axis=0).A1 - raw.mean(axis=0).A1 ** 2, 0))
        stretch = np.sqrt(np.maximum(spread, _FLOOR))
        for at, name in enumerate(self.names):
            stretch[at] = (
                1 / _GRAM if name[0] == "=" else stretch[at] / (_NEED if "@" in name else 1)
            )
        kinds = sorted({one.persona.person.disposition for one in rows})
        is_kind = np.array(
            [[one.persona.person.disposition == kind for kind in kinds] for one in rows], float
        )
        self.mean_disposition = is_kind.mean(axis=0)
        self.stretch_K = np.concatenate([stretch, np.ones(len(kinds))])
        self.x_BK = self._sparse.hstack([raw @ self._sparse.diags(1 / stretch), is_kind]).tocsr()
        better = self._matrix([columns(one.better, one.need) for one in pairs], place)
        differences = better - self._matrix(
            [columns(one.worse, one.worse_need) for one in pairs], place
        )
        none = self._sparse.csr_matrix((len(pairs), len(kinds)))
        self.pairs_PK = self._sparse.hstack(
            [differences @ self._sparse.diags(1 / stretch), none]
        ).tocsr()
        counts: dict[str, int] = defaultdict(int)
        for one in rows:
            counts[one.supporter] += 1
        weight_B = np.array([counts[one.supporter] ** -0.5 for one in rows])
        self.weight_B = weight_B / weight_B.mean()
        """A supporter counts by the root of their replies: many by one say less than as many by
        several.
        """

    def _matrix(self, found: Sequence[dict[str, float]], place: dict[str, int]) -> Any:
        cells = [
            (row, place[name], value)
            for row, one in enumerate(found)
            for name, value in one.items()
            if name in place
        ]
        at_row, at_column, values = zip(*cells, strict=True) if cells else ((), (), ())
        return self._sparse.csr_matrix(
            (values, (at_row, at_column)), (len(found), len(place)), dtype=float
        )

    def fit(
        self,
        ratings_BF: np.ndarray,
        change_B: np.ndarray,
        group_B: np.ndarray,
        pair_group_P: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ridge by its dual: weights [K, F], constants [F], and of each row what a fit without its
        group says [B, F].

        A pair asks of each factor the difference that goes with a change of `_GAP` points. With A =
        X X' + penalty and a = A^-1 y, the residuals of a group G that is left out are (A^-1)_GG^-1
        a_G (Rifkin and Lippert 2007, for groups); the means stay those of all rows.
        """
        x, y, w = self.x_BK, ratings_BF, self.weight_B
        change = change_B - np.average(change_B, weights=w)
        mean_F, mean_K = np.average(y, axis=0, weights=w), (x.T @ w) / w.sum()
        slope_F = (w * change) @ (y - mean_F) / (w @ change**2)
        root, pairs = np.sqrt(w), self.pairs_PK.shape[0]
        ones = np.concatenate([root, np.zeros(pairs)])
        rows = self._sparse.vstack(
            [self._sparse.diags(root) @ x, np.sqrt(_PREFERRED) * self.pairs_PK]
        ).tocsr()
        wanted = np.vstack(
            [
                (y - mean_F) * root[:, None],
                np.sqrt(_PREFERRED) * np.tile(_GAP * slope_F, (pairs, 1)),
            ]
        )
        along = rows @ mean_K
        kernel = (rows @ rows.T).toarray() - np.outer(along, ones) - np.outer(ones, along)
        kernel += np.outer(ones, ones) * (mean_K @ mean_K)
        kernel[np.diag_indices_from(kernel)] += _RIDGE
        inverse = np.linalg.inv(kernel)
        dual = inverse @ wanted
        weight_KF = rows.T @ dual - np.outer(mean_K, ones @ dual)
        unseen_BF = np.zeros_like(y)
        for group in np.unique(group_B):
            at = np.flatnonzero(group_B == group)
            out = np.concatenate([at, len(y) + np.flatnonzero(pair_group_P == group)])
            missed = np.linalg.solve(inverse[np.ix_(out, out)], dual[out])[: len(at)]
            unseen_BF[at] = y[at] - missed / root[at, None]
        return weight_KF, mean_F - mean_K @ weight_KF, unseen_BF


def _names(found: Sequence[dict[str, float]], supporters: Sequence[str]) -> list[str]:
    """The columns: every feature, and the words that enough supporters use."""
    used: dict[str, set[str]] = defaultdict(set)
    for one, supporter in zip(found, supporters, strict=True):
        for name in one:
            used[name].add(supporter)
    return sorted(
        name for name, by in used.items() if len(by) >= (_GRAM_SUPPORTERS if name[0] == "=" else 1)
    )


def _worth(
    ratings_BF: np.ndarray, change_B: np.ndarray, weight_B: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points a unit of each factor, by least squares of the change, and the levels that go with no
    change.
    """
    root = np.sqrt(weight_B)[:, None]
    z = np.column_stack([ratings_BF, np.ones(len(change_B))]) * root
    found, *_ = np.linalg.lstsq(z, change_B * root[:, 0], rcond=None)
    worth, constant = found[:-1], found[-1]
    mean_F = np.average(ratings_BF, axis=0, weights=weight_B)
    change = change_B - np.average(change_B, weights=weight_B)
    slope_F = (weight_B * change) @ (ratings_BF - mean_F) / (weight_B @ change**2)
    mean_change = float(mean_F @ worth + constant)
    return worth, mean_F - slope_F * mean_change


def _sure(
    unseen_BF: np.ndarray, ratings_BF: np.ndarray
) -> tuple[dict[Factor, float], dict[Factor, float]]:
    """Predictions up to and from which enough replies are rated low, or high."""
    low: dict[Factor, float] = {}
    high: dict[Factor, float] = {}
    for at, name in enumerate(FACTORS):
        predicted, given = unseen_BF[:, at], ratings_BF[:, at]
        if (found := _threshold(predicted, given <= _LOW)) is not None:
            low[name] = found
        if (
            found := _threshold(-predicted, given >= (1.0 if name is Factor.FALSE else _HIGH))
        ) is not None:
            high[name] = -found
    return low, high


def _threshold(predicted: np.ndarray, is_so: np.ndarray) -> float | None:
    """The highest prediction below which `_SURE` of the replies are so; None when there is none
    with `_LEAST` replies.
    """
    order = np.argsort(predicted, kind="stable")
    precision = np.cumsum(is_so[order]) / np.arange(1, len(order) + 1)
    enough = np.flatnonzero((precision >= _SURE) & (np.arange(1, len(order) + 1) >= _LEAST))
    return round(float(predicted[order[enough[-1]]]), 2) if len(enough) else None


def _by_factor(values: np.ndarray) -> dict[Factor, float]:
    return {name: round(float(value), 3) + 0.0 for name, value in zip(FACTORS, values, strict=True)}
