"""A learner saved and loaded: with adapters, and from the shards that several processes wrote."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from rlver_gym.io.errors import TrainingError
from rlver_gym.policy.checkpoints import load, save
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.train import Learner, make_learner, train

SMALL: dict[str, Any] = {
    "iterations": 2,
    "dialogues": 2,
    "max_reply_tokens": 8,
    "max_tokens": 1024,
    "lr": 1e-2,
    "eval_every": 0,
}


def make_weights(learner: Learner) -> dict[str, Tensor]:
    return {name: one.detach().clone() for name, one in learner.actor.named_parameters()}


def make_states(learner: Learner) -> list[dict[str, Any]]:
    return copy.deepcopy(list(learner.optimizer.state_dict()["state"].values()))


def test_a_learner_with_adapters_is_resumed_exactly_and_exports_what_it_says(
    tiny_folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("peft", reason="needs peft: pip install '.[lora]'")
    config = TrainConfig(model=str(tiny_folder), lora_rank=4, group_size=2, **SMALL)
    learner = make_learner(config)
    iterations = train(learner)
    next(iterations)
    save(learner, tmp_path)
    assert all("lora" in name for name in load_file(tmp_path / "learner.safetensors"))
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        spoken = learner.language_model(ids).logits
        exported = AutoModelForCausalLM.from_pretrained(tmp_path / "model")(ids).logits
        base = AutoModelForCausalLM.from_pretrained(tiny_folder)(ids).logits
    assert torch.allclose(exported, spoken, atol=1e-4)
    assert not torch.allclose(exported, base, atol=1e-3)

    again = make_learner(config)
    load(again, tmp_path)
    assert next(train(again)).metrics == next(iterations).metrics
    wanted = make_weights(learner)
    assert all(torch.equal(one, wanted[name]) for name, one in make_weights(again).items())


def split_checkpoint(folder: Path, processes: int) -> None:
    """Write a whole checkpoint's tensors as that many processes would, each its rows."""
    tensors = load_file(folder / "learner.safetensors")
    states = torch.load(folder / "optimizer.pt", weights_only=True)["state"]
    tensors |= {f"{name}|{key}": one for name, own in states.items() for key, one in own.items()}
    for rank in range(processes):
        part = {
            name: (one.tensor_split(processes)[rank] if one.dim() else one).contiguous()
            for name, one in tensors.items()
        }
        save_file(part, folder / f"shard-{rank:05d}-of-{processes:05d}.safetensors")
    (folder / "learner.safetensors").unlink()
    (folder / "optimizer.pt").unlink()


@pytest.mark.parametrize("warmup", [0, 1])
def test_one_process_goes_on_exactly_from_the_shards_of_three(
    warmup: int, tiny_folder: Path, tmp_path: Path
) -> None:
    """In a critic's warm-up the policy has not learned yet: the optimizer has no state of it."""
    config = TrainConfig(algo="ppo", model=str(tiny_folder), critic_warmup=warmup, **SMALL)
    learner = make_learner(config)
    iterations = train(learner)
    next(iterations)
    save(learner, tmp_path)
    whole = make_states(learner)
    split_checkpoint(tmp_path, processes=3)
    again = make_learner(config)
    load(again, tmp_path)
    joined = make_states(again)
    assert len(joined) == len(whole) > 10
    for one, other in zip(joined, whole, strict=True):
        assert all(torch.equal(one[key], other[key]) for key in other)
    assert next(train(again)).metrics == next(iterations).metrics


def test_a_checkpoint_that_lacks_a_shard_is_named(tiny_folder: Path, tmp_path: Path) -> None:
    learner = make_learner(TrainConfig(model=str(tiny_folder), group_size=2, **SMALL))
    learner.iteration = 1
    save(learner, tmp_path)
    split_checkpoint(tmp_path, processes=3)
    (tmp_path / "shard-00001-of-00003.safetensors").unlink()
    with pytest.raises(TrainingError, match=r"it has 2 of its shards.*Remove it to go on"):
        load(learner, tmp_path)
