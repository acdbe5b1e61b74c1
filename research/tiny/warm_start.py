"""A tiny model with the circuit that copies, taught to speak from spliced demonstrations.

python research/tiny/warm_start.py OUT [--dialogues 6144] [--epochs 2] [--lr 2e-3] [--style direct] [--share 0.8] [--seed 0]
"""

import argparse
import tempfile
from pathlib import Path

import torch
from copying import THETA, teach_copying
from demonstrations import demonstrations_for_small

from rlver_gym.bench.export.demonstrations import AGENTS
from rlver_gym.policy.models.model import export_model, load_model, load_tokenizer
from rlver_gym.policy.models.tiny_model import build_tiny_model
from rlver_gym.policy.run_sft import teach
from rlver_gym.policy.sft_config import make_sft_config


def build_with_copying(folder: Path, seed: int = 0, **sizes: int) -> None:
    """`build_tiny_model`, with the circuit written into it."""
    build_tiny_model(folder, seed=seed, rope_theta=THETA, **sizes)
    model, tokenizer = load_model(str(folder), device="cpu"), load_tokenizer(str(folder))
    torch.manual_seed(seed)
    pieces = [str(tokenizer.decode([number])) for number in range(len(tokenizer))]
    teach_copying(model, pieces)  # pyright: ignore[reportArgumentType]
    export_model(model, tokenizer, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dialogues", type=int, default=6144)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--style", choices=("direct", "think"), default="direct")
    parser.add_argument("--share", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    told = demonstrations_for_small(AGENTS, asked.dialogues, asked.share, asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        build_with_copying(Path(folder), asked.seed)
        how = {"style": asked.style, "epochs": asked.epochs, "lr": asked.lr, "seed": asked.seed}
        config = make_sft_config(how | {"model": folder, "reply_tokens": 64}, "the options")
        teach(config, told, asked.out)


if __name__ == "__main__":
    main()
