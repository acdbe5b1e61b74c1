"""The optimizer's steps.

However a minibatch is cut up, and on however many processes, its gradient is that of the whole.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from rlver_gym.policy.learning.algorithms import compute_token_weights
from rlver_gym.policy.learning.batch import Batch, split_into_micro_batches
from rlver_gym.policy.learning.objective import compute_loss
from rlver_gym.policy.learning.registry import Objective
from rlver_gym.policy.models.distributed import (
    all_reduce_sum,
    clip_gradients,
    rank,
    ranks,
    sync_gradients,
)
from rlver_gym.policy.models.trajectory import OnProgress, ignore_progress
from rlver_gym.util.errors import TrainingError

Metrics = dict[str, float]


def run_optimizer_steps(
    batch: Batch,
    actor: nn.Module,
    optimizer: Optimizer,
    critic: nn.Module | None = None,
    *,
    rng: np.random.Generator,
    objective: Objective = Objective(),
    epochs: int = 1,
    minibatches: int = 1,
    tokens: int = 8192,
    temperature: float = 1.0,
    grad_clip: float = 1.0,
    target_kl: float | None = None,
    max_sampler_kl: float | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Metrics:
    """Learn from a prepared batch, in `epochs` × `minibatches` steps of the optimizer; returns the
    means over the steps.

    `rng` deals the dialogues to minibatches and must be the same on every process. `tokens`: the
    most in one pass, padding included. `target_kl`: no further step once the policy has moved this
    far from where it was. `max_sampler_kl`: TrainingError before the first step when the sampler's
    log-probabilities lie farther from the learner's. TrainingError for a loss or gradient that is
    not finite: the weights are as before that step.
    """
    if critic is not None and batch.value_BT is None and batch.dialogues:
        raise TrainingError(
            "this batch was prepared without its critic, who now has nothing to learn from. Compute"
            " advantages by gae."
        )
    learners = {"actor": actor.train()} | ({"critic": critic.train()} if critic else {})
    steps: list[Metrics] = []
    stopped = False
    for part in _shuffle_into_minibatches(batch, epochs, minibatches, rng):
        on_progress("steps", len(steps), epochs * minibatches)
        optimizer.zero_grad()
        metrics = _accumulate_gradients(
            part, list(learners.values()), objective, tokens, temperature
        )
        stopped = target_kl is not None and metrics.get("kl", 0.0) > target_kl
        if stopped:
            break
        norms = {
            f"{name}_gradient": clip_gradients(module, grad_clip)
            for name, module in learners.items()
        }
        if not steps:
            _check_sampler_kl(metrics.get("sampler_kl", 0.0), max_sampler_kl)
        steps.append(metrics | norms)
        _check_finite(steps[-1])
        optimizer.step()
    optimizer.zero_grad()
    for module in learners.values():
        module.eval()
    names = steps[0] if steps else ()
    means = {name: sum(step[name] for step in steps) / len(steps) for name in names}
    return means | {"steps": float(len(steps)), "stopped": float(stopped)}


def _shuffle_into_minibatches(
    batch: Batch, epochs: int, minibatches: int, rng: np.random.Generator
) -> Iterator[Batch]:
    for _ in range(epochs):
        for dialogue_R in np.array_split(rng.permutation(batch.dialogues), minibatches):
            if len(dialogue_R):
                yield batch.only(dialogue_R)


def _accumulate_gradients(
    batch: Batch, learners: list[nn.Module], objective: Objective, tokens: int, temperature: float
) -> Metrics:
    device = next(learners[0].parameters()).device
    where = batch.action_mask_BT, batch.turn_BT, torch.from_numpy(batch.dialogue_B)
    batch = replace(
        batch,
        loss_weight_BT=compute_token_weights(*where, objective.aggregate, objective.constant),
        metric_weight_BT=compute_token_weights(*where, "token"),
    )
    todo = list(split_into_micro_batches(batch.tree_length_D, tokens, rank(), ranks()))
    totals: dict[str, Tensor] = {}
    for at, (dialogue_R, is_dummy) in enumerate(todo):
        part = batch.only(dialogue_R).to(device)
        for learner in learners:
            with sync_gradients(learner, last=at == len(todo) - 1):
                scored = learner(
                    part.id_BT,
                    part.action_mask_BT,
                    temperature,
                    objective.entropy > 0,
                    part.dialogue_B,
                )
                loss, parts = compute_loss(scored, part, objective)
                # The engines average over the processes; the weights are made for a sum.
                ((not is_dummy) * ranks() * loss).backward()
            for name, value in parts.items():
                value = (not is_dummy) * value.detach().double().cpu()
                totals[name] = totals.get(name, 0.0) + value
    return dict(
        zip(totals, all_reduce_sum(torch.stack(list(totals.values()))).tolist(), strict=True)
    )


def _check_sampler_kl(sampler_kl: float, bound: float | None) -> None:
    if bound is not None and sampler_kl > bound:
        raise TrainingError(
            f"what sampled is not what learns: KL(sampler || learner) is {sampler_kl:.3g} nats a"
            f" token before anything was learned, allowed are {bound:g}. Does a server hold other"
            " weights, another chat template or another temperature (vLLM: --logprobs-mode"
            " processed_logprobs)? If it is meant to be so: --max-sampler-kl none"
        )


def _check_finite(metrics: Metrics) -> None:
    if wrong := [name for name, value in metrics.items() if not math.isfinite(value)]:
        raise TrainingError(
            f"{', '.join(wrong)} became NaN or infinite; this step was not taken. Try a smaller"
            " learning rate or grad_clip."
        )


def make_optimizer(
    actor: nn.Module,
    critic: nn.Module | None = None,
    *,
    lr: float = 1e-6,
    critic_lr: float = 5e-6,
) -> AdamW:
    """AdamW over all weights that learn. Make it after the modules were spread out over processes.
    The default rates are RLVER's (arXiv:2507.03112, appendix B).
    """
    groups = [
        {"params": [one for one in module.parameters() if one.requires_grad]}
        | {"lr": rate, "full_lr": rate}
        for module, rate in ((actor, lr), (critic, critic_lr))
        if module is not None
    ]
    return AdamW(groups, weight_decay=0.0)


def set_learning_rates(
    optimizer: AdamW, iteration: int, iterations: int, warmup: int = 0, anneal: bool = False
) -> None:
    """Set the learning rates for an iteration, from 0. They rise in equal steps and reach their
    values in the last of the `warmup` iterations; with `anneal` they also fall in equal steps, to a
    tenth in the last of all `iterations`.
    """
    rise = min(1.0, (iteration + 1) / max(warmup, 1))
    fall = 1 - 0.9 * iteration / max(iterations - 1, 1) if anneal else 1.0
    for group in optimizer.param_groups:
        group["lr"] = group["full_lr"] * rise * fall
