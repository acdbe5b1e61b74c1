"""What is worth knowing of a batch that was judged, as plain numbers. Pure."""

import numpy as np
from numpy.typing import NDArray

from rlver_gym.policy.advantage import explained_variance
from rlver_gym.policy.batch import Batch

Floats = NDArray[np.float64]


def of_rewards(batch: Batch, signal_D: NDArray[np.bool_]) -> dict[str, float]:
    """Returns as they are learned from, scaled and penalised, and how many dialogues tell anything. NaN where there is no dialogue."""
    return_D = batch.reward_DN.sum(axis=1) if batch.dialogues else np.full(1, np.nan)
    return {
        "return_mean": float(return_D.mean()),
        "return_std": float(return_D.std()),
        "return_min": float(return_D.min()),
        "return_max": float(return_D.max()),
        "reward_mean": float(batch.reward_DN.sum() / max(batch.turns_D.sum(), 1)),
        "flat_groups": 1 - float(signal_D.mean()) if len(signal_D) else float("nan"),
        "left_out": float(batch.left_out),
    }


def of_critic(value_S: Floats, return_S: Floats) -> dict[str, float]:
    """How well the critic foresaw the returns."""
    return {
        "value_mean": _mean(value_S),
        "target_mean": _mean(return_S),
        "explained_variance": explained_variance(value_S, return_S),
    }


def _mean(value_S: Floats) -> float:
    return float(value_S.mean()) if len(value_S) else float("nan")
