"""From rollouts to what an update learns from: log-probabilities and values under the weights of
now, baselines, advantages. PPO and GRPO differ here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlver_gym.io.errors import TrainingError
from rlver_gym.policy.learning import algorithms
from rlver_gym.policy.learning.batch import Batch, micro_batches
from rlver_gym.policy.learning.objective import compute_advantages
from rlver_gym.policy.learning.registry import AdvantageConfig
from rlver_gym.policy.models.actor import Scorer, TokenScores
from rlver_gym.policy.models.distributed import all_reduce_sum, rank, ranks
from rlver_gym.policy.models.trajectory import OnProgress, ignore_progress

Floats = NDArray[np.float64]


_MEMORY = 10
"""Dialogues that a mean goes back over, about: the policy that the older ones were with is gone."""
_DOUBT = 1
"""Dialogues that went as all others do, from which everybody's mean begins: a single one proves
little.
"""


class PersonaBaseline:
    """For each persona a running mean of how far returns lie above what else the critic guesses,
    compared with everybody's.

    A baseline may know whatever does not depend on what is about to be said: the gradient loses the
    part of its variance that is "with whom", and gains no bias (with GAE's lambda at 1; below it
    GAE's own stays). Asymmetric critics know more than their policy (arXiv:1710.06542); a mean for
    each task is PopArt's (arXiv:1809.04474), here without its scale.
    """

    def __init__(self, saved: Mapping[str, tuple[int, float]] | None = None) -> None:
        """`saved`: what `state` gave."""
        self._of = {who: (int(count), float(mean)) for who, (count, mean) in (saved or {}).items()}

    @property
    def state(self) -> dict[str, tuple[int, float]]:
        """Dialogues heard of and mean of each persona, to be saved."""
        return dict(self._of)

    def of(self, who_D: NDArray[np.str_]) -> Floats:
        """What each of these dialogues can expect beyond the mean of all; 0 with somebody who was
        never met.
        """
        return np.array([self._of.get(str(who), (0, 0.0))[1] for who in who_D], dtype=np.float64)

    def learn(self, who_D: NDArray[np.str_], residual_D: Floats) -> None:
        """`residual_D`: by how much each dialogue's return was higher than the critic expected,
        `of` included. What all share is no news of anybody.
        """
        news_D = residual_D - residual_D.mean()
        for who in map(str, np.unique(who_D)):
            mine = news_D[who_D == who]
            count, mean = self._of.get(who, (0, 0.0))
            trust = len(mine) / (min(count, _MEMORY) + _DOUBT + len(mine))
            self._of[who] = count + len(mine), mean + trust * float(mine.mean())


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A batch with everything that an update needs to know of it.

    Tensors are on the CPU and 0 where nothing was said.
    """

    batch: Batch
    """Its rewards are those that are learned from: scaled, penalised."""
    old_BT: Tensor | None
    """Log-probabilities under the policy before the update, in nats; None when they are those of
    the one step that learns from it.
    """
    advantage_BT: Tensor
    """How much better than expected a token was."""
    value_BT: Tensor | None = None
    """The critic's guesses before the update, less what was expected of whom; None without critic.
    """
    return_BT: Tensor | None = None
    """What they should have been; None without critic."""
    reference_BT: Tensor | None = None
    """Log-probabilities under the reference; None without one."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What is worth knowing of all of it, whichever part `only` chose."""

    @property
    def residual_D(self) -> NDArray[np.float64]:
        """By how much each dialogue's returns were higher than the critic's guesses, the mean over
        its sampled tokens. TrainingError without critic.
        """
        if self.return_BT is None or self.value_BT is None:
            raise TrainingError("without a critic nothing was expected. Compute advantages by gae.")
        gap_S, dialogue_S = (
            self.batch.at_actions(self.return_BT - self.value_BT),
            self.batch.dialogue_S,
        )
        return np.bincount(dialogue_S, gap_S, self.batch.dialogues) / np.bincount(
            dialogue_S, minlength=self.batch.dialogues
        )

    def only(self, keep_D: NDArray[np.bool_]) -> Self:
        """These dialogues alone."""
        batch, rows = self.batch.only(keep_D), torch.from_numpy(self.batch.rows(keep_D))

        def crop(value_BT: Tensor | None) -> Tensor | None:
            return None if value_BT is None else value_BT[rows, : batch.id_BT.shape[1]]

        tensors = {
            name: crop(getattr(self, name)) for name in self.__slots__ if name.endswith("_BT")
        }
        return replace(self, batch=batch, **tensors)


def prepare_batch(
    batch: Batch,
    actor: nn.Module,
    critic: nn.Module | None = None,
    reference: Scorer | None = None,
    persona_baseline: PersonaBaseline | None = None,
    *,
    advantage: AdvantageConfig = AdvantageConfig(),
    temperature: float = 1.0,
    tokens: int = 8192,
    reward_scale: float = 1.0,
    format_penalty: float = 1.0,
    kl_in_reward: float = 0.0,
    cost_DN: NDArray[np.float64] | float = 0.0,
    one_step: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> PreparedBatch:
    """Everything that an update needs, from the policy, the critic and the reference as they are
    now.

    `advantage.kind == "gae"` takes values from `critic`, or else from the actor's value head;
    `persona_baseline` adds to those what is expected of whom. `tokens`: the most in one pass,
    padding included. `format_penalty`: the share of its gains that a dialogue with a broken reply
    loses. `kl_in_reward`: weight of the divergence from the reference (k1), taken from each token's
    reward (gae) or advantage. `cost_DN`: taken from the rewards before they are scaled. `one_step`:
    a single step of the optimizer will learn from this, whose own pass gives the log-probabilities:
    the actor is not asked here, unless its value head or `kl_in_reward` needs it. TrainingError
    when critic or reference is needed and missing.
    """
    device = next(actor.parameters()).device
    reward_DN = reward_scale * (
        algorithms.withhold_gains(batch.reward_DN, batch.format_error_DN, format_penalty) - cost_DN
    )
    batch = replace(batch, reward_DN=reward_DN, margin_DN=reward_scale * batch.margin_DN)
    signal_D = algorithms.has_signal(reward_DN.sum(axis=1), batch.group_D)
    metrics = reward_metrics(batch, signal_D)
    if advantage.drop_flat:
        batch = batch.only(signal_D)
    if kl_in_reward and reference is None:
        raise TrainingError(
            "a divergence in the reward needs a reference. Give one, or a weight of 0."
        )
    if not batch.dialogues:
        return PreparedBatch(
            batch, old_BT=batch.sampled_BT, advantage_BT=batch.sampled_BT, metrics=metrics
        )

    is_asked = not one_step or bool(kl_in_reward) or (advantage.kind == "gae" and critic is None)
    how = (device, temperature, tokens, on_progress)
    own = score(batch, actor.eval(), *how) if is_asked else None
    guessed = own if critic is None else score(batch, critic.eval(), *how)
    referred = None if reference is None else score(batch, reference, *how)
    expected_S = (
        0.0 if persona_baseline is None else persona_baseline.of(batch.who_D)[batch.dialogue_S]
    )
    return _compute(batch, own, guessed, referred, expected_S, advantage, kl_in_reward, metrics)


def _compute(
    batch: Batch,
    own: TokenScores | None,
    guessed: TokenScores | None,
    referred: TokenScores | None,
    expected_S: NDArray[np.float64] | float,
    advantage: AdvantageConfig,
    kl_in_reward: float,
    metrics: dict[str, float],
) -> PreparedBatch:
    old_BT = None if own is None else _logprobs(own)
    reference_BT = None if referred is None else _logprobs(referred)
    value_BT = guessed.value_BT if guessed is not None and advantage.kind == "gae" else None
    value_S = None if value_BT is None else batch.at_actions(value_BT) + expected_S
    cost_S = 0.0
    if old_BT is not None and reference_BT is not None:
        cost_S = kl_in_reward * batch.at_actions(old_BT - reference_BT)
    estimate = compute_advantages(batch, advantage, value_S, cost_S)
    return PreparedBatch(
        batch=batch,
        old_BT=old_BT,
        advantage_BT=batch.scatter(estimate.advantage_S),
        value_BT=value_BT,
        return_BT=None if value_S is None else batch.scatter(estimate.return_S - expected_S),
        reference_BT=reference_BT,
        metrics=metrics | ({} if value_S is None else critic_metrics(value_S, estimate.return_S)),
    )


def _logprobs(scored: TokenScores) -> Tensor:
    if scored.logprob_BT is None:
        raise TrainingError(
            "a policy or reference that gives no log-probabilities cannot be learned from. Is it a"
            " critic?"
        )
    return scored.logprob_BT


@torch.no_grad()
def score(
    batch: Batch,
    scorer: Scorer,
    device: torch.device,
    temperature: float = 1.0,
    tokens: int = 8192,
    on_progress: OnProgress = ignore_progress,
) -> TokenScores:
    """What the scorer thinks of every sampled token, on the CPU and on every process.

    `tokens`: the most in one pass, padding included.
    """
    columns: dict[str, Tensor] = {}
    todo = list(micro_batches(batch.tree_length_D, tokens, rank(), ranks()))
    for done, micro_batch in enumerate(todo):
        on_progress("micro-batches scored", done, len(todo))
        row_R = batch.rows_of(micro_batch)
        rows, width = torch.from_numpy(row_R), int(batch.length_B[row_R].max())
        scored = scorer(
            batch.id_BT[rows, :width].to(device),
            batch.action_mask_BT[rows, :width].to(device),
            temperature,
            dialogue_B=batch.dialogue_B[row_R],
        )
        for name, value_RT in scored._asdict().items():
            if value_RT is not None:
                value_BT = columns.setdefault(name, torch.zeros(batch.action_mask_BT.shape))
                value_BT[rows, :width] += (not micro_batch.is_dummy) * value_RT.float().cpu()
    return TokenScores(
        *(
            all_reduce_sum(columns[name]) if name in columns else None
            for name in TokenScores._fields
        )
    )


def reward_metrics(batch: Batch, signal_D: NDArray[np.bool_]) -> dict[str, float]:
    """Returns as they are learned from, scaled and penalised, and how many dialogues tell anything.

    NaN where there is no dialogue.
    """
    return_D = batch.reward_DN.sum(axis=1) if batch.dialogues else np.full(1, np.nan)
    return {
        "return_mean": float(return_D.mean()),
        "return_std": float(return_D.std()),
        "return_min": float(return_D.min()),
        "return_max": float(return_D.max()),
        "reward_mean": float(batch.reward_DN.sum() / max(batch.turns_D.sum(), 1)),
        "flat_groups": 1 - float(signal_D.mean()) if len(signal_D) else float("nan"),
        "num_skipped": float(batch.num_skipped),
    }


def critic_metrics(value_S: Floats, return_S: Floats) -> dict[str, float]:
    """How well the critic foresaw the returns."""
    return {
        "value_mean": _mean(value_S),
        "target_mean": _mean(return_S),
        "explained_variance": algorithms.explained_variance(value_S, return_S),
    }


def _mean(value_S: Floats) -> float:
    return float(value_S.mean()) if len(value_S) else float("nan")
