"""What an update minimises: the choices there are, and their execution on one micro-batch."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from rlver_gym.errors import TrainingError
from rlver_gym.policy import loss as losses
from rlver_gym.policy.forward import Scored
from rlver_gym.policy.weights import Aggregate


@dataclass(frozen=True, slots=True)
class Objective:
    """What an update minimises."""

    surrogate: Literal["clip", "cispo"] = "clip"
    """Of the policy: PPO's or CISPO's."""
    ratio: Literal["token", "sequence"] = "token"
    """Whose probability ratio."""
    low: float = 0.2
    """The ratio counts down to 1 - low."""
    high: float = 0.2
    """The ratio counts up to 1 + high."""
    aggregate: Aggregate = "turn"
    """How tokens are averaged."""
    constant: float = 512.0
    """The length that `aggregate="constant"` divides by, in tokens."""
    tis_cap: float | None = None
    """Truncated importance sampling, for a sampler that is another program than the learner: the most that a token may count for because the sampler thought it less likely; None for no correction."""
    tis_level: Literal["token", "sequence"] = "token"
    """sequence: whole sequences whose mean ratio lies outside of [1/cap, cap] count for nothing, and no token is weighed."""
    entropy: float = 0.0
    """Weight of the entropy bonus."""
    kl: float = 0.0
    """Weight of the divergence from the reference."""
    estimator: Literal["k2", "k3"] = "k3"
    """Of that divergence. k1 belongs into the reward: see `judge`."""
    value_clip: float | None = 0.5
    """How far a value may move from its old one; None for any distance."""

    def __post_init__(self) -> None:
        """TrainingError for an estimator that cannot be minimised."""
        if self.estimator not in ("k2", "k3"):
            raise TrainingError(
                f"{self.estimator} has no gradient to speak of in a loss. Take k2 or k3, or put k1 into the reward."
            )


class Micro(NamedTuple):
    """The rows that pass through the model together, on its device."""

    id_BT: Tensor
    said_BT: Tensor
    weight_BT: Tensor
    """How much a token counts in the losses; over a minibatch they add up to 1 (not so for `constant`)."""
    said_weight_BT: Tensor
    """The same where nothing is masked: the critic learns from cut replies too."""
    mean_BT: Tensor
    """How much a token counts in the metrics: 1 / said tokens of the minibatch."""
    sampled_BT: Tensor
    old_BT: Tensor | None
    """None for the policy as it is now."""
    advantage_BT: Tensor
    value_BT: Tensor | None
    return_BT: Tensor | None
    reference_BT: Tensor | None


class Terms(NamedTuple):
    """A part of a loss, and parts of the means that tell about it."""

    loss: Tensor
    parts: dict[str, Tensor]


def terms(scored: Scored, micro: Micro, objective: Objective) -> Terms:
    """The losses over these rows: the policy's for what gives log-probabilities, the critic's for what gives values."""
    loss, parts = torch.zeros((), device=micro.id_BT.device), {}
    if scored.logprob_BT is not None and scored.entropy_BT is not None:
        policy = _policy_terms(scored.logprob_BT, scored.entropy_BT, micro, objective)
        loss, parts = loss + policy.loss, parts | policy.parts
    if scored.value_BT is not None and micro.value_BT is not None and micro.return_BT is not None:
        loss_BT = losses.value_loss(scored.value_BT, micro.value_BT, micro.return_BT, objective.value_clip)
        parts["value_loss"] = (micro.said_weight_BT * loss_BT).sum()
        loss = loss + parts["value_loss"]
    return Terms(loss, parts)


def _policy_terms(logprob_BT: Tensor, entropy_BT: Tensor, micro: Micro, objective: Objective) -> Terms:
    """Surrogate, entropy bonus, divergence from the reference."""
    old_BT = logprob_BT.detach() if micro.old_BT is None else micro.old_BT
    surrogate_BT, ratio_BT = _surrogate(logprob_BT, old_BT, micro, objective)
    outside_BT = losses.outside(ratio_BT, objective.low, objective.high)
    parts = {
        "policy_loss": (micro.weight_BT * surrogate_BT).sum(),
        "entropy": (micro.mean_BT * entropy_BT).sum(),
        "kl": (micro.mean_BT * losses.divergence(old_BT, logprob_BT)).sum(),
        "sampler_kl": (micro.mean_BT * losses.divergence(micro.sampled_BT, old_BT)).sum(),
        "clip_fraction": (micro.mean_BT * outside_BT).sum(),
    }
    loss = parts["policy_loss"] - objective.entropy * (micro.weight_BT * entropy_BT).sum()
    if micro.reference_BT is not None:
        apart_BT = losses.divergence(logprob_BT, micro.reference_BT, objective.estimator)
        parts["reference_kl"] = (micro.mean_BT * apart_BT).sum()
        if (
            objective.estimator == "k3"
        ):  # unbiased only for tokens of the policy as it is: others weigh by their ratio (arXiv:2512.02556, eq. 7)
            apart_BT = losses.token_ratio(logprob_BT, old_BT) * apart_BT
        loss = loss + objective.kl * (micro.weight_BT * apart_BT).sum()
    return Terms(loss, parts)


def _surrogate(logprob_BT: Tensor, old_BT: Tensor, micro: Micro, objective: Objective) -> tuple[Tensor, Tensor]:
    """The surrogate's loss and the ratio in it, for each token."""
    by_sequence = objective.ratio == "sequence"
    ratio_BT = (
        losses.sequence_ratio(logprob_BT, old_BT, micro.said_BT)
        if by_sequence
        else losses.token_ratio(logprob_BT, old_BT)
    )
    bounds = objective.low, objective.high
    if objective.surrogate == "cispo":
        loss_BT = losses.cispo(logprob_BT, ratio_BT, micro.advantage_BT, *bounds)
    else:
        loss_BT = losses.clipped(ratio_BT, micro.advantage_BT, *bounds)
    if objective.tis_cap is not None and objective.tis_level == "token":
        loss_BT = loss_BT * losses.truncated_importance(old_BT, micro.sampled_BT, objective.tis_cap)
    elif objective.tis_cap is not None:
        loss_BT = loss_BT * losses.sequence_mask(old_BT, micro.sampled_BT, micro.said_BT, objective.tis_cap)
    return loss_BT, ratio_BT
