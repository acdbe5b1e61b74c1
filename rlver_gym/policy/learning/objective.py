"""Which of the equations an algorithm takes, and their execution on a batch: from rewards to
advantages, and from log-probabilities to a loss.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlver_gym.io.errors import TrainingError
from rlver_gym.policy.learning import algorithms
from rlver_gym.policy.learning.algorithms import Aggregate, Estimate
from rlver_gym.policy.learning.batch import Batch
from rlver_gym.policy.models.actor import TokenScores

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AdvantageConfig:
    """How rewards become advantages."""

    kind: Literal["gae", "episode", "turn", "centred", "winner"] = "episode"
    """gae: by a critic; winner: 1 for a reply that beat its candidates, else 0; the others by the
    group: the whole return, the return from this turn on, or this turn's reward.
    """
    gamma: float = 1.0
    """Discount (gae, turn)."""
    gae_lambda: float = 1.0
    """GAE's lambda."""
    discount_per: Literal["turn", "token"] = "turn"
    """Where gamma and lambda count (gae)."""
    rewards: Literal["turn", "episode"] = "turn"
    """At the end of each turn, or their sum at the end of the dialogue (gae)."""
    whiten: bool = True
    """Advantages with mean 0 and standard deviation 1 over all sampled tokens (gae)."""
    baseline: Literal["group", "others"] = "group"
    """A dialogue is compared with the mean of its group, itself included, or of the others."""
    scale: bool = True
    """Divided by the group's standard deviation."""
    floor: float = 0.0
    """The least that divides (`scale`), in units of scaled rewards; for winner the least margin
    over the mean of the candidates.
    """
    drop_flat: bool = False
    """Groups whose returns are all the same take no part in learning."""


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
        reward_S = (
            algorithms.place_rewards(batch.reward_DN, dialogue_S, turn_S, advantage.rewards)
            - cost_S
        )
        estimate = algorithms.gae(
            reward_S,
            value_S,
            dialogue_S,
            turn_S,
            advantage.gamma,
            advantage.gae_lambda,
            advantage.discount_per,
        )
        return (
            Estimate(algorithms.whiten(estimate.advantage_S), estimate.return_S)
            if advantage.whiten
            else estimate
        )
    advantage_DN = (
        winners(batch, advantage) if advantage.kind == "winner" else _by_group(batch, advantage)
    )
    return Estimate(advantage_DN[dialogue_S, turn_S] - cost_S, np.zeros(len(turn_S)))


def winners(batch: Batch, advantage: AdvantageConfig) -> Floats:
    """advantage_DN: 1 for a reply whose reward lies above the mean of its candidates, by
    `advantage.floor` at least; 0 where they were all alike.
    """
    return (batch.margin_DN >= max(advantage.floor, algorithms.SAME)).astype(float)


def _by_group(batch: Batch, advantage: AdvantageConfig) -> Floats:
    rewards = batch.reward_DN, batch.turns_D, batch.group_D
    how = {"baseline": advantage.baseline, "scale": advantage.scale, "floor": advantage.floor}
    if advantage.kind == "episode":
        return algorithms.by_episode(*rewards, **how)
    if advantage.kind == "turn":
        return algorithms.by_turn(*rewards, gamma=advantage.gamma, **how)
    return algorithms.by_own_reward(*rewards, **how)


@dataclass(frozen=True, slots=True)
class Objective:
    """What an update minimises."""

    surrogate: Literal["clip", "cispo", "likelihood"] = "clip"
    """Of the policy: PPO's, CISPO's, or the cross-entropy of what was said, weighed by the
    advantage.
    """
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
    """Truncated importance sampling, for a sampler that is another program than the learner: the
    most that a token may count for because the sampler thought it less likely; None for no
    correction.
    """
    tis_level: Literal["token", "sequence"] = "token"
    """sequence: whole sequences whose mean ratio lies outside of [1/cap, cap] count for nothing,
    and no token is weighed.
    """
    entropy: float = 0.0
    """Weight of the entropy bonus."""
    kl: float = 0.0
    """Weight of the divergence from the reference."""
    estimator: Literal["k2", "k3"] = "k3"
    """Of that divergence. k1 belongs into the reward: see `prepare_batch`."""
    value_clip: float | None = 0.5
    """How far a value may move from its old one; None for any distance."""

    def __post_init__(self) -> None:
        """TrainingError for an estimator that cannot be minimised."""
        if self.estimator not in ("k2", "k3"):
            raise TrainingError(
                f"{self.estimator} has no gradient to speak of in a loss. Take k2 or k3, or put k1"
                " into the reward."
            )


