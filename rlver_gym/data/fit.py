"""Ridge regression of recorded changes on features, with persona effects and the judge's state
taken out. Needs scikit-learn (extra `calibrate`).
"""

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.data.design import NEED_SCALE, Design
from rlver_gym.io.errors import needs_extra
from rlver_gym.users.embedded.weights import NEARNESS, FeatureWeight, Relevance

RIDGE = 25.0
"""Penalty on feature columns: small, since a column is a share in [0, 1] that few utterances fill.
"""
_PERSONA_RIDGE = 3.0
_FREE = 1e-3


class FeatureFit(NamedTuple):
    """The reply's weights, and what they make of each row."""

    features: dict[str, FeatureWeight]
    weight_K: np.ndarray
    """The same by column of the design."""
    worth_B: np.ndarray
    """Points of each utterance before gain and gain factors."""


def fit(data: Design, ridge: float = RIDGE) -> FeatureFit:
    """The weights of the reply alone.

    The model is change = persona + simulator + state + features (fidelity studies: without the
    first three, a fit learns how one talks to somebody already happy). Persona effects are shrunk a
    little, state and simulator not at all; only the features' part is kept.
    """
    controls, penalties = _controls(data)
    mean_K = data.x_BK.mean(axis=0)
    z_BZ = np.hstack([data.x_BK - mean_K, controls])
    penalty_Z = np.concatenate([np.full(data.x_BK.shape[1], ridge), penalties])
    weight_Z = _ridge(z_BZ, data.change_B, penalty_Z)
    error_Z = _clustered_errors(z_BZ, data.change_B - z_BZ @ weight_Z, penalty_Z, data.persona_B)
    count = len(data.columns)
    features = _collect_features(data, weight_Z[:count], error_Z[:count])
    named_K = _by_column(data, features)
    return FeatureFit(features, named_K, data.x_BK @ named_K)


_RARELY = (1.0, 5.0, 25.0)
"""Percentiles of utterances meant for their person at which relevance counts for nothing, for
little, and in full.
"""


def fit_relevance(data: Design) -> Relevance:
    """Logistic regression of own against others' utterances.

    It needs no ratings: nobody in recordings answers off the matter.
    """
    paired = ~np.isnan(data.strange_BN[:, 0])
    if not paired.any():
        return Relevance(
            intercept=0.0, weights=dict.fromkeys(NEARNESS, 0.0), low=-2.0, high=-1.0, home=-1.0
        )
    x = np.vstack([data.near_BN[paired], data.strange_BN[paired]])
    is_own = np.repeat([1, 0], paired.sum())
    mean, spread = x.mean(axis=0), x.std(axis=0) + 1e-9
    model = (
        sklearn("linear_model")
        .LogisticRegression(tol=1e-8, max_iter=1000)
        .fit((x - mean) / spread, is_own)
    )
    slope = np.round(model.coef_[0] / spread, 3)
    intercept = round(float(model.intercept_[0] - (model.coef_[0] / spread) @ mean), 3)
    low, high, home = np.percentile(data.near_BN @ slope + intercept, _RARELY)
    high, home = max(high, low + 0.01), max(home, low + 0.02)
    weights = {name: float(value) + 0.0 for name, value in zip(NEARNESS, slope, strict=True)}
    return Relevance(
        intercept=intercept, weights=weights, low=_round(low), high=_round(high), home=_round(home)
    )


def sklearn(module: str) -> Any:
    """A module of scikit-learn; MissingExtra says how to get it."""
    with needs_extra("calibrate"):
        return import_module(f"sklearn.{module}")


def _controls(data: Design) -> tuple[np.ndarray, np.ndarray]:
    persona = np.eye(data.persona_B.max() + 1)[data.persona_B]
    simulator = np.eye(data.simulator_B.max() + 1)[data.simulator_B]
    free = np.hstack([simulator, data.state_BS])
    return np.hstack([persona, free]), np.r_[
        np.full(persona.shape[1], _PERSONA_RIDGE), np.full(free.shape[1], _FREE)
    ]


def _ridge(z_BZ: np.ndarray, y_B: np.ndarray, penalty_Z: np.ndarray) -> np.ndarray:
    """Ridge with one penalty a column, by stretching the columns."""
    stretch_Z = np.sqrt(penalty_Z)
    model = (
        sklearn("linear_model")
        .Ridge(alpha=1.0, fit_intercept=False, solver="cholesky")
        .fit(z_BZ / stretch_Z, y_B)
    )
    return model.coef_ / stretch_Z


def _clustered_errors(
    z_BZ: np.ndarray, residual_B: np.ndarray, penalty_Z: np.ndarray, cluster_B: np.ndarray
) -> np.ndarray:
    """Standard errors by the sandwich (Z'Z + P)^-1 S (Z'Z + P)^-1, S summed over clusters (Liang
    and Zeger 1986).
    """
    bread = np.linalg.inv(z_BZ.T @ z_BZ + np.diag(penalty_Z))
    scores = np.zeros((cluster_B.max() + 1, z_BZ.shape[1]))
    np.add.at(scores, cluster_B, z_BZ * residual_B[:, None])
    half = scores @ bread
    return np.sqrt((half**2).sum(axis=0))


def _collect_features(
    data: Design, weight_K: np.ndarray, error_K: np.ndarray
) -> dict[str, FeatureWeight]:
    found: dict[str, FeatureWeight] = {}
    by_need: dict[str, dict] = {}
    for (name, need), weight, error in zip(data.columns, weight_K, error_K, strict=True):
        if need is None:
            found[name] = FeatureWeight(anyone=_round(weight), error=_round(error))
        else:
            by_need.setdefault(name, {})[need] = _round(NEED_SCALE * weight)
    return {
        name: one.model_copy(update={"by_need": by_need.get(name, {})})
        for name, one in found.items()
    }


def _round(value: float) -> float:
    """Three decimals, so that the file is the same on every machine."""
    return round(float(value), 3) + 0.0


def _by_column(data: Design, features: dict[str, FeatureWeight]) -> np.ndarray:
    """The rounded weights, as they will be used."""
    weight_K = [
        features[name].anyone if need is None else features[name].by_need[need] / NEED_SCALE
        for name, need in data.columns
    ]
    return np.array(weight_K)
