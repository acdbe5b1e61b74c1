"""How good was what was said? The fourth verb: from a batch to log-probabilities, values and advantages. PPO and GRPO differ here."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlver_gym.errors import TrainingError
from rlver_gym.policy import groups, statistics
from rlver_gym.policy.advantage import penalised
from rlver_gym.policy.batch import Batch
from rlver_gym.policy.credit import Credit, credited
from rlver_gym.policy.expected import Expected
from rlver_gym.policy.forward import Scored, Scorer
from rlver_gym.policy.score import score


@dataclass(frozen=True, slots=True)
class Judged:
    """A batch with everything that an update needs to know of it. Tensors are on the CPU and 0 where nothing was said."""

    batch: Batch
    """Its rewards are those that are learned from: scaled, penalised."""
    old_BT: Tensor | None
    """Log-probabilities under the policy before the update, in nats; None when they are those of the one step that learns from it."""
    advantage_BT: Tensor
    """How much better than expected a token was."""
    value_BT: Tensor | None = None
    """The critic's guesses before the update, less what was expected of whom; None without critic."""
    return_BT: Tensor | None = None
    """What they should have been; None without critic."""
    reference_BT: Tensor | None = None
    """Log-probabilities under the reference; None without one."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What is worth knowing of all of it, whichever part `only` chose."""

    @property
    def surprise_D(self) -> NDArray[np.float64]:
        """By how much each dialogue's returns were higher than the critic's guesses, the mean over its said tokens. TrainingError without critic."""
        if self.return_BT is None or self.value_BT is None:
            raise TrainingError("without a critic nothing was expected. Give credit by gae.")
        gap_S, dialogue_S = self.batch.said(self.return_BT - self.value_BT), self.batch.dialogue_S
        return np.bincount(dialogue_S, gap_S, self.batch.dialogues) / np.bincount(
            dialogue_S, minlength=self.batch.dialogues
        )

    def only(self, keep_D: NDArray[np.bool_]) -> Self:
        """These dialogues alone."""
        batch, rows = self.batch.only(keep_D), torch.from_numpy(self.batch.rows(keep_D))

        def kept(value_BT: Tensor | None) -> Tensor | None:
            return None if value_BT is None else value_BT[rows, : batch.id_BT.shape[1]]

        tensors = {name: kept(getattr(self, name)) for name in self.__slots__ if name.endswith("_BT")}
        return replace(self, batch=batch, **tensors)


def judge(
    batch: Batch,
    actor: nn.Module,
    critic: nn.Module | None = None,
    reference: Scorer | None = None,
    expected: Expected | None = None,
    *,
    credit: Credit = Credit(),  # noqa: B008
    temperature: float = 1.0,
    tokens: int = 8192,
    reward_scale: float = 1.0,
    format_penalty: float = 1.0,
    kl_in_reward: float = 0.0,
    cost_DN: NDArray[np.float64] | float = 0.0,
    one_step: bool = False,
) -> Judged:
    """Everything that an update needs, from the policy, the critic and the reference as they are now.

    `credit.kind == "gae"` takes values from `critic`, or else from the actor's value head; `expected` adds to those what is expected of whom.
    `tokens`: the most in one pass, padding included. `format_penalty`: the share of its gains that a dialogue with a broken reply loses.
    `kl_in_reward`: weight of the divergence from the reference (k1), taken from each token's reward (gae) or advantage. `cost_DN`: taken from the
    rewards before they are scaled. `one_step`: a single step of the optimizer will learn from this, whose own pass gives the log-probabilities: the
    actor is not asked here, unless its value head or `kl_in_reward` needs it. TrainingError when critic or reference is needed and missing.
    """
    device = next(actor.parameters()).device
    reward_DN = reward_scale * (penalised(batch.reward_DN, batch.broken_DN, format_penalty) - cost_DN)
    batch = replace(batch, reward_DN=reward_DN)
    signal_D = groups.has_signal(reward_DN.sum(axis=1), batch.group_D)
    metrics = statistics.of_rewards(batch, signal_D)
    if credit.drop_flat:
        batch = batch.only(signal_D)
    if kl_in_reward and reference is None:
        raise TrainingError("a divergence in the reward needs a reference. Give one, or a weight of 0.")
    if not batch.dialogues:
        return Judged(batch, old_BT=batch.sampled_BT, advantage_BT=batch.sampled_BT, metrics=metrics)

    is_asked = not one_step or bool(kl_in_reward) or (credit.kind == "gae" and critic is None)
    own = score(batch, actor.eval(), device, temperature, tokens) if is_asked else None
    guessed = own if critic is None else score(batch, critic.eval(), device, temperature, tokens)
    referred = None if reference is None else score(batch, reference, device, temperature, tokens)
    expected_S = 0.0 if expected is None else expected.of(batch.who_D)[batch.dialogue_S]
    return _concluded(batch, own, guessed, referred, expected_S, credit, kl_in_reward, metrics)


def _concluded(
    batch: Batch,
    own: Scored | None,
    guessed: Scored | None,
    referred: Scored | None,
    expected_S: NDArray[np.float64] | float,
    credit: Credit,
    kl_in_reward: float,
    metrics: dict[str, float],
) -> Judged:
    old_BT = None if own is None else _logprobs(own)
    reference_BT = None if referred is None else _logprobs(referred)
    value_BT = guessed.value_BT if guessed is not None and credit.kind == "gae" else None
    value_S = None if value_BT is None else batch.said(value_BT) + expected_S
    cost_S = 0.0
    if old_BT is not None and reference_BT is not None:
        cost_S = kl_in_reward * batch.said(old_BT - reference_BT)
    estimate = credited(batch, credit, value_S, cost_S)
    return Judged(
        batch=batch,
        old_BT=old_BT,
        advantage_BT=batch.spread(estimate.advantage_S),
        value_BT=value_BT,
        return_BT=None if value_S is None else batch.spread(estimate.return_S - expected_S),
        reference_BT=reference_BT,
        metrics=metrics | ({} if value_S is None else statistics.of_critic(value_S, estimate.return_S)),
    )


def _logprobs(scored: Scored) -> Tensor:
    if scored.logprob_BT is None:
        raise TrainingError(
            "a policy or reference that gives no log-probabilities cannot be learned from. Is it a critic?"
        )
    return scored.logprob_BT
