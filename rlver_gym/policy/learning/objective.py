"""An algorithm's choices executed on a batch: from rewards to advantages, and from
log-probabilities to a loss.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlver_gym.io.errors import TrainingError
from rlver_gym.policy.learning import algorithms
from rlver_gym.policy.learning.algorithms import Estimate
from rlver_gym.policy.learning.batch import Batch
from rlver_gym.policy.learning.registry import AdvantageConfig, Objective
from rlver_gym.policy.models.actor import TokenScores

Floats = NDArray[np.float64]


def compute_advantages(
    batch: Batch,
    advantage: AdvantageConfig,
    value_S: Floats | None = None,
    cost_S: Floats | float = 0.0,
) -> Estimate:
    """The advantage of every sampled token, and what its value should have been (0 without critic).

    `cost_S` is taken from each token's reward (gae) or advantage. TrainingError when the critic's
    values are needed and missing.
    """
    dialogue_S, turn_S = batch.dialogue_S, batch.turn_S
    if advantage.kind == "gae":
        if value_S is None:
            raise TrainingError(
                "to compute advantages by gae needs values. Give it a critic, or an actor with a"
                " value head."
            )
        place = batch.reward_DN, dialogue_S, turn_S, advantage.rewards
        how = advantage.gamma, advantage.gae_lambda, advantage.discount_per
        reward_S = algorithms.place_rewards(*place) - cost_S
        estimate = algorithms.gae(reward_S, value_S, dialogue_S, turn_S, *how)
        if advantage.whiten:
            estimate = estimate._replace(advantage_S=algorithms.whiten(estimate.advantage_S))
        return estimate
    advantage_DN = (
        winners(batch, advantage) if advantage.kind == "winner" else _by_group(batch, advantage)
    )
    return Estimate(advantage_DN[dialogue_S, turn_S] - cost_S, np.zeros(len(turn_S)))


def winners(batch: Batch, advantage: AdvantageConfig) -> Floats:
    """advantage_DN: 1 for a reply whose reward lies above the mean of its candidates, by
    `advantage.min_std` at least; 0 where they were all alike.
    """
    return (batch.margin_DN >= max(advantage.min_std, algorithms.SAME)).astype(float)


def _by_group(batch: Batch, advantage: AdvantageConfig) -> Floats:
    rewards = batch.reward_DN, batch.turns_D, batch.group_D
    how = {"baseline": advantage.baseline, "scale": advantage.scale, "min_std": advantage.min_std}
    if advantage.kind == "episode":
        return algorithms.by_episode(*rewards, **how)
    if advantage.kind == "turn":
        return algorithms.by_turn(*rewards, gamma=advantage.gamma, **how)
    return algorithms.by_own_reward(*rewards, **how)


class LossInputs(NamedTuple):
    """The rows that pass through the model together, on its device."""

    id_BT: Tensor
    action_mask_BT: Tensor
    loss_weight_BT: Tensor
    """How much a token counts in the losses; over a minibatch they add up to 1 (not so for
    `constant`).
    """
    metric_weight_BT: Tensor
    """How much a token counts in the metrics: 1 / sampled tokens of the minibatch."""
    sampled_BT: Tensor
    old_BT: Tensor | None
    """None for the policy as it is now."""
    advantage_BT: Tensor
    value_BT: Tensor | None
    return_BT: Tensor | None
    reference_BT: Tensor | None


class Loss(NamedTuple):
    """A part of a loss, and parts of the means that tell about it."""

    loss: Tensor
    parts: dict[str, Tensor]


def compute_loss(scored: TokenScores, micro: LossInputs, objective: Objective) -> Loss:
    """The losses over these rows: the policy's for what gives log-probabilities, the critic's for
    what gives values.
    """
    loss, parts = torch.zeros((), device=micro.id_BT.device), {}
    if scored.logprob_BT is not None and scored.entropy_BT is not None:
        policy = _policy_terms(scored.logprob_BT, scored.entropy_BT, micro, objective)
        loss, parts = loss + policy.loss, parts | policy.parts
    if scored.value_BT is not None and micro.value_BT is not None and micro.return_BT is not None:
        loss_BT = algorithms.value_loss(
            scored.value_BT, micro.value_BT, micro.return_BT, objective.value_clip
        )
        parts["value_loss"] = (micro.loss_weight_BT * loss_BT).sum()
        loss = loss + parts["value_loss"]
    return Loss(loss, parts)


def _policy_terms(
    logprob_BT: Tensor, entropy_BT: Tensor, micro: LossInputs, objective: Objective
) -> Loss:
    """Surrogate, entropy bonus, divergence from the reference."""
    old_BT = logprob_BT.detach() if micro.old_BT is None else micro.old_BT
    surrogate_BT, ratio_BT = _surrogate(logprob_BT, old_BT, micro, objective)
    outside_BT = algorithms.is_outside(ratio_BT, objective.clip_low, objective.clip_high)
    parts = {
        "policy_loss": (micro.loss_weight_BT * surrogate_BT).sum(),
        "entropy": (micro.metric_weight_BT * entropy_BT).sum(),
        "kl": (micro.metric_weight_BT * algorithms.divergence(old_BT, logprob_BT)).sum(),
        "sampler_kl": (
            (micro.metric_weight_BT * algorithms.divergence(micro.sampled_BT, old_BT)).sum()
        ),
        "clip_fraction": (micro.metric_weight_BT * outside_BT).sum(),
    }
    loss = parts["policy_loss"] - objective.entropy * (micro.loss_weight_BT * entropy_BT).sum()
    if micro.reference_BT is not None:
        apart_BT = algorithms.divergence(logprob_BT, micro.reference_BT, objective.estimator)
        parts["reference_kl"] = (micro.metric_weight_BT * apart_BT).sum()
        # Unbiased only for tokens of the policy as it is: others weigh by their ratio
        # (arXiv:2512.02556, eq. 7).
        if objective.estimator == "k3":
            apart_BT = algorithms.token_ratio(logprob_BT, old_BT) * apart_BT
        loss = loss + objective.kl * (micro.loss_weight_BT * apart_BT).sum()
    return Loss(loss, parts)


def _surrogate(
    logprob_BT: Tensor, old_BT: Tensor, micro: LossInputs, objective: Objective
) -> tuple[Tensor, Tensor]:
    """The surrogate's loss and the ratio in it, for each token."""
    by_sequence = objective.ratio == "sequence"
    ratio_BT = (
        algorithms.sequence_ratio(logprob_BT, old_BT, micro.action_mask_BT)
        if by_sequence
        else algorithms.token_ratio(logprob_BT, old_BT)
    )
    bounds = objective.clip_low, objective.clip_high
    if objective.surrogate == "cispo":
        loss_BT = algorithms.cispo(logprob_BT, ratio_BT, micro.advantage_BT, *bounds)
    elif objective.surrogate == "likelihood":
        loss_BT = -micro.advantage_BT * logprob_BT
    else:
        loss_BT = algorithms.clipped_surrogate(ratio_BT, micro.advantage_BT, *bounds)
    if objective.tis_cap is not None:
        loss_BT = loss_BT * algorithms.truncated_importance(
            old_BT, micro.sampled_BT, objective.tis_cap
        )
    return loss_BT, ratio_BT
