"""Advantages from comparing the dialogues of a group, without a critic: GRPO and its kin. Pure.

Axes: D dialogues, N turns. Dialogues of a group had the same persona and seed. Values of turns that a dialogue did not have are NaN on the way in and
0 on the way out.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SAME = 1e-6
"""Returns that lie closer together than this are the same."""


def group_relative(
    value_D: Floats,
    group_D: Ints,
    baseline: Literal["group", "others"] = "group",
    scale: bool = True,
    floor: float = SAME,
) -> Floats:
    """Each value against its group's; 0 for a value alone or a group in which all are the same. NaN values are no part of their group, and give 0.

    `baseline="group"`, scaled by the group's standard deviation: GRPO (arXiv:2402.03300, 4.1.2); unscaled: Dr.GRPO (arXiv:2503.20783).
    `floor`: no smaller standard deviation divides, so that small differences stay small: whole points of reward that nearly all got alike are mostly noise.
    `baseline="others"`, unscaled: the mean of the others, RLOO (arXiv:2402.14740).
    """
    known_D = ~np.isnan(value_D)
    value_D = np.where(known_D, value_D, 0.0)
    _, group_D = np.unique(group_D, return_inverse=True)
    size_D = np.bincount(group_D, known_D)[group_D]
    mean_D = np.bincount(group_D, value_D)[group_D] / np.maximum(size_D, 1)
    apart_D = np.where(known_D, value_D - mean_D, 0.0)
    spread_D = np.sqrt(np.bincount(group_D, apart_D**2)[group_D] / np.maximum(size_D, 1))
    if scale:
        apart_D = apart_D / np.maximum(spread_D, max(floor, SAME))
    if baseline == "others":
        apart_D = apart_D * size_D / np.maximum(size_D - 1, 1)
    return np.where(spread_D > SAME, apart_D, 0.0)


def by_episode(reward_DN: Floats, turns_D: Ints, group_D: Ints, **how) -> Floats:
    """advantage_DN: every turn is credited with the whole dialogue's return against the group's (`how`: see `group_relative`)."""
    advantage_D = group_relative(reward_DN.sum(axis=1), group_D, **how)
    return np.where(_had(reward_DN, turns_D), advantage_D[:, None], 0.0)


def by_turn(reward_DN: Floats, turns_D: Ints, group_D: Ints, gamma: float = 1.0, **how) -> Floats:
    """advantage_DN: a turn is credited with the return from it on, against those of the group at the same turn. What came before cannot be its
    merit (reward-to-go, arXiv:1506.02438, eq. 1, item 3)."""
    to_go_DN = reward_DN.copy()
    for turn in reversed(range(reward_DN.shape[1] - 1)):
        to_go_DN[:, turn] += gamma * to_go_DN[:, turn + 1]
    return _each_turn(to_go_DN, turns_D, group_D, **how)


def centred(reward_DN: Floats, turns_D: Ints, group_D: Ints, **how) -> Floats:
    """advantage_DN: a turn is credited with its own reward alone, against those of the group at the same turn."""
    return _each_turn(reward_DN, turns_D, group_D, **how)


def has_signal(return_D: Floats, group_D: Ints) -> Bools:
    """signal_D: the dialogue's group has returns that differ; the others are what DAPO leaves out (arXiv:2503.14476, 3.2)."""
    members_D = [return_D[group_D == group] for group in group_D]
    return np.array([np.ptp(one) > SAME for one in members_D], dtype=bool)


def _each_turn(value_DN: Floats, turns_D: Ints, group_D: Ints, **how) -> Floats:
    value_DN = np.where(_had(value_DN, turns_D), value_DN, np.nan)
    columns = [group_relative(value_D, group_D, **how) for value_D in value_DN.T]
    return np.stack(columns, axis=1) if columns else np.zeros(value_DN.shape)


def _had(value_DN: Floats, turns_D: Ints) -> Bools:
    return np.arange(value_DN.shape[1]) < turns_D[:, None]
