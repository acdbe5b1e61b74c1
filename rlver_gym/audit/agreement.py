"""How far changes agree with those of readers of a corpus of rated replies: within a dialogue
first, for that is all that a learner sees.
"""

from collections.abc import Sequence

import numpy as np

from rlver_gym.audit.fidelity_checks import spearman, within
from rlver_gym.data.corpus import RatedReply
from rlver_gym.io.errors import RecordingError

_FEW = 8
"""Replies of a supporter before their mean counts."""


def describe_agreement(
    rated: Sequence[RatedReply], felt: Sequence[float] | np.ndarray
) -> dict[str, float | None]:
    """Correlations with each dialogue's mean, each moment's and each persona's taken out of both;
    the share of equal signs where readers give one, and that for a user who is always pleased; the
    order of the supporters' means (Spearman).
    """
    change = np.array([one.mean("change") for one in rated])
    felt = np.asarray(felt, dtype=float)
    if not len(change):
        raise RecordingError("the corpus holds no rated reply: there is nothing to compare.")
    places = np.array([one.place for one in rated])
    is_dialogue = _is_of_one_supporter(rated)
    has_sign = change != 0
    _names, number, counts = np.unique(
        [one.supporter for one in rated], return_inverse=True, return_counts=True
    )
    means = [
        np.bincount(number, values)[counts >= _FEW] / counts[counts >= _FEW]
        for values in (change, felt)
    ]

    def inside(chosen: np.ndarray) -> float | None:
        if chosen.sum() < 3:
            return None
        return within(change[chosen], felt[chosen], places[chosen])

    return {
        "within_dialogue_r": inside(is_dialogue),
        "within_moment_r": inside(~is_dialogue),
        "within_person_r": within(change, felt, np.array([one.persona for one in rated])),
        "same_sign": _mean(np.sign(felt[has_sign]) == np.sign(change[has_sign])),
        "always_pleased": _mean(change[has_sign] > 0),
        "order_of_supporters": spearman(*means) if len(means[0]) > 2 else None,
        "replies": len(rated),
    }


def _mean(of: np.ndarray) -> float | None:
    return float(of.mean()) if len(of) else None


def _is_of_one_supporter(rated: Sequence[RatedReply]) -> np.ndarray:
    """Of each reply, whether its place is a whole dialogue and not a moment: there one supporter
    speaks.
    """
    spoke: dict[str, set[str]] = {}
    for one in rated:
        spoke.setdefault(one.place, set()).add(one.supporter)
    return np.array([len(spoke[one.place]) == 1 for one in rated])
