"""The equations, with their papers: advantages by a critic or by comparison within a group, what
the losses are made of, and how much each token counts in them. Pure.

Axes: B sequences, T tokens, S sampled tokens of all dialogues (one dialogue after the other, each
in the order of speaking), R replies (said ones and those that were only tried), P pairs of replies,
D dialogues, X anything. Dialogues of a group had the same persona and seed; replies of a moment
were tried at the same turn of a dialogue. Log-probabilities are in nats; `old` is the policy before
the update. Inputs (B, T) are 0 where nothing was sampled.
"""

from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlver_gym.policy.learning.registry import Aggregate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Pairs(NamedTuple):
    """Pairs of replies to one moment."""

    better_P: Ints
    worse_P: Ints
    distance_P: Floats
    """How far their rewards lie apart, in the environment's rewards."""


NO_PAIRS = Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


class Advantages(NamedTuple):
    """What was better or worse than expected, and what to expect the next time."""

    advantage_S: Floats
    return_S: Floats
    """The critic's target; 0 without critic."""
    pairs: Pairs = NO_PAIRS
    """Of replies, where they are compared two by two."""


def penalise_format_errors(
    reward_R: Floats, format_error_R: Bools, key_R: Ints, share: float = 1.0
) -> Floats:
    """Rewards where a reply broke the format: the gains of all replies of its key (a dialogue, or
    the reply alone) shrink by this share, losses stay. With 1 and a reward at the end that is never
    negative, it is RLVER's rule that a broken reply earns nothing (arXiv:2507.03112).
    """
    broken_R = np.isin(key_R, key_R[format_error_R])
    return np.where(
        broken_R, np.minimum(reward_R, 0) + (1 - share) * np.maximum(reward_R, 0), reward_R
    )


def compute_overlong_penalty(tokens_R: Ints, longest: int, buffer: int) -> Floats:
    """How far each reply has come into the last `buffer` tokens before the limit: 0 before them, 1
    at the limit, linear between (DAPO's soft overlong punishment, arXiv:2503.14476, eq. 13, turned
    round). 0 without a buffer.
    """
    if not buffer:
        return np.zeros(tokens_R.shape)
    return np.clip((tokens_R - (longest - buffer)) / buffer, 0.0, 1.0)


def place_rewards(reward_R: Floats, reply_S: Ints) -> Floats:
    """reward_S: each reply's reward at its last token."""
    is_last_S = _mark_boundaries(reply_S)
    return np.where(is_last_S, reward_R[reply_S], 0.0)


def gae(
    reward_S: Floats,
    value_S: Floats,
    dialogue_S: Ints,
    turn_S: Ints,
    gamma: float = 1.0,
    gae_lambda: float = 1.0,
) -> Advantages:
    """Generalised advantage estimation (arXiv:1506.02438, eq. 16) over action tokens, across
    the sequences of a dialogue; gamma and lambda count from turn to turn. After a dialogue's last
    token nothing comes: its horizon belongs to the task. With every reply as a dialogue of its own,
    a token's advantage is its reply's reward less its value.
    """
    ends_S, counts_S = _mark_boundaries(dialogue_S), _mark_boundaries(turn_S)
    advantage_S = np.zeros(len(reward_S))
    ahead = next_value = 0.0
    for s in reversed(range(len(reward_S))):
        if ends_S[s]:
            ahead = next_value = 0.0
        g, trace = (gamma, gae_lambda) if counts_S[s] else (1.0, 1.0)
        ahead = reward_S[s] + g * next_value - value_S[s] + g * trace * ahead
        advantage_S[s], next_value = ahead, value_S[s]
    return Advantages(advantage_S, advantage_S + value_S)


def whiten(advantage_S: Floats) -> Floats:
    """Mean 0 and standard deviation 1 over all sampled tokens; 0 where they do not differ."""
    centred_S = advantage_S - advantage_S.mean() if len(advantage_S) else advantage_S
    spread = centred_S.std() if len(centred_S) else 0.0
    return centred_S / spread if spread > 1e-8 else centred_S


def explained_variance(value_S: Floats, return_S: Floats) -> float:
    """The share of the returns' variance that the values foresaw; NaN if returns do not differ."""
    variance = return_S.var() if len(return_S) else 0.0
    return float(1 - (return_S - value_S).var() / variance) if variance else float("nan")


