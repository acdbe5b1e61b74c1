"""What there is to learn from in an iteration: rewards, groups that tell something, a critic's
foresight.
"""

import numpy as np

from rlver_gym.policy.learning.algorithms import Advantages, Floats, explained_variance
from rlver_gym.policy.learning.registry import AdvantageConfig
from rlver_gym.policy.learning.rollouts import Rollouts
from rlver_gym.util.interval import mean_or_nan


def measure_rewards(
    rollouts: Rollouts, reward_R: Floats, advantages: Advantages, choice: AdvantageConfig
) -> dict[str, float]:
    """Returns and rewards as learned from; `flat_groups`: the share of groups that tell nothing."""
    said_R, dialogues = rollouts.is_said_R, len(rollouts.group_D)
    return_D = np.bincount(rollouts.dialogue_R[said_R], reward_R[said_R], dialogues)
    return_D = return_D if dialogues else np.full(1, np.nan)
    key_R = rollouts.key_R(choice.compare)
    pairs, reply_S = advantages.pairs, rollouts.tokens.reply_S
    telling = np.union1d(key_R[reply_S[advantages.advantage_S != 0]], key_R[pairs.better_P])
    distance = mean_or_nan(pairs.distance_P)
    of_pairs = {"pairs": float(len(pairs.better_P)), "pair_distance": distance}
    return {
        "return_mean": float(return_D.mean()),
        "return_std": float(return_D.std()),
        "return_min": float(return_D.min()),
        "return_max": float(return_D.max()),
        "reward_mean": mean_or_nan(reward_R),
        "flat_groups": 1 - len(telling) / max(len(np.unique(key_R)), 1),
        "num_skipped": float(rollouts.num_skipped),
    } | (of_pairs if choice.kind == "pairs" else {})


def measure_critic(value_S: Floats, return_S: Floats) -> dict[str, float]:
    return {
        "value_mean": mean_or_nan(value_S),
        "target_mean": mean_or_nan(return_S),
        "explained_variance": explained_variance(value_S, return_S),
    }
