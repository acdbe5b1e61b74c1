"""The optimizer's steps.

However a minibatch is cut up, and on however many processes, its gradient is that of the whole.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from rlver_gym.io.errors import TrainingError
from rlver_gym.policy.learning.algorithms import token_weights
from rlver_gym.policy.learning.batch import MicroBatch, micro_batches
from rlver_gym.policy.learning.experience import PreparedBatch
from rlver_gym.policy.learning.objective import LossInputs, compute_loss
from rlver_gym.policy.learning.registry import Objective
from rlver_gym.policy.models.distributed import (
    all_reduce_sum,
    clip_gradients,
    rank,
    ranks,
    sync_gradients,
)
from rlver_gym.policy.models.trajectory import OnProgress, ignore_progress

Metrics = dict[str, float]


def update(
    prepared: PreparedBatch,
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
    critic_only: bool = False,
    save_to: Path | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Metrics:
    """Learn from a prepared batch, in `epochs` × `minibatches` steps of the optimizer; returns the
    means over the steps.

    `rng` deals the dialogues to minibatches and must be the same on every process. `tokens`: the
    most in one pass, padding included. `target_kl`: no further step once the policy has moved this
    far from where it was. `max_sampler_kl`: TrainingError before the first step when the sampler's
    log-probabilities lie farther from the learner's. `critic_only`: the policy stays as it is;
    needs a critic of its own. TrainingError for a loss or gradient that is not finite: the weights
    are as before that step, and the batch is written to `save_to`.
    """
    if critic_only and critic is None:
        raise TrainingError(
            "a critic that shares the policy's weights cannot learn alone. Give it weights of its"
            " own."
        )
    if critic is not None and prepared.value_BT is None and prepared.batch.dialogues:
        raise TrainingError(
            "this batch was prepared without its critic, who now has nothing to learn from. Compute"
            " advantages by gae."
        )
    learners = {"actor": None if critic_only else actor, "critic": critic}
    learners = {name: module.train() for name, module in learners.items() if module is not None}
    steps: list[Metrics] = []
    stopped = False
    for part in _minibatches(prepared, epochs, minibatches, rng):
        on_progress("steps", len(steps), epochs * minibatches)
        optimizer.zero_grad()
        metrics = _gradients(part, list(learners.values()), objective, tokens, temperature)
        stopped = target_kl is not None and metrics.get("kl", 0.0) > target_kl
        if stopped:
            break
        norms = {
            f"{name}_gradient": clip_gradients(module, grad_clip)
            for name, module in learners.items()
        }
        if not steps:
            _refuse_sampler_gap(metrics.get("sampler_kl", 0.0), max_sampler_kl)
        steps.append(metrics | norms)
        _refuse_infinite(steps[-1], part, save_to)
        optimizer.step()
    optimizer.zero_grad()
    for module in learners.values():
        module.eval()
    return _means(steps) | {"steps": float(len(steps)), "stopped": float(stopped)}


def _minibatches(
    prepared: PreparedBatch, epochs: int, minibatches: int, rng: np.random.Generator
) -> Iterator[PreparedBatch]:
    """Dialogues stay whole, and in their order."""
    dialogues = prepared.batch.dialogues
    for _ in range(epochs):
        for part in np.array_split(rng.permutation(dialogues), minibatches):
            if len(part):
                yield prepared.only(np.isin(np.arange(dialogues), part))


def _gradients(
    part: PreparedBatch,
    learners: list[nn.Module],
    objective: Objective,
    tokens: int,
    temperature: float,
) -> Metrics:
    """Add a minibatch's gradients to the weights; returns its losses and means, over all
    processes.
    """
    batch, device = part.batch, next(learners[0].parameters()).device
    dialogue_B = torch.from_numpy(batch.dialogue_B)
    where = batch.action_mask_BT, batch.turn_BT, dialogue_B
    loss_weight_BT = token_weights(*where, objective.aggregate, objective.constant)
    metric_weight_BT = token_weights(*where, "token")
    todo = list(micro_batches(batch.tree_length_D, tokens, rank(), ranks()))
    totals: dict[str, Tensor] = {}
    for at, micro_batch in enumerate(todo):
        micro = _make_loss_inputs(part, loss_weight_BT, metric_weight_BT, micro_batch, device)
        for learner in learners:
            with sync_gradients(learner, last=at == len(todo) - 1):
                scored = learner(
                    micro.id_BT,
                    micro.action_mask_BT,
                    temperature,
                    objective.entropy > 0,
                    batch.dialogue_B[batch.rows_of(micro_batch)],
                )
                loss, parts = compute_loss(scored, micro, objective)
                # The engines average over the processes; the weights are made for a sum.
                (ranks() * loss).backward()
            for name, value in parts.items():
                totals[name] = totals.get(name, 0.0) + value.detach().double().cpu()
    return dict(
        zip(totals, all_reduce_sum(torch.stack(list(totals.values()))).tolist(), strict=True)
    )


def _make_loss_inputs(
    part: PreparedBatch,
    loss_weight_BT: Tensor,
    metric_weight_BT: Tensor,
    micro_batch: MicroBatch,
    device: torch.device,
) -> LossInputs:
    row_R = part.batch.rows_of(micro_batch)
    rows, width = torch.from_numpy(row_R), int(part.batch.length_B[row_R].max())

    def crop(value_BT: Tensor | None) -> Tensor | None:
        return None if value_BT is None else value_BT[rows, :width].to(device)

    return LossInputs(
        id_BT=part.batch.id_BT[rows, :width].to(device),
        action_mask_BT=part.batch.action_mask_BT[rows, :width].to(device),
        loss_weight_BT=loss_weight_BT[rows, :width].to(device) * (not micro_batch.is_dummy),
        metric_weight_BT=metric_weight_BT[rows, :width].to(device) * (not micro_batch.is_dummy),
        sampled_BT=part.batch.sampled_BT[rows, :width].to(device),
        old_BT=crop(part.old_BT),
        advantage_BT=part.advantage_BT[rows, :width].to(device),
        value_BT=crop(part.value_BT),
        return_BT=crop(part.return_BT),
        reference_BT=crop(part.reference_BT),
    )


def _refuse_sampler_gap(sampler_kl: float, bound: float | None) -> None:
    if bound is not None and sampler_kl > bound:
        raise TrainingError(
            f"what sampled is not what learns: KL(sampler || learner) is {sampler_kl:.3g} nats a"
            f" token before anything was learned, allowed are {bound:g}. Does a server hold other"
            " weights, another chat template or another temperature (vLLM: --logprobs-mode"
            " processed_logprobs)? If it is meant to be so: --max-sampler-kl none"
        )


def _refuse_infinite(metrics: Metrics, part: PreparedBatch, save_to: Path | None) -> None:
    wrong = [name for name, value in metrics.items() if not math.isfinite(value)]
    if not wrong:
        return
    saved = "Give save_to to keep the batch"
    if save_to is not None:
        if rank() == 0:
            save_part(part, save_to)
        saved = f"The batch is in {save_to}: look at it with torch.load"
    raise TrainingError(
        f"{', '.join(wrong)} became NaN or infinite; this step was not taken. {saved}, and try a"
        " smaller learning rate or grad_clip."
    )


def save_part(part: PreparedBatch, path: Path) -> None:
    """Write a prepared batch to a file that `torch.load(path, weights_only=True)` reads: tensors by
    name, and the names of whom was talked to.
    """
    batch = part.batch
    arrays = {
        name: getattr(batch, name)
        for name in batch.__slots__
        if name not in ("num_skipped", "who_D")
    }
    tensors = {name: getattr(part, name) for name in part.__slots__ if name.endswith("_BT")}
    found = {
        name: torch.as_tensor(value)
        for name, value in (arrays | tensors).items()
        if value is not None
    }
    torch.save(found | {"who_D": batch.who_D.tolist()}, path)


def _means(steps: list[Metrics]) -> Metrics:
    return (
        {name: sum(step[name] for step in steps) / len(steps) for name in steps[0]} if steps else {}
    )


def make_optimizer(
    actor: nn.Module,
    critic: nn.Module | None = None,
    *,
    lr: float = 1e-6,
    critic_lr: float = 5e-6,
    weight_decay: float = 0.0,
) -> AdamW:
    """AdamW over all weights that learn. `critic_lr` goes to the critic, or to the actor's value
    head. Make it after the modules were spread out over processes. The default rates are RLVER's
    (arXiv:2507.03112, appendix B).
    """
    policy, values = [], list(critic.parameters()) if critic else []
    for name, weight in actor.named_parameters():
        (values if "value_head" in name.split(".") else policy).append(weight)
    groups = [
        {
            "params": [weight for weight in weights if weight.requires_grad],
            "lr": rate,
            "full_lr": rate,
        }
        for weights, rate in ((policy, lr), (values, critic_lr))
    ]
    return AdamW([group for group in groups if group["params"]], weight_decay=weight_decay)


def schedule(
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
