"""From rollouts to what an update learns from: log-probabilities and values under the weights of
now, baselines, advantages. PPO and GRPO differ here.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlver_gym.policy.learning import algorithms
from rlver_gym.policy.learning.batch import Batch, split_into_micro_batches
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
        self._of = {who: (int(count), float(mean)) for who, (count, mean) in (saved or {}).items()}

    @property
    def state(self) -> dict[str, tuple[int, float]]:
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
    cost_DN: NDArray[np.float64] | float = 0.0,
    one_step: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> Batch:
    """The batch with everything that an update needs, from the policy, the critic and the reference
    as they are now.

    `advantage.kind == "gae"` takes values from `critic`; `persona_baseline` adds to those what is
    expected of whom. `tokens`: the most in one pass, padding included. `format_penalty`: the share
    of its gains that a dialogue with a broken reply loses. `cost_DN`: taken from the rewards before
    they are scaled. `one_step`: a single step of the optimizer will learn from this, whose own pass
    gives the log-probabilities: the actor is not asked here. TrainingError when the critic is
    needed and missing.
    """
    reward_DN = reward_scale * (
        algorithms.penalise_format_errors(batch.reward_DN, batch.format_error_DN, format_penalty)
        - cost_DN
    )
    batch = replace(batch, reward_DN=reward_DN, margin_DN=reward_scale * batch.margin_DN)
    signal_D = algorithms.find_groups_with_signal(reward_DN.sum(axis=1), batch.group_D)
    metrics = compute_reward_metrics(batch, signal_D)
    if advantage.drop_flat:
        batch = batch.only(np.flatnonzero(signal_D))
    if not batch.dialogues:
        nothing_BT = batch.sampled_BT
        return replace(batch, old_BT=nothing_BT, advantage_BT=nothing_BT, metrics=metrics)
    device = next(actor.parameters()).device
    ask = partial(score_tokens_in_micro_batches, batch, device, temperature, tokens, on_progress)
    old_BT = None if one_step else ask(actor.eval()).logprob_BT
    has_values = critic is not None and advantage.kind == "gae"
    value_BT = ask(critic.eval()).value_BT if critic is not None and has_values else None
    reference_BT = None if reference is None else ask(reference).logprob_BT
    expected_S = (
        0.0 if persona_baseline is None else persona_baseline.of(batch.who_D)[batch.dialogue_S]
    )
    value_S = None if value_BT is None else batch.at_actions(value_BT) + expected_S
    estimate = compute_advantages(batch, advantage, value_S)
    return replace(
        batch,
        old_BT=old_BT,
        advantage_BT=batch.scatter(estimate.advantage_S),
        value_BT=value_BT,
        return_BT=None if value_S is None else batch.scatter(estimate.return_S - expected_S),
        reference_BT=reference_BT,
        metrics=metrics
        | ({} if value_S is None else compute_critic_metrics(value_S, estimate.return_S)),
    )


@torch.no_grad()
def score_tokens_in_micro_batches(
    batch: Batch,
    device: torch.device,
    temperature: float,
    tokens: int,
    on_progress: OnProgress,
    scorer: Scorer,
) -> TokenScores:
    """What the scorer thinks of every sampled token, on the CPU and on every process.

    `tokens`: the most in one pass, padding included.
    """
    columns: dict[str, Tensor] = {}
    todo = list(split_into_micro_batches(batch.tree_length_D, tokens, rank(), ranks()))
    for done, micro_batch in enumerate(todo):
        on_progress("micro-batches scored", done, len(todo))
        part = batch.only(micro_batch.dialogue_R)
        rows, width = batch.rows_of(micro_batch.dialogue_R), part.id_BT.shape[1]
        scored = scorer(
            part.id_BT.to(device),
            part.action_mask_BT.to(device),
            temperature,
            dialogue_B=part.dialogue_B,
        )
        for name, value_RT in scored._asdict().items():
            if value_RT is not None:
                value_BT = columns.setdefault(name, torch.zeros(batch.action_mask_BT.shape))
                value_BT[rows, :width] += (not micro_batch.is_dummy) * value_RT.float().cpu()
    return TokenScores(**{name: all_reduce_sum(value_BT) for name, value_BT in columns.items()})


def compute_reward_metrics(batch: Batch, signal_D: NDArray[np.bool_]) -> dict[str, float]:
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


def compute_critic_metrics(value_S: Floats, return_S: Floats) -> dict[str, float]:
    return {
        "value_mean": _mean(value_S),
        "target_mean": _mean(return_S),
        "explained_variance": algorithms.explained_variance(value_S, return_S),
    }


def _mean(value_S: Floats) -> float:
    return float(value_S.mean()) if len(value_S) else float("nan")
