"""Plain supervised learning on demonstrations: of good supporters, or of the benchmark's agents for
a model that cannot yet speak.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from torch import nn

from rlver_gym.core.agent import Style, agent_prompt
from rlver_gym.core.languages import Language
from rlver_gym.corpora.demonstrations import Demonstration
from rlver_gym.policy.config import Dtype
from rlver_gym.policy.learning.micro_batches import split_into_micro_batches
from rlver_gym.policy.learning.rollouts import Tokens, pack_rollouts
from rlver_gym.policy.models.actor import Actor
from rlver_gym.policy.models.agent import ReplyConfig
from rlver_gym.policy.models.distributed import (
    all_reduce_sum,
    distribute,
    process_group,
    rank,
    ranks,
    sync_gradients,
    unwrap,
)
from rlver_gym.policy.models.model import export_model, load_model, load_tokenizer, uses_bf16
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.models.rollout import SequenceBuilder
from rlver_gym.policy.models.sampler import Completion
from rlver_gym.policy.models.trajectory import Trajectory
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.folders import write_folder

DIALOGUES = 4
"""Dialogues that one step learns from."""


def tokenize_demonstration(demonstration: Demonstration, renderer: Renderer) -> Trajectory:
    """The demonstration as the policy would have said it, its plans thought before if it thinks:
    token ids, with a mask of what is to be learned.
    """
    builders: list[SequenceBuilder] = []
    for turn, reply in enumerate(demonstration.replies):
        before = builders[-1].ids if builders else []
        prompt = renderer.next_prompt(
            before, demonstration.users[: turn + 1], demonstration.replies[:turn]
        )
        if renderer.style == "think" or not builders:
            builders.append(SequenceBuilder())
        said = renderer.reply(reply, demonstration.plans[turn])
        is_learned = not demonstration.only_last or turn == len(demonstration.replies) - 1
        completion = Completion(said, [0.0] * len(said))
        builders[-1].grow(prompt, completion, turn if is_learned else -1)
    return Trajectory(
        0,
        0,
        np.zeros(len(demonstration.replies), np.float32),
        np.zeros(len(demonstration.replies), np.bool_),
        tuple(one.sequence() for one in builders),
        (),
        {},
    )


def train_epochs(
    actor: nn.Module,
    trajectories: Sequence[Trajectory],
    *,
    epochs: int = 3,
    dialogues: int = DIALOGUES,
    lr: float = 1e-3,
    tokens: int = 16_384,
    seed: int = 0,
) -> Iterator[float]:
    """Minimise the cross-entropy of what was said; yields the loss of each step, in nats a token.
    The rate falls to a tenth along a cosine.

    TrainingError when the loss is no finite number any more.
    """
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(
        [one for one in actor.parameters() if one.requires_grad], lr=lr, weight_decay=0.01
    )
    steps = [
        part
        for _ in range(epochs)
        for part in np.array_split(
            rng.permutation(len(trajectories)), max(1, len(trajectories) // dialogues)
        )
    ]
    for number, part in enumerate(steps):
        for group in optimizer.param_groups:
            rise, fall = (
                min(1.0, (number + 1) / (0.05 * len(steps))),
                0.55 + 0.45 * np.cos(np.pi * number / len(steps)),
            )
            group["lr"] = lr * rise * fall
        optimizer.zero_grad()
        loss = _backpropagate_batch(
            actor.train(), pack_rollouts([trajectories[at] for at in part]).tokens, tokens
        )
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss became NaN or infinite in step {number + 1}. Try a smaller --lr than"
                f" {lr:g}."
            )
        nn.utils.clip_grad_norm_(actor.parameters(), 1.0)
        optimizer.step()
        yield loss


def train_on_demonstrations(
    model: str,
    out: Path,
    demonstrations: Iterable[Demonstration],
    *,
    style: Style = "direct",
    language: Language = "en",
    epochs: int = 3,
    lr: float = 1e-3,
    seed: int = 0,
    max_reply_tokens: int | None = None,
    dtype: Dtype = "auto",
    lora_rank: int = 0,
) -> Iterator[float]:
    """Teach a model what was said in the demonstrations, and write it to a folder that
    `from_pretrained`, `train --model` and `hf:PATH` read; yields the losses. With torchrun, the
    processes share the work of each step, and the first one writes.

    `max_reply_tokens`: how long its replies may be later; None for the longest one that it was
    taught. `dtype`: what is computed in, as in a training config. `lora_rank`: of adapters, which
    are merged into what is written; 0 trains all weights. TrainingError for a model that
    cannot be used, a folder that is taken, or demonstrations without thoughts for a style that
    thinks.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise TrainingError(f"{out} is not empty. Choose another folder with --out.")
    with process_group(), ExitStack() as stack:
        draft = stack.enter_context(write_folder(out, TrainingError)) if rank() == 0 else out
        tokenizer, demonstrations = load_tokenizer(model), list(demonstrations)
        if style == "think" and not all(
            all(demonstration.plans) for demonstration in demonstrations
        ):
            raise TrainingError(
                "these demonstrations hold no thoughts to learn. Choose --style direct."
            )
        renderer = Renderer(tokenizer, agent_prompt(language, style), style)
        use_bf16 = uses_bf16(dtype)
        torch.manual_seed(seed)  # new adapters
        lm = load_model(model, use_bf16=use_bf16, lora=lora_rank)
        actor = distribute(Actor(lm, use_bf16))
        trajectories = [
            tokenize_demonstration(demonstration, renderer) for demonstration in demonstrations
        ]
        longest = max(
            int(np.bincount(sequence.turn_T[sequence.action_mask_T]).max())
            for one in trajectories
            for sequence in one.sequences
        )
        yield from train_epochs(actor, trajectories, epochs=epochs, lr=lr, seed=seed)
        if rank() == 0:
            export_model(unwrap(actor).model, tokenizer, draft)  # pyright: ignore[reportArgumentType]
            limit = max_reply_tokens or longest
            ReplyConfig(
                system=agent_prompt(language, style), style=style, max_reply_tokens=limit
            ).write(draft)
        del actor


def count_optimizer_steps(dialogues: int, epochs: int) -> int:
    """How many losses a warm start yields."""
    return epochs * max(1, dialogues // DIALOGUES)


def _backpropagate_batch(actor: nn.Module, batch: Tokens, most: int) -> float:
    device, total, said = next(actor.parameters()).device, 0.0, int(batch.action_mask_BT.sum())
    todo = list(split_into_micro_batches(batch, most, rank(), ranks()))
    for at, (rows, tree_B, is_dummy) in enumerate(todo):
        part = batch.take(rows).to(device)
        with sync_gradients(actor, last=at == len(todo) - 1):
            scored = actor(part.id_BT, part.action_mask_BT, dialogue_B=tree_B)
            loss = -scored.logprob_BT.sum() * (not is_dummy) / said
            # The engine averages over the processes; this is a part of a sum.
            (ranks() * loss).backward()
        total += float(loss.detach())
    return float(all_reduce_sum(torch.tensor(total, dtype=torch.float64)))
