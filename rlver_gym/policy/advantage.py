"""From rewards to advantages, token by token: PPO's way, with a critic. Pure.

Axes: S said tokens of all dialogues, one dialogue after the other and each in the order of speaking; D dialogues; N turns. A dialogue that thinks has
several token sequences; here they are one.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Estimate(NamedTuple):
    """What was better or worse than expected, and what to expect the next time."""

    advantage_S: Floats
    return_S: Floats
    """The critic's target."""


def penalised(reward_DN: Floats, broken_DN: Bools, share: float = 1.0) -> Floats:
    """Rewards of dialogues in which a reply broke the format: the gains shrink by this share, losses stay. With 1 and a reward at the end that
    is never negative, it is RLVER's rule that a broken reply earns nothing (arXiv:2507.03112)."""
    broken_D1 = broken_DN.any(axis=1, keepdims=True)
    return np.where(broken_D1, np.minimum(reward_DN, 0) + (1 - share) * np.maximum(reward_DN, 0), reward_DN)


def overlong(tokens_DN: Ints, longest: int, buffer: int) -> Floats:
    """How far each reply has come into the last `buffer` tokens before the limit: 0 before them, 1 at the limit, linear between (DAPO's soft overlong
    punishment, arXiv:2503.14476, eq. 13, turned round). 0 without a buffer."""
    if not buffer:
        return np.zeros(tokens_DN.shape)
    return np.clip((tokens_DN - (longest - buffer)) / buffer, 0.0, 1.0)


def placed(reward_DN: Floats, dialogue_S: Ints, turn_S: Ints, rewards: Literal["turn", "episode"] = "turn") -> Floats:
    """reward_S: each turn's reward at the turn's last said token, or their sum at the dialogue's last. A turn in which nothing was said passes its
    reward to the token said before, or to the first one. Every dialogue's rewards keep their sum."""
    reward_S, said = np.zeros(len(turn_S)), np.arange(len(turn_S))
    if rewards == "episode":
        ends = np.flatnonzero(_next_differs(dialogue_S))
        reward_S[ends] = reward_DN.sum(axis=1)[dialogue_S[ends]]
        return reward_S
    last_DN = np.full(reward_DN.shape, -1)
    np.maximum.at(last_DN, (dialogue_S, turn_S), said)
    last_DN = np.maximum.accumulate(last_DN, axis=1)
    starts = np.flatnonzero(np.diff(dialogue_S, prepend=-1))
    last_DN = np.where(last_DN < 0, starts[:, None], last_DN)
    np.add.at(reward_S, last_DN, reward_DN)
    return reward_S


def gae(
    reward_S: Floats,
    value_S: Floats,
    dialogue_S: Ints,
    turn_S: Ints,
    gamma: float = 1.0,
    lam: float = 1.0,
    per: Literal["turn", "token"] = "turn",
) -> Estimate:
    """Generalised advantage estimation (arXiv:1506.02438, eq. 16) over what the policy said, across the sequences of a dialogue. After a dialogue's
    last token nothing comes: its horizon belongs to the task. `per`: gamma and lambda count from token to token, or only from turn to turn."""
    ends_S = _next_differs(dialogue_S)
    counts_S = np.ones(len(turn_S), dtype=bool) if per == "token" else _next_differs(turn_S)
    advantage_S = np.zeros(len(reward_S))
    ahead = next_value = 0.0
    for s in reversed(range(len(reward_S))):
        if ends_S[s]:
            ahead = next_value = 0.0
        g, trace = (gamma, lam) if counts_S[s] else (1.0, 1.0)
        ahead = reward_S[s] + g * next_value - value_S[s] + g * trace * ahead
        advantage_S[s], next_value = ahead, value_S[s]
    return Estimate(advantage_S, advantage_S + value_S)


def whitened(advantage_S: Floats) -> Floats:
    """Mean 0 and standard deviation 1 over all said tokens; only mean 0 where they do not differ."""
    centred_S = advantage_S - advantage_S.mean() if len(advantage_S) else advantage_S
    spread = centred_S.std() if len(centred_S) else 0.0
    return centred_S / spread if spread > 1e-8 else centred_S


def explained_variance(value_S: Floats, return_S: Floats) -> float:
    """The share of the returns' variance that the values foresaw: 1 all of it, 0 none, below 0 worse than a constant; NaN if returns do not differ."""
    variance = return_S.var() if len(return_S) else 0.0
    return float(1 - (return_S - value_S).var() / variance) if variance else float("nan")


def _next_differs(value_S: Ints) -> Bools:
    """True where the next token has another value, and at the end."""
    return np.append(value_S[1:] != value_S[:-1], np.ones(min(1, len(value_S)), dtype=bool))