def mean_by(key_X: Ints, value_X: Floats, size: int) -> Floats:
    """The mean of the values with each key from 0 to `size`, exclusive."""
    return np.bincount(key_X, value_X, size) / np.bincount(key_X, minlength=size)


def _mark_boundaries(value_S: Ints) -> Bools:
    """True where the next token has another value, and at the end."""
    return np.append(value_S[1:] != value_S[:-1], np.ones(min(1, len(value_S)), dtype=bool))


SAME = 1e-6
"""Returns that lie closer together than this are the same."""


def group_relative(
    value_X: Floats,
    key_X: Ints,
    baseline: Literal["group", "others"] = "group",
    scale: bool = True,
    min_std: float = SAME,
) -> Floats:
    """Each value against those with the same key; 0 for a value alone or where all are the same.

    `baseline="group"` is the mean. Scaled by the group's standard deviation: GRPO
    (arXiv:2402.03300, 4.1.2), DAPO, GSPO and CISPO; unscaled: Dr.GRPO (arXiv:2503.20783), replies
    to one moment, and the winners of RFT. `min_std`: no smaller standard deviation divides, so that
    small differences stay small: whole points of reward that nearly all got alike are mostly noise.
    `baseline="others"`, unscaled: the mean of the others, RLOO (arXiv:2402.14740).
    """
    _, key_X = np.unique(key_X, return_inverse=True)
    size_X = np.bincount(key_X)[key_X]
    apart_X = value_X - np.bincount(key_X, value_X)[key_X] / size_X
    spread_X = np.sqrt(np.bincount(key_X, apart_X**2)[key_X] / size_X)
    if scale:
        apart_X = apart_X / np.maximum(spread_X, max(min_std, SAME))
    if baseline == "others":
        apart_X = apart_X * size_X / np.maximum(size_X - 1, 1)
    return np.where(spread_X > SAME, apart_X, 0.0)


def compute_group_advantage_by_episode(
    reward_R: Floats, dialogue_R: Ints, turn_R: Ints, group_D: Ints, **how
) -> Floats:
    """advantage_R: the dialogue's return against its group's (`how`: of `group_relative`)."""
    return_D = np.bincount(dialogue_R, reward_R, len(group_D)).astype(np.float64)
    return group_relative(return_D, group_D, **how)[dialogue_R]


def compute_group_advantage_by_turn(
    reward_R: Floats, dialogue_R: Ints, turn_R: Ints, group_D: Ints, gamma: float = 1.0, **how
) -> Floats:
    """advantage_R: a turn has the return from it on, against those of the group at the same turn.
    What came before cannot be its merit (reward-to-go, arXiv:1506.02438, eq. 1, item 3). With a
    gamma of 0 it has its own reward alone. Replies stand in the order of speaking.
    """
    to_go_R = reward_R.copy()
    for reply in reversed(range(len(reward_R) - 1)):
        if dialogue_R[reply] == dialogue_R[reply + 1]:
            to_go_R[reply] += gamma * to_go_R[reply + 1]
    key_R = group_D[dialogue_R] * (turn_R.max(initial=0) + 1) + turn_R
    return group_relative(to_go_R, key_R, **how)


def find_winners(reward_R: Floats, moment_R: Ints, can_win_R: Bools, margin: float) -> Floats:
    """1 for the best reply to each moment, the first of equals, `margin` above the mean; else 0."""
    apart_R = group_relative(reward_R, moment_R, scale=False)
    best_R = np.zeros(len(reward_R))
    for moment in np.unique(moment_R):
        here = np.flatnonzero(moment_R == moment)
        best = here[np.argmax(np.where(can_win_R[here], reward_R[here], -np.inf))]
        best_R[best] = can_win_R[best] and apart_R[best] >= max(margin, SAME)
    return best_R


MAX_PAIRS = 8
"""Of a moment, the widest: with many replies to it nearly all pairs tell the same again."""


