"""Gradients and steps of the optimizer, for any loss over prepared rollouts; learning rates, and
what forbids a step.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.learning import algorithms
from rlver_gym.policy.learning.micro_batches import split_into_micro_batches
from rlver_gym.policy.learning.rollouts import Prepared
from rlver_gym.policy.models import distributed
from rlver_gym.policy.models.actor import Models, TokenScores
from rlver_gym.policy.models.trajectory import OnProgress
from rlver_gym.util.errors import TrainingError


class Loss(NamedTuple):
    """A part of a loss, and parts of the means that tell about it."""

    loss: Tensor
    parts: dict[str, Tensor]


ComputeLoss = Callable[[TokenScores, Prepared, TrainConfig], Loss]


def take_steps(
    prepared: Prepared,
    models: Models,
    config: TrainConfig,
    on_progress: OnProgress,
    optimizer: Optimizer,
    rng: np.random.Generator,
    compute_loss: ComputeLoss,
) -> dict[str, float]:
    """Learn, in `epochs` × `minibatches` steps of the optimizer; the means over the steps. `rng`
    deals the dialogues and must be the same on every process. TrainingError for a loss or gradient
    that is not finite, or a sampler too far away: the weights are as before that step.
    """
    learners = models.learners
    steps, is_stopped = [], False
    for module in learners.values():
        module.train()
    for minibatch in _deal_minibatches(prepared, config, rng):
        on_progress("steps", len(steps), config.epochs * config.minibatches)
        optimizer.zero_grad()
        metrics = accumulate_gradients(minibatch, models, config, compute_loss)
        is_stopped = config.target_kl is not None and metrics["kl"] > config.target_kl
        if is_stopped:
            break
        for name, module in learners.items():
            norm = nn.utils.clip_grad_norm_(module.parameters(), config.grad_clip)
            metrics[f"{name}_gradient"] = float(norm)
        if not steps:
            _check_sampler_kl(metrics.get("sampler_kl", 0.0), config.max_sampler_kl)
        steps.append(metrics)
        _check_finite(metrics)
        optimizer.step()
    optimizer.zero_grad()
    for module in learners.values():
        module.eval()
    means = {name: sum(step[name] for step in steps) / len(steps) for name in (steps or [{}])[0]}
    return means | {"steps": float(len(steps)), "stopped": float(is_stopped)}


def _deal_minibatches(
    prepared: Prepared, config: TrainConfig, rng: np.random.Generator
) -> Iterator[Prepared]:
    """Dialogues dealt by lot, with the weight of every token and pair in its minibatch."""
    dialogues = np.unique(prepared.dialogue_B)
    for _ in range(config.epochs):
        for chosen in np.array_split(rng.permutation(dialogues), config.minibatches):
            if len(chosen):
                part = prepared.take(np.flatnonzero(np.isin(prepared.dialogue_B, chosen)))
                yield weigh(part, config)


def weigh(part: Prepared, config: TrainConfig) -> Prepared:
    """The part with the weights of its tokens and pairs where it is learned from by itself."""
    objective = config.objective
    rows = np.arange(len(part.length_B))
    episode_B = torch.from_numpy(rows if config.compares == "replies" else part.dialogue_B)
    where = part.action_mask_BT, part.reply_BT, episode_B
    weight_P = part.pairs.distance_P * np.isin(part.pairs.better_P, part.reply_S)
    return replace(
        part,
        loss_weight_BT=algorithms.compute_token_weights(
            *where, objective.aggregate, objective.constant
        ),
        metric_weight_BT=algorithms.compute_token_weights(*where, "token"),
        pair_weight_P=weight_P / max(weight_P.sum(), algorithms.SAME),
    )


def accumulate_gradients(
    minibatch: Prepared, models: Models, config: TrainConfig, compute_loss: ComputeLoss
) -> dict[str, float]:
    """The gradient and the summed metrics of the whole, however cut, on however many processes."""
    size, ranks, objective = config.microbatch_tokens, distributed.ranks(), config.objective
    todo = list(split_into_micro_batches(minibatch, size, distributed.rank(), ranks))
    device, totals = next(models.actor.parameters()).device, defaultdict[str, float](float)
    for at, (rows, tree_B, is_dummy) in enumerate(todo):
        part = minibatch.take(rows).to(device)
        asked = part.id_BT, part.action_mask_BT, config.temperature, objective.entropy > 0, tree_B
        for module in models.learners.values():
            with distributed.sync_gradients(module, last=at == len(todo) - 1):
                loss, parts = compute_loss(module(*asked), part, config)
                # The engine averages over the processes; the weights are made for a sum.
                ((not is_dummy) * ranks * loss).backward()
            for name, part_of_mean in parts.items():
                totals[name] += (not is_dummy) * float(part_of_mean.detach())
    sums = distributed.all_reduce_sum(torch.tensor(list(totals.values()), dtype=torch.float64))
    return dict(zip(totals, sums.tolist(), strict=True))


def _check_sampler_kl(sampler_kl: float, bound: float | None) -> None:
    if bound is not None and sampler_kl > bound:
        raise TrainingError(
            f"what sampled is not what learns: KL(sampler || learner) is {sampler_kl:.3g} nats a"
            f" token before anything was learned, allowed are {bound:g}. Does a server hold other"
            " weights, another chat template or another temperature (vLLM: --logprobs-mode"
            " processed_logprobs)? If it is meant to be so: --max-sampler-kl none"
        )


def _check_finite(metrics: Mapping[str, float]) -> None:
    if wrong := [name for name, value in metrics.items() if not math.isfinite(value)]:
        raise TrainingError(
            f"{', '.join(wrong)} became NaN or infinite; this step was not taken. Try a smaller"
            " learning rate or grad_clip."
        )


def make_optimizer(models: Models, *, lr: float = 1e-6, critic_lr: float = 5e-6) -> AdamW:
    """AdamW over all that learns; the default rates are RLVER's (arXiv:2507.03112, appendix B)."""
    rates = {"actor": lr, "critic": critic_lr}
    groups = [
        {"params": [weight for weight in module.parameters() if weight.requires_grad]}
        | {"lr": rates[name], "full_lr": rates[name]}
        for name, module in models.learners.items()
    ]
    return AdamW(groups, weight_decay=0.0)


def set_learning_rates(optimizer: AdamW, iteration: int, config: TrainConfig) -> None:
    """For an iteration, from 0: `warmup` rises, and `anneal` falls to a tenth, in equal steps."""
    rise = min(1.0, (iteration + 1) / max(config.warmup, 1))
    fall = 1 - 0.9 * iteration / max(config.iterations - 1, 1) if config.anneal else 1.0
    for group in optimizer.param_groups:
        group["lr"] = group["full_lr"] * rise * fall
