"""An algorithm's choices executed on a batch: from rewards to advantages, and from
log-probabilities to a loss.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlver_gym.policy.learning import algorithms
from rlver_gym.policy.learning.algorithms import AdvantageAndReturn
from rlver_gym.policy.learning.batch import Batch
from rlver_gym.policy.learning.registry import AdvantageConfig, Objective
from rlver_gym.policy.models.actor import TokenScores
from rlver_gym.util.errors import TrainingError

Floats = NDArray[np.float64]


def compute_advantages(
    batch: Batch, advantage: AdvantageConfig, value_S: Floats | None = None
) -> AdvantageAndReturn:
    """The advantage of every sampled token, and what its value should have been (0 without critic).

    TrainingError when the critic's values are needed and missing.
    """
    dialogue_S, turn_S = batch.dialogue_S, batch.turn_S
    if advantage.kind == "gae":
        if value_S is None:
            raise TrainingError("to compute advantages by gae needs values. Give it a critic.")
        reward_S = algorithms.place_rewards(batch.reward_DN, dialogue_S, turn_S)
        how = advantage.gamma, advantage.gae_lambda
        estimate = algorithms.gae(reward_S, value_S, dialogue_S, turn_S, *how)
        if advantage.whiten:
            estimate = estimate._replace(advantage_S=algorithms.whiten(estimate.advantage_S))
        return estimate
    advantage_DN = (
        select_winning_replies(batch, advantage)
        if advantage.kind == "winner"
        else _compute_group_advantages(batch, advantage)
    )
    sign_S = np.where(batch.rival_S, -1.0, 1.0)
    return AdvantageAndReturn(sign_S * advantage_DN[dialogue_S, turn_S], np.zeros(len(turn_S)))


def select_winning_replies(batch: Batch, advantage: AdvantageConfig) -> Floats:
    """advantage_DN: 1 for a reply whose reward lies above the mean of its candidates, by
    `advantage.min_std` at least; 0 where they were all alike.
    """
    return (batch.margin_DN >= max(advantage.min_std, algorithms.SAME)).astype(float)


def _compute_group_advantages(batch: Batch, advantage: AdvantageConfig) -> Floats:
    rewards = batch.reward_DN, batch.turns_D, batch.group_D
    how = {"baseline": advantage.baseline, "scale": advantage.scale, "min_std": advantage.min_std}
    if advantage.kind == "episode":
        return algorithms.compute_group_advantage_by_episode(*rewards, **how)
    gamma = advantage.gamma if advantage.kind == "turn" else 0.0
    return algorithms.compute_group_advantage_by_turn(*rewards, gamma=gamma, **how)


class Loss(NamedTuple):
    """A part of a loss, and parts of the means that tell about it."""

    loss: Tensor
    parts: dict[str, Tensor]


def compute_loss(scored: TokenScores, batch: Batch, objective: Objective) -> Loss:
    """The losses over rows that pass together, of a prepared batch with its weights: the policy's
    for what gives log-probabilities, the critic's for what gives values.
    """
    loss, parts = torch.zeros((), device=batch.id_BT.device), {}
    if scored.logprob_BT is not None and scored.entropy_BT is not None:
        policy = _compute_policy_loss(scored.logprob_BT, scored.entropy_BT, batch, objective)
        loss, parts = loss + policy.loss, parts | policy.parts
    if scored.value_BT is not None and batch.value_BT is not None and batch.return_BT is not None:
        loss_BT = algorithms.compute_value_loss(
            scored.value_BT, batch.value_BT, batch.return_BT, objective.value_clip
        )
        parts["value_loss"] = _weighted_sum(batch.loss_weight_BT, loss_BT)
        loss = loss + parts["value_loss"]
    return Loss(loss, parts)


def _compute_policy_loss(
    logprob_BT: Tensor, entropy_BT: Tensor, batch: Batch, objective: Objective
) -> Loss:
    old_BT = logprob_BT.detach() if batch.old_BT is None else batch.old_BT
    surrogate_BT, ratio_BT = _compute_surrogate(logprob_BT, old_BT, batch, objective)
    means = {
        "entropy": entropy_BT,
        "kl": algorithms.estimate_kl_divergence(old_BT, logprob_BT),
        "sampler_kl": algorithms.estimate_kl_divergence(batch.sampled_BT, old_BT),
        "clip_fraction": algorithms.find_clipped_ratios(
            ratio_BT, objective.clip_low, objective.clip_high
        ),
    }
    loss = _weighted_sum(batch.loss_weight_BT, surrogate_BT)
    parts = {"policy_loss": loss}
    loss = loss - objective.entropy * _weighted_sum(batch.loss_weight_BT, entropy_BT)
    if batch.reference_BT is not None:
        apart_BT = means["reference_kl"] = algorithms.estimate_kl_divergence(
            logprob_BT, batch.reference_BT
        )
        # Unbiased only for tokens of the policy as it is: others weigh by their ratio
        # (arXiv:2512.02556, eq. 7).
        apart_BT = algorithms.compute_token_ratio(logprob_BT, old_BT) * apart_BT
        loss = loss + objective.kl * _weighted_sum(batch.loss_weight_BT, apart_BT)
    parts |= {name: _weighted_sum(batch.metric_weight_BT, one) for name, one in means.items()}
    return Loss(loss, parts)


def _compute_surrogate(
    logprob_BT: Tensor, old_BT: Tensor, batch: Batch, objective: Objective
) -> tuple[Tensor, Tensor]:
    advantage_BT, bounds = batch.advantage_BT, (objective.clip_low, objective.clip_high)
    assert advantage_BT is not None
    if objective.ratio == "sequence":
        ratio_BT = algorithms.compute_sequence_ratio(logprob_BT, old_BT, batch.action_mask_BT)
    else:
        ratio_BT = algorithms.compute_token_ratio(logprob_BT, old_BT)
    if objective.surrogate == "cispo":
        loss_BT = algorithms.compute_cispo_loss(logprob_BT, ratio_BT, advantage_BT, *bounds)
    elif objective.surrogate == "likelihood":
        loss_BT = -advantage_BT * logprob_BT
    elif objective.surrogate == "preference":
        assert batch.reference_BT is not None, "without a reference nothing has risen"
        loss_BT = algorithms.compute_preference_loss(
            logprob_BT - batch.reference_BT, advantage_BT, batch.reply_BT, objective.beta
        )
        loss_BT = loss_BT - objective.anchor * advantage_BT.clamp(min=0) * logprob_BT
        return loss_BT, ratio_BT
    else:
        loss_BT = algorithms.clipped_surrogate(ratio_BT, advantage_BT, *bounds)
    if objective.tis_cap is not None:
        loss_BT = loss_BT * algorithms.compute_truncated_importance_weight(
            old_BT, batch.sampled_BT, objective.tis_cap
        )
    return loss_BT, ratio_BT


def _weighted_sum(weight_BT: Tensor | None, value_BT: Tensor) -> Tensor:
    assert weight_BT is not None, "update weighs every token"
    return (weight_BT * value_BT).sum()