def find_pairs(
    reward_R: Floats, moment_R: Ints, can_win_R: Bools, margin: float, most: int = MAX_PAIRS
) -> Pairs:
    """Pairs of replies to one moment at least `margin` apart, the widest first, `most` a moment."""
    pairs: list[tuple[int, int, float]] = []
    for moment in np.unique(moment_R):
        here = np.flatnonzero(moment_R == moment)
        apart = [
            (int(better), int(worse), float(reward_R[better] - reward_R[worse]))
            for better in here[can_win_R[here]]
            for worse in here
            if reward_R[better] - reward_R[worse] >= max(margin, SAME)
        ]
        pairs += sorted(apart, key=lambda pair: -pair[2])[:most]
    if not pairs:
        return NO_PAIRS
    better, worse, distance = zip(*pairs, strict=True)
    return Pairs(np.array(better), np.array(worse), np.array(distance))


def compute_token_ratio(logprob_BT: Tensor, old_BT: Tensor) -> Tensor:
    """How much likelier each token has become: 1 before the first update."""
    return (logprob_BT - old_BT).exp()


def compute_sequence_ratio(logprob_BT: Tensor, old_BT: Tensor, action_mask_BT: Tensor) -> Tensor:
    """How much likelier a sequence has become, as the geometric mean over its sampled tokens, at
    each of its tokens. Each token's gradient flows through its own probability, so that turns of a
    sequence may have advantages of their own (GSPO-token, arXiv:2507.18071, 4.3).
    """
    count_B1 = action_mask_BT.sum(1, keepdim=True).clamp(min=1)
    ratio_B1 = ((logprob_BT - old_BT).sum(1, keepdim=True) / count_B1).exp().detach()
    return ratio_B1 * (logprob_BT - logprob_BT.detach()).exp()


def clipped_surrogate(
    ratio_BT: Tensor, advantage_BT: Tensor, clip_low: float = 0.2, clip_high: float = 0.2
) -> Tensor:
    """PPO's clipped surrogate (arXiv:1707.06347, eq. 7), to be minimised; the bounds differ in
    DAPO's clip-higher (arXiv:2503.14476, 3.1).
    """
    return -torch.minimum(
        ratio_BT * advantage_BT, ratio_BT.clamp(1 - clip_low, 1 + clip_high) * advantage_BT
    )


def compute_cispo_loss(
    logprob_BT: Tensor,
    ratio_BT: Tensor,
    advantage_BT: Tensor,
    clip_low: float = 1.0,
    clip_high: float = 0.2,
) -> Tensor:
    """REINFORCE weighted with the clipped ratio, through which no gradient flows, so that no token
    is left out (arXiv:2506.13585, eq. 4 and 5).
    """
    return -ratio_BT.clamp(1 - clip_low, 1 + clip_high).detach() * advantage_BT * logprob_BT


class PairLoss(NamedTuple):
    """Of each pair; 0 where its replies are not here."""

    loss_P: Tensor
    is_right_P: Tensor
    """1 where the better reply has risen more."""


def compute_preference_loss(
    logprob_BT: Tensor,
    reference_BT: Tensor,
    reply_BT: Tensor,
    pairs: Pairs,
    beta: float = 0.1,
    anchor: float = 0.0,
) -> PairLoss:
    """loss_P: -log sigmoid of beta times how much more the log-probability of the better reply has
    risen above the reference's than that of the worse (DPO, arXiv:2305.18290, eq. 7), and `anchor`
    times the cross-entropy of the better, a token of it (arXiv:2404.19733, eq. 1). 0 for pairs
    whose replies are not here.

    `reply_BT`: the reply of a sampled token, -1 elsewhere.
    """
    better_P, worse_P = (torch.from_numpy(reply_P).to(reply_BT) for reply_P in pairs[:2])
    size = 1 + max([int(index.max()) for index in (reply_BT, better_P, worse_P) if len(index)])

    def add_up(value_BT: Tensor) -> Tensor:
        sum_R = value_BT.new_zeros(size + 1)  # the last for what no reply holds
        return sum_R.index_add(0, reply_BT.flatten() % (size + 1), value_BT.flatten())

    rise_R, nats_R = add_up(logprob_BT - reference_BT), add_up(-logprob_BT)
    tokens_R = add_up(torch.ones_like(logprob_BT))
    apart_P = rise_R[better_P] - rise_R[worse_P]
    loss_P = -torch.nn.functional.logsigmoid(beta * apart_P)
    loss_P = loss_P + anchor * nats_R[better_P] / tokens_R[better_P].clamp(min=1)
    is_here_P = tokens_R[better_P] > 0
    return PairLoss(loss_P * is_here_P, (apart_P.detach() > 0) * is_here_P)


