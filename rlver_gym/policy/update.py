"""The fifth verb: change the weights. However a minibatch is cut up, and on however many processes, its gradient is that of the whole."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rlver_gym.errors import TrainingError
from rlver_gym.policy.distributed import clip_gradients, rank, ranks, summed, syncing
from rlver_gym.policy.judge import Judged
from rlver_gym.policy.microbatch import Share, shares
from rlver_gym.policy.objective import Micro, Objective, terms
from rlver_gym.policy.weights import token_weights

Metrics = dict[str, float]


def update(
    judged: Judged,
    actor: nn.Module,
    optimizer: Optimizer,
    critic: nn.Module | None = None,
    *,
    rng: np.random.Generator,
    objective: Objective = Objective(),  # noqa: B008
    epochs: int = 1,
    minibatches: int = 1,
    tokens: int = 8192,
    temperature: float = 1.0,
    grad_clip: float = 1.0,
    target_kl: float | None = None,
    max_sampler_kl: float | None = None,
    critic_only: bool = False,
    save_to: Path | None = None,
) -> Metrics:
    """Learn from a judged batch, in `epochs` × `minibatches` steps of the optimizer; returns the means over the steps.

    `rng` deals the dialogues to minibatches and must be the same on every process. `tokens`: the most in one pass, padding included. `target_kl`: no
    further step once the policy has moved this far from where it was. `max_sampler_kl`: TrainingError before the first step when the sampler's
    log-probabilities lie farther from the learner's. `critic_only`: the policy stays as it is; needs a critic of its own.
    TrainingError for a loss or gradient that is not finite: the weights are as before that step, and the batch is written to `save_to`.
    """
    if critic_only and critic is None:
        raise TrainingError("a critic that shares the policy's weights cannot learn alone. Give it weights of its own.")
    if critic is not None and judged.value_BT is None and judged.batch.dialogues:
        raise TrainingError(
            "this batch was judged without its critic, who now has nothing to learn from. Credit it by gae."
        )
    learners = {"actor": None if critic_only else actor, "critic": critic}
    learners = {name: module.train() for name, module in learners.items() if module is not None}
    steps: list[Metrics] = []
    stopped = False
    for part in _minibatches(judged, epochs, minibatches, rng):
        optimizer.zero_grad()
        metrics = _gradients(part, list(learners.values()), objective, tokens, temperature)
        stopped = target_kl is not None and metrics.get("kl", 0.0) > target_kl
        if stopped:
            break
        norms = {f"{name}_gradient": clip_gradients(module, grad_clip) for name, module in learners.items()}
        if not steps:
            _refuse_stranger(metrics.get("sampler_kl", 0.0), max_sampler_kl)
        steps.append(metrics | norms)
        _refuse_infinite(steps[-1], part, save_to)
        optimizer.step()
    optimizer.zero_grad()
    for module in learners.values():
        module.eval()
    return _means(steps) | {"steps": float(len(steps)), "stopped": float(stopped)}


def _minibatches(judged: Judged, epochs: int, minibatches: int, rng: np.random.Generator) -> Iterator[Judged]:
    """Dialogues stay whole, and in their order."""
    dialogues = judged.batch.dialogues
    for _ in range(epochs):
        for part in np.array_split(rng.permutation(dialogues), minibatches):
            if len(part):
                yield judged.only(np.isin(np.arange(dialogues), part))


def _gradients(
    part: Judged, learners: list[nn.Module], objective: Objective, tokens: int, temperature: float
) -> Metrics:
    """Add a minibatch's gradients to the weights; returns its losses and means, over all processes."""
    batch, device = part.batch, next(learners[0].parameters()).device
    dialogue_B = torch.from_numpy(batch.dialogue_B)
    weight_BT, said_weight_BT = (
        token_weights(which_BT, batch.turn_BT, dialogue_B, objective.aggregate, objective.constant)
        for which_BT in (batch.learned_BT, batch.said_BT)
    )
    mean_BT = token_weights(batch.said_BT, batch.turn_BT, dialogue_B, "token")
    todo = list(shares(batch.length_B, tokens, rank(), ranks()))
    totals: dict[str, Tensor] = {}
    for at, share in enumerate(todo):
        micro = _cut(part, weight_BT, said_weight_BT, mean_BT, share, device)
        for learner in learners:
            with syncing(learner, last=at == len(todo) - 1):
                loss, parts = terms(
                    learner(micro.id_BT, micro.said_BT, temperature, objective.entropy > 0), micro, objective
                )
                (ranks() * loss).backward()  # the engines average over the processes; the weights are made for a sum
            for name, value in parts.items():
                totals[name] = totals.get(name, 0.0) + value.detach().double().cpu()
    return dict(zip(totals, summed(torch.stack(list(totals.values()))).tolist(), strict=True))


def _cut(
    part: Judged, weight_BT: Tensor, said_weight_BT: Tensor, mean_BT: Tensor, share: Share, device: torch.device
) -> Micro:
    rows, width = torch.from_numpy(share.row_R), int(part.batch.length_B[share.row_R].max())

    def cut(value_BT: Tensor | None) -> Tensor | None:
        return None if value_BT is None else value_BT[rows, :width].to(device)

    return Micro(
        id_BT=part.batch.id_BT[rows, :width].to(device),
        said_BT=part.batch.said_BT[rows, :width].to(device),
        weight_BT=weight_BT[rows, :width].to(device) * share.real,
        said_weight_BT=said_weight_BT[rows, :width].to(device) * share.real,
        mean_BT=mean_BT[rows, :width].to(device) * share.real,
        sampled_BT=part.batch.sampled_BT[rows, :width].to(device),
        old_BT=cut(part.old_BT),
        advantage_BT=part.advantage_BT[rows, :width].to(device),
        value_BT=cut(part.value_BT),
        return_BT=cut(part.return_BT),
        reference_BT=cut(part.reference_BT),
    )


def _refuse_stranger(sampler_kl: float, bound: float | None) -> None:
    if bound is not None and sampler_kl > bound:
        raise TrainingError(
            f"what sampled is not what learns: KL(sampler || learner) is {sampler_kl:.3g} nats a token before anything was learned, allowed are {bound:g}. Does a server "
            "hold other weights, another chat template or another temperature (vLLM: --logprobs-mode processed_logprobs)? If it is meant to be so: --max-sampler-kl none"
        )


def _refuse_infinite(metrics: Metrics, part: Judged, save_to: Path | None) -> None:
    wrong = [name for name, value in metrics.items() if not math.isfinite(value)]
    if not wrong:
        return
    saved = "Give save_to to keep the batch"
    if save_to is not None:
        if rank() == 0:
            save_part(part, save_to)
        saved = f"The batch is in {save_to}: look at it with torch.load"
    raise TrainingError(
        f"{', '.join(wrong)} became NaN or infinite; this step was not taken. {saved}, and try a smaller learning rate or grad_clip."
    )


def save_part(part: Judged, path: Path) -> None:
    """Write a judged batch to a file that `torch.load(path, weights_only=True)` reads: tensors by name, and the names of whom was talked to."""
    batch = part.batch
    arrays = {name: getattr(batch, name) for name in batch.__slots__ if name not in ("left_out", "who_D")}
    tensors = {name: getattr(part, name) for name in part.__slots__ if name.endswith("_BT")}
    found = {name: torch.as_tensor(value) for name, value in (arrays | tensors).items() if value is not None}
    torch.save(found | {"who_D": batch.who_D.tolist()}, path)


def _means(steps: list[Metrics]) -> Metrics:
    return {name: sum(step[name] for step in steps) / len(steps) for name in steps[0]} if steps else {}
