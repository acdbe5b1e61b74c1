"""The equations, with their papers: advantages by a critic or by comparison within a group, what
the losses are made of, and how much each token counts in them. Pure.

Axes: B sequences, T tokens, S sampled tokens of all dialogues (one dialogue after the other, each
in the order of speaking), D dialogues, N turns. Dialogues of a group had the same persona and seed.
Log-probabilities are in nats; `old` is the policy before the update. Inputs (B, T) are 0 where
nothing was sampled.
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


class AdvantageAndReturn(NamedTuple):
    """What was better or worse than expected, and what to expect the next time."""

    advantage_S: Floats
    return_S: Floats
    """The critic's target."""


def penalise_format_errors(reward_DN: Floats, format_error_DN: Bools, share: float = 1.0) -> Floats:
    """Rewards of dialogues in which a reply broke the format: the gains shrink by this share,
    losses stay. With 1 and a reward at the end that is never negative, it is RLVER's rule that a
    broken reply earns nothing (arXiv:2507.03112).
    """
    broken_D1 = format_error_DN.any(axis=1, keepdims=True)
    return np.where(
        broken_D1, np.minimum(reward_DN, 0) + (1 - share) * np.maximum(reward_DN, 0), reward_DN
    )


def compute_overlong_penalty(tokens_DN: Ints, longest: int, buffer: int) -> Floats:
    """How far each reply has come into the last `buffer` tokens before the limit: 0 before them, 1
    at the limit, linear between (DAPO's soft overlong punishment, arXiv:2503.14476, eq. 13, turned
    round). 0 without a buffer.
    """
    if not buffer:
        return np.zeros(tokens_DN.shape)
    return np.clip((tokens_DN - (longest - buffer)) / buffer, 0.0, 1.0)


def place_rewards(reward_DN: Floats, dialogue_S: Ints, turn_S: Ints) -> Floats:
    """reward_S: each turn's reward at the turn's last sampled token. A turn without action tokens
    passes its reward to the token before, or to the first one. Every dialogue's rewards keep their
    sum.
    """
    reward_S, action_S = np.zeros(len(turn_S)), np.arange(len(turn_S))
    last_DN = np.full(reward_DN.shape, -1)
    np.maximum.at(last_DN, (dialogue_S, turn_S), action_S)
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
    gae_lambda: float = 1.0,
) -> AdvantageAndReturn:
    """Generalised advantage estimation (arXiv:1506.02438, eq. 16) over action tokens, across
    the sequences of a dialogue; gamma and lambda count from turn to turn. After a dialogue's last
    token nothing comes: its horizon belongs to the task.
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
    return AdvantageAndReturn(advantage_S, advantage_S + value_S)


def whiten(advantage_S: Floats) -> Floats:
    """Mean 0 and standard deviation 1 over all sampled tokens; only mean 0 where they do not
    differ.
    """
    centred_S = advantage_S - advantage_S.mean() if len(advantage_S) else advantage_S
    spread = centred_S.std() if len(centred_S) else 0.0
    return centred_S / spread if spread > 1e-8 else centred_S


def explained_variance(value_S: Floats, return_S: Floats) -> float:
    """The share of the returns' variance that the values foresaw: 1 all of it, 0 none, below 0
    worse than a constant; NaN if returns do not differ.
    """
    variance = return_S.var() if len(return_S) else 0.0
    return float(1 - (return_S - value_S).var() / variance) if variance else float("nan")


def _mark_boundaries(value_S: Ints) -> Bools:
    """True where the next token has another value, and at the end."""
    return np.append(value_S[1:] != value_S[:-1], np.ones(min(1, len(value_S)), dtype=bool))


SAME = 1e-6
"""Returns that lie closer together than this are the same."""


def group_relative(
    value_D: Floats,
    group_D: Ints,
    baseline: Literal["group", "others"] = "group",
    scale: bool = True,
    min_std: float = SAME,
) -> Floats:
    """Each value against its group's; 0 for a value alone or a group in which all are the same. NaN
    values are no part of their group, and give 0.

    `baseline="group"`, scaled by the group's standard deviation: GRPO (arXiv:2402.03300, 4.1.2);
    unscaled: Dr.GRPO (arXiv:2503.20783). `min_std`: no smaller standard deviation divides, so that
    small differences stay small: whole points of reward that nearly all got alike are mostly noise.
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
        apart_D = apart_D / np.maximum(spread_D, max(min_std, SAME))
    if baseline == "others":
        apart_D = apart_D * size_D / np.maximum(size_D - 1, 1)
    return np.where(spread_D > SAME, apart_D, 0.0)


def compute_group_advantage_by_episode(
    reward_DN: Floats, turns_D: Ints, group_D: Ints, **how
) -> Floats:
    """advantage_DN: every turn has the whole dialogue's return against the group's (`how`: see
    `group_relative`).
    """
    advantage_D = group_relative(reward_DN.sum(axis=1), group_D, **how)
    return np.where(_mask_turns(reward_DN, turns_D), advantage_D[:, None], 0.0)