class LossInputs(NamedTuple):
    """The rows that pass through the model together, on its device."""

    id_BT: Tensor
    action_mask_BT: Tensor
    loss_weight_BT: Tensor
    """How much a token counts in the losses; over a minibatch they add up to 1 (not so for
    `constant`).
    """
    value_weight_BT: Tensor
    """The same where nothing is masked: the critic learns from cut replies too."""
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
        parts["value_loss"] = (micro.value_weight_BT * loss_BT).sum()
        loss = loss + parts["value_loss"]
    return Loss(loss, parts)


def _policy_terms(
    logprob_BT: Tensor, entropy_BT: Tensor, micro: LossInputs, objective: Objective
) -> Loss:
    """Surrogate, entropy bonus, divergence from the reference."""
    old_BT = logprob_BT.detach() if micro.old_BT is None else micro.old_BT
    surrogate_BT, ratio_BT = _surrogate(logprob_BT, old_BT, micro, objective)
    outside_BT = algorithms.is_outside(ratio_BT, objective.low, objective.high)
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
    bounds = objective.low, objective.high
    if objective.surrogate == "cispo":
        loss_BT = algorithms.cispo(logprob_BT, ratio_BT, micro.advantage_BT, *bounds)
    elif objective.surrogate == "likelihood":
        loss_BT = -micro.advantage_BT * logprob_BT
    else:
        loss_BT = algorithms.clipped_surrogate(ratio_BT, micro.advantage_BT, *bounds)
    if objective.tis_cap is not None and objective.tis_level == "token":
        loss_BT = loss_BT * algorithms.truncated_importance(
            old_BT, micro.sampled_BT, objective.tis_cap
        )
    elif objective.tis_cap is not None:
        loss_BT = loss_BT * algorithms.sequence_mask(
            old_BT, micro.sampled_BT, micro.action_mask_BT, objective.tis_cap
        )
    return loss_BT, ratio_BT


class Variant(NamedTuple):
    """A published algorithm."""

    advantage: AdvantageConfig
    objective: Objective


VARIANTS = {
    # Schulman et al., arXiv:1707.06347, over tokens; whitened, value clipped, no KL as in RLVER,
    # arXiv:2507.03112
    "ppo": Variant(AdvantageConfig("gae"), Objective(aggregate="token")),
    # Shao et al., arXiv:2402.03300: an output of the paper's is one reply, so the mean is over
    # turns
    "grpo": Variant(AdvantageConfig(), Objective()),
    # Liu et al., arXiv:2503.20783: neither the group's spread nor the length divides
    "dr_grpo": Variant(AdvantageConfig(scale=False), Objective(aggregate="constant")),
    # Yu et al., arXiv:2503.14476: clip-higher, mean over tokens, no groups without signal; its
    # resampling is left out, its overlong shaping and filtering are options
    "dapo": Variant(AdvantageConfig(drop_flat=True), Objective(high=0.28, aggregate="token")),
    # Zheng et al., arXiv:2507.18071: the ratio of the sequence, with its own much smaller bounds
    "gspo": Variant(
        AdvantageConfig(), Objective(ratio="sequence", low=3e-4, high=4e-4, aggregate="sequence")
    ),
    # MiniMax, arXiv:2506.13585: no bound below; it gives no number for the one above, so that one
    # is ours
    "cispo": Variant(
        AdvantageConfig(), Objective(surrogate="cispo", low=1.0, high=4.0, aggregate="token")
    ),
    # Ahmadian et al., arXiv:2402.14740: REINFORCE against the mean of the others; a reply is one
    # action, so its tokens add up
    "rloo": Variant(
        AdvantageConfig(baseline="others", scale=False), Objective(aggregate="constant")
    ),
    # Best of n with fine-tuning on the winners: Dong et al., RAFT, arXiv:2304.06767, and Yuan et
    # al., RFT, arXiv:2308.01825; here turn by turn, from saved states
    "rft": Variant(AdvantageConfig("winner"), Objective(surrogate="likelihood")),
}
