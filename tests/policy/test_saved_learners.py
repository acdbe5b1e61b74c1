"""A learner with adapters, saved and loaded."""

import pytest
import torch
from safetensors.torch import load_file
from tiny_policy import SHORT
from transformers import AutoModelForCausalLM

from rlver_gym.policy.checkpoints import load, save
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.iteration import train
from rlver_gym.policy.learner import make_learner


def make_weights(learner):
    return {name: one.detach().clone() for name, one in learner.models.actor.named_parameters()}


def test_a_learner_with_adapters_is_resumed_exactly_and_exports_what_it_says(tiny_folder, tmp_path):
    pytest.importorskip("peft", reason="needs peft: pip install '.[lora]'")
    values = SHORT | {"model": str(tiny_folder), "lora_rank": 4, "iterations": 2}
    config = TrainConfig(**values)
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