def compute_group_advantage_by_turn(
    reward_DN: Floats, turns_D: Ints, group_D: Ints, gamma: float = 1.0, **how
) -> Floats:
    """advantage_DN: a turn has the return from it on, against those of the group at the same turn.
    What came before cannot be its merit (reward-to-go, arXiv:1506.02438, eq. 1, item 3). With a
    gamma of 0 it has its own reward alone.
    """
    to_go_DN = reward_DN.copy()
    for turn in reversed(range(reward_DN.shape[1] - 1)):
        to_go_DN[:, turn] += gamma * to_go_DN[:, turn + 1]
    to_go_DN = np.where(_mask_turns(to_go_DN, turns_D), to_go_DN, np.nan)
    columns = [group_relative(to_go_D, group_D, **how) for to_go_D in to_go_DN.T]
    return np.stack(columns, axis=1) if columns else np.zeros(to_go_DN.shape)


def find_groups_with_signal(return_D: Floats, group_D: Ints) -> Bools:
    """signal_D: the dialogue's group has returns that differ; the others are what DAPO leaves out
    (arXiv:2503.14476, 3.2).
    """
    members_D = [return_D[group_D == group] for group in group_D]
    return np.array([np.ptp(one) > SAME for one in members_D], dtype=bool)


def _mask_turns(value_DN: Floats, turns_D: Ints) -> Bools:
    return np.arange(value_DN.shape[1]) < turns_D[:, None]


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
    """PPO's clipped surrogate (arXiv:1707.06347, eq. 7), to be minimised.

    `clip_low` and `clip_high` differ in DAPO's clip-higher (arXiv:2503.14476, 3.1).
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


def compute_preference_loss(
    logratio_BT: Tensor, sign_BT: Tensor, pair_BT: Tensor, beta: float = 0.1
) -> Tensor:
    """At each token of two replies the loss of their pair: -log sigmoid of beta times how much more
    the log-probability of the chosen one has risen than that of the rejected (DPO,
    arXiv:2305.18290, eq. 7); 0 at other tokens.

    `logratio_BT`: log-probability less the reference's, in nats. `sign_BT`: 1 chosen, -1 rejected,
    0 neither. `pair_BT`: from 0, which pair a token belongs to.
    """
    rise_P = logratio_BT.new_zeros(int(pair_BT.max()) + 1 if pair_BT.numel() else 0)
    rise_P = rise_P.index_add(0, pair_BT.flatten(), (sign_BT * logratio_BT).flatten())
    return -torch.nn.functional.logsigmoid(beta * rise_P)[pair_BT] * sign_BT.abs()


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
    turn_BT: Tensor,
    dialogue_B: Tensor,
    aggregate: Aggregate = "turn",
    constant: float = 1.0,
) -> Tensor:
    """loss_weight_BT for a loss that is a sum of weight times term; 0 where nothing is learned.
    `turn_BT`: the turn of a token within its dialogue, from 0.

    token: the mean over all tokens (DAPO, arXiv:2503.14476, 3.3), so a dialogue counts as much as
    it is long. turn: the mean over turns of the mean over their tokens: GRPO (arXiv:2402.03300, eq.
    3), whose output is one reply. A dialogue counts by its turns. sequence: the mean over dialogues
    of the mean over their sequences of the mean over tokens (GSPO, arXiv:2507.18071). constant: the
    mean over dialogues of the sum over their tokens, divided by `constant` (Dr.GRPO,
    arXiv:2503.20783): length changes no token's weight.
    """
    if aggregate == "turn":
        return _compute_turn_weights(action_mask_BT, turn_BT, dialogue_B)
    learned_B = action_mask_BT.sum(1).double()
    has_B = (learned_B > 0).double()
    dialogues = int(dialogue_B.max()) + 1 if len(dialogue_B) else 0
    sequences_D = torch.zeros(dialogues, dtype=torch.double).index_add(0, dialogue_B, has_B)
    count = max(1, int((sequences_D > 0).sum()))
    if aggregate == "token":
        weight_B = has_B / learned_B.sum().clamp(min=1)
    elif aggregate == "sequence":
        weight_B = 1 / (count * sequences_D[dialogue_B].clamp(min=1) * learned_B.clamp(min=1))
    else:
        weight_B = has_B / (count * constant)
    return (weight_B[:, None] * action_mask_BT).float()


def _compute_turn_weights(action_mask_BT: Tensor, turn_BT: Tensor, dialogue_B: Tensor) -> Tensor:
    loss_weight_BT = torch.zeros(action_mask_BT.shape, dtype=torch.double)
    if action_mask_BT.any():
        place_S = (dialogue_B[:, None] * (turn_BT.max() + 1) + turn_BT)[action_mask_BT]
        _, place_S, tokens = place_S.unique(return_inverse=True, return_counts=True)
        loss_weight_BT[action_mask_BT] = 1 / (len(tokens) * tokens[place_S].double())
    return loss_weight_BT.float()