def compute_truncated_importance_weight(
    old_BT: Tensor, sampled_BT: Tensor, cap: float = 2.0
) -> Tensor:
    """What a token's term is worth when another program sampled it than the one that learns:
    learner's over sampler's probability, truncated at `cap` (TIS; Ionides 2008,
    doi:10.1198/106186008X320456; apart from PPO's ratio, as in arXiv:2110.00641). No gradient.
    """
    return (old_BT - sampled_BT).exp().clamp(max=cap).detach()


def estimate_kl_divergence(logprob_BT: Tensor, reference_BT: Tensor) -> Tensor:
    """Estimates KL(policy || reference) from tokens of the policy, unbiased and never negative (k3
    of J. Schulman, joschu.net/blog/kl-approx.html, as in arXiv:2402.03300, eq. 4).
    """
    logratio_BT = logprob_BT - reference_BT
    return (-logratio_BT).exp() - 1 + logratio_BT


def compute_value_loss(
    value_BT: Tensor, old_BT: Tensor, return_BT: Tensor, clip: float | None = None
) -> Tensor:
    """Half the squared error; with `clip`, the worse of it and that of the value kept within ± clip
    of the old one (as in OpenAI's PPO; arXiv:2005.12729, section 3).
    """
    loss_BT = (value_BT - return_BT) ** 2
    if clip is not None:
        kept_BT = old_BT + (value_BT - old_BT).clamp(-clip, clip)
        loss_BT = torch.maximum(loss_BT, (kept_BT - return_BT) ** 2)
    return loss_BT / 2


def find_clipped_ratios(ratio_BT: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """1 where the ratio lies outside of its bounds: its mean is the clip fraction."""
    return ((ratio_BT < 1 - clip_low) | (ratio_BT > 1 + clip_high)).float()


def compute_token_weights(
    action_mask_BT: Tensor,
    reply_BT: Tensor,
    episode_B: Tensor,
    aggregate: Aggregate = "turn",
    constant: float = 1.0,
) -> Tensor:
    """loss_weight_BT for a loss that is a sum of weight times term; 0 where nothing is learned.
    `reply_BT`: the reply that a sampled token belongs to. `episode_B`: the dialogue of a sequence,
    or the reply, where replies are compared.

    token: the mean over all tokens (DAPO, arXiv:2503.14476, 3.3), so a dialogue counts as much as
    it is long. turn: the mean over replies of the mean over their tokens: GRPO (arXiv:2402.03300,
    eq. 3), whose output is one reply. A dialogue counts by its turns. sequence: the mean over
    episodes of the mean over their sequences of the mean over tokens (GSPO, arXiv:2507.18071).
    constant: the mean over episodes of the sum over their tokens, divided by `constant` (Dr.GRPO,
    arXiv:2503.20783): length changes no token's weight.
    """
    if aggregate == "turn":
        return _compute_turn_weights(action_mask_BT, reply_BT)
    _, episode_B = episode_B.unique(return_inverse=True)
    learned_B = action_mask_BT.sum(1).double()
    has_B = (learned_B > 0).double()
    episodes = int(episode_B.max()) + 1 if len(episode_B) else 0
    sequences_E = torch.zeros(episodes, dtype=torch.double).index_add(0, episode_B, has_B)
    count = max(1, int((sequences_E > 0).sum()))
    if aggregate == "token":
        weight_B = has_B / learned_B.sum().clamp(min=1)
    elif aggregate == "sequence":
        weight_B = 1 / (count * sequences_E[episode_B].clamp(min=1) * learned_B.clamp(min=1))
    else:
        weight_B = has_B / (count * constant)
    return (weight_B[:, None] * action_mask_BT).float()


def _compute_turn_weights(action_mask_BT: Tensor, reply_BT: Tensor) -> Tensor:
    loss_weight_BT = torch.zeros(action_mask_BT.shape, dtype=torch.double)
    if action_mask_BT.any():
        _, place_S, tokens = reply_BT[action_mask_BT].unique(
            return_inverse=True, return_counts=True
        )
        loss_weight_BT[action_mask_BT] = 1 / (len(tokens) * tokens[place_S].double())
    return loss_weight_BT.float()
