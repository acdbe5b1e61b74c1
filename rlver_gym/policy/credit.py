"""How rewards become advantages: the choices there are, and their execution."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlver_gym.errors import TrainingError
from rlver_gym.policy import groups
from rlver_gym.policy.advantage import Estimate, gae, placed, whitened
from rlver_gym.policy.batch import Batch

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Credit:
    """How rewards become advantages."""

    kind: Literal["gae", "episode", "turn", "centred"] = "episode"
    """gae: by a critic; the others by the group: the whole return, the return from this turn on, or this turn's reward."""
    gamma: float = 1.0
    """Discount (gae, turn)."""
    gae_lambda: float = 1.0
    """GAE's lambda."""
    discount_per: Literal["turn", "token"] = "turn"
    """Where gamma and lambda count (gae)."""
    rewards: Literal["turn", "episode"] = "turn"
    """At the end of each turn, or their sum at the end of the dialogue (gae)."""
    whiten: bool = True
    """Advantages with mean 0 and standard deviation 1 over all said tokens (gae)."""
    baseline: Literal["group", "others"] = "group"
    """A dialogue is compared with the mean of its group, itself included, or of the others."""
    scale: bool = True
    """Divided by the group's standard deviation."""
    floor: float = 0.0
    """The least that divides (`scale`), in units of scaled rewards."""
    drop_flat: bool = False
    """Groups whose returns are all the same take no part in learning."""


def credited(batch: Batch, credit: Credit, value_S: Floats | None = None, cost_S: Floats | float = 0.0) -> Estimate:
    """The advantage of every said token, and what its value should have been (0 without critic).

    `cost_S` is taken from each token's reward (gae) or advantage. TrainingError when the critic's values are needed and missing.
    """
    dialogue_S, turn_S = batch.dialogue_S, batch.turn_S
    if credit.kind == "gae":
        if value_S is None:
            raise TrainingError("credit by gae needs values. Give it a critic, or an actor with a value head.")
        reward_S = placed(batch.reward_DN, dialogue_S, turn_S, credit.rewards) - cost_S
        estimate = gae(reward_S, value_S, dialogue_S, turn_S, credit.gamma, credit.gae_lambda, credit.discount_per)
        return Estimate(whitened(estimate.advantage_S), estimate.return_S) if credit.whiten else estimate
    advantage_DN = _by_group(batch, credit)
    return Estimate(advantage_DN[dialogue_S, turn_S] - cost_S, np.zeros(len(turn_S)))


def _by_group(batch: Batch, credit: Credit) -> Floats:
    rewards = batch.reward_DN, batch.turns_D, batch.group_D
    how = {"baseline": credit.baseline, "scale": credit.scale, "floor": credit.floor}
    if credit.kind == "episode":
        return groups.by_episode(*rewards, **how)
    if credit.kind == "turn":
        return groups.by_turn(*rewards, gamma=credit.gamma, **how)
    return groups.centred(*rewards, **how)
