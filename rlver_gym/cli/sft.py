"""`rlver-gym sft`: a warm start for models that cannot speak yet."""

import os
from pathlib import Path
from statistics import mean
from typing import Annotated, Literal, cast

import typer

from rlver_gym.cli.progress import progress_bar
from rlver_gym.cli.train import with_torch
from rlver_gym.data.demonstrations import read_demonstrations
from rlver_gym.io.terminal import SafeConsole
from rlver_gym.tiny.demonstrations import AGENTS, demonstrations_for_small

_TINY_LR, _LR = 3e-3, 5e-5
_SHORT = 64
"""Tokens of a reply of a model that learned from the benchmark's agents."""


def sft(
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    model: Annotated[str, typer.Option(help="A causal LM: a Hugging Face name, a folder, tiny or smollm2.")] = "tiny",
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="Whom to learn from; repeat it for more, and for a larger share. Default: stock comfort, advice, and two who give back what was told."
        ),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="Learn from demonstrations in this file instead (rlver-gym export … --to sft, or --to openai); repeat it for more."
        ),
    ] = None,
    style: Annotated[str, typer.Option(help="direct, or think: a thought before each reply.")] = "direct",
    dialogues: Annotated[int, typer.Option(min=1, help="How many dialogues to learn from.")] = 768,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over them.")] = 4,
    lr: Annotated[
        float | None,
        typer.Option(
            help="Learning rate at its highest. Default: 3e-3 for tiny, 5e-5 for a model that has learned before."
        ),
    ] = None,
    reply_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="How long its replies may be later. Default: 64, or the longest demonstration."),
    ] = None,
    word_substitution: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="0..1",
            help="Share of dialogues in which the person's sentences are patched together anew, and share in which their words are exchanged for others, "
            "so that a small model learns to repeat what it hears. 0 for models that can read, and for the oracle, who only speaks of the true person.",
        ),
    ] = 0.8,
    dtype: Annotated[
        str, typer.Option(help="auto, float32 or bfloat16: what is computed in; auto is bfloat16 on a GPU.")
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Decides the dialogues and their order.")] = 0,
) -> None:
    """Teach a model to speak, by plain supervised learning on demonstrations, or on what the benchmark's agents say to the train personas.

    A tiny model knows nothing before. What it learns here is how replies sound, not which ones help: that is for rlver-gym train.

    Example: rlver-gym sft --model tiny --out runs/warm

    From what readers found good: rlver-gym export recordings/en/train --to sft --roles --min-change 5 --split train --out good.jsonl, then rlver-gym sft --model smollm2 --data good.jsonl --epochs 2 --out runs/sft

    On two cores: OMP_NUM_THREADS=1 torchrun --nproc-per-node=2 -m rlver_gym sft --model tiny --out runs/warm
    """
    if style not in ("direct", "think"):
        raise typer.BadParameter("one of: direct, think", param_hint="--style")
    if dtype not in ("auto", "float32", "bfloat16"):
        raise typer.BadParameter("one of: auto, float32, bfloat16", param_hint="--dtype")
    learning = with_torch("rlver_gym.policy.sft")
    if data and agent:
        raise typer.BadParameter("there is nobody to learn from beside --data", param_hint="--agent")
    read = [demonstration for path in data or () for demonstration in read_demonstrations(path)]
    told = read or demonstrations_for_small(agent or AGENTS, dialogues, word_substitution, seed)
    losses = learning.warm_start(
        model,
        out,
        told,
        style=cast(Literal["direct", "think"], style),
        epochs=epochs,
        lr=lr or (_TINY_LR if model == "tiny" else _LR),
        seed=seed,
        max_reply_tokens=reply_tokens or (None if data else _SHORT),
        dtype=cast(Literal["auto", "float32", "bfloat16"], dtype),
    )
    steps = learning.steps_of(len(read) or dialogues, epochs)
    tenth = max(1, steps // 10)
    seen: list[float] = []
    first = os.environ.get("RANK", "0") == "0"  # the others of torchrun's processes learn the same, and say nothing
    with progress_bar(quiet=not first) as bar:
        for loss in bar.track(losses, steps, description="learning to speak"):
            seen.append(loss)
            if len(seen) % tenth == 0:
                bar.console.print(
                    f"step {len(seen):5d} of {steps}, loss {mean(seen[-tenth:]):.2f} (nats a token)", highlight=False
                )
    SafeConsole(quiet=not first).print(
        f"loss {mean(seen[:tenth]):.2f} at first, {mean(seen[-tenth:]):.2f} at last (nats a token)\nmodel {out}",
        highlight=False,
    )
