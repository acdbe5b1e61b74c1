"""A learner saved and loaded: with adapters and with a critic."""

import copy
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from rlver_gym.policy.checkpoints import load, save
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.iteration import train
from rlver_gym.policy.learner import make_learner

SMALL: dict[str, Any] = {
    "iterations": 2,
    "dialogues": 2,
    "max_reply_tokens": 8,
    "max_tokens": 1024,
    "lr": 1e-2,
    "eval_every": 0,
}


def make_weights(learner):
    return {name: one.detach().clone() for name, one in learner.models.actor.named_parameters()}


def test_a_learner_with_adapters_is_resumed_exactly_and_exports_what_it_says(tiny_folder, tmp_path):
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


def test_a_learner_with_a_critic_is_resumed_exactly(tiny_folder, tmp_path):
    config = TrainConfig(algo="ppo", model=str(tiny_folder), **SMALL)
    learner = make_learner(config)
    iterations = train(learner)
    next(iterations)
    save(learner, tmp_path)
    again = make_learner(config)
    load(again, tmp_path)
    wanted, resumed = (copy.deepcopy(one.optimizer.state_dict()) for one in (learner, again))
    assert resumed["state"].keys() == wanted["state"].keys()
    assert len(wanted["state"]) > 10
    for number, state in wanted["state"].items():
        assert all(torch.equal(resumed["state"][number][key], one) for key, one in state.items())
    assert next(train(again)).metrics == next(iterations).metrics
    other = make_weights(learner)
    assert all(torch.equal(one, other[name]) for name, one in make_weights(again).items())
