"""Two processes that torchrun starts learn the same as one. This file is also what they run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_policy
import torch
from commands import run_processes
from safetensors.torch import load_file
from tiny_policy import eight_dialogues, tiny
from transformers import AutoModelForCausalLM

from rlver_gym.policy import sft
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.learning.batch import pack_batch
from rlver_gym.policy.learning.experience import prepare_batch
from rlver_gym.policy.learning.metrics import METRICS
from rlver_gym.policy.learning.registry import AdvantageConfig, Objective
from rlver_gym.policy.learning.update import make_optimizer, run_optimizer_steps
from rlver_gym.policy.models import actor as actor_module
from rlver_gym.policy.models import distributed
from rlver_gym.policy.models.actor import Actor, Critic
from rlver_gym.policy.models.model import find_causal_lm, load_empty_model, load_model
from rlver_gym.policy.models.tiny_model import build_tiny_model
from rlver_gym.policy.train import make_learner

TOKENS = 100
FEW_LOGITS = 60 * 16
OBJECTIVE = Objective(aggregate="sequence", entropy=0.01, kl=0.1)


def learned(kind, engine="ddp"):
    """The metrics of two iterations on the same dialogues, in micro-batches of 100 tokens and two
    minibatches.
    """
    model = tiny()
    model.activation_checkpointing_enable()
    actor = distributed.distribute(Actor(model), engine)
    critic = distributed.distribute(Critic(tiny(seed=1)), engine) if kind == "gae" else None
    optimizer, rng = (
        make_optimizer(actor, critic, lr=1e-3, critic_lr=1e-2),
        np.random.default_rng(0),
    )
    advantage, found = AdvantageConfig(kind, drop_flat=kind != "gae"), []
    for _ in range(2):
        found.append({"sampled": sampled(actor)})
        batch = pack_batch(distributed.all_gather(distributed.local_slice(eight_dialogues())))
        judged = prepare_batch(
            batch,
            actor,
            critic,
            Actor(tiny(seed=2)),
            advantage=advantage,
            tokens=TOKENS,
            reward_scale=0.01,
        )
        how = {"rng": rng, "objective": OBJECTIVE, "epochs": 2, "minibatches": 2, "tokens": TOKENS}
        found += [judged.metrics, run_optimizer_steps(judged, actor, optimizer, critic, **how)]
    return found


def warmed():
    """The loss of a step of a warm start, and the norm of its gradient, which the step itself would
    hide: it is clipped, and Adam takes its size away.
    """
    actor = distributed.distribute(Actor(tiny()), "ddp")
    loss = sft._backpropagate_batch(actor, pack_batch(eight_dialogues()), TOKENS)
    return [{"loss": loss, "gradient": distributed.clip_gradients(actor, 1e9)}]


def sampled(actor):
    """Where each process greedily gets to from a prompt, each by its own number of steps; added up
    over the processes.
    """
    with distributed.full_params(actor) as module, torch.no_grad():
        id_BT = torch.tensor([[1, 2, 3]])
        for _ in range(3 + distributed.rank()):
            id_BT = torch.cat(
                [id_BT, find_causal_lm(module)(input_ids=id_BT).logits[:, -1:].argmax(-1)], 1
            )
    return float(distributed.all_reduce_sum(id_BT[0, 5].double())) / distributed.ranks()


def work(engine, path):
    """What each of the processes does."""
    actor_module.LOGITS_AT_ONCE = FEW_LOGITS
    with distributed.process_group():
        found = {kind: learned(kind, engine) for kind in ("gae", "turn")} | {"sft": warmed()}
        if distributed.rank() == 0:
            Path(path).write_text(json.dumps(found))


def test_a_process_that_will_be_given_its_weights_reads_none(tmp_path):
    build_tiny_model(tmp_path, hidden=32, layers=1, vocab=400)
    there = load_model(str(tmp_path), device="cpu")
    (tmp_path / "model.safetensors").unlink()
    empty = load_empty_model(str(tmp_path))
    shapes = [
        {name: value.shape for name, value in one.state_dict().items()} for one in (empty, there)
    ]
    assert shapes[0] == shapes[1]
    assert empty.get_input_embeddings().weight is empty.get_output_embeddings().weight, (
        "tied as in the other"
    )


@pytest.fixture(scope="module")
def alone():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(actor_module, "LOGITS_AT_ONCE", FEW_LOGITS)
        return {kind: learned(kind) for kind in ("gae", "turn")} | {"sft": warmed()}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ddp", "fsdp"])
def test_two_processes_learn_the_same_as_one(engine, alone, tmp_path):
    path = tmp_path / "found.json"
    torchrun = "-m torch.distributed.run --standalone --nproc-per-node=2".split()
    ended = subprocess.run(
        [sys.executable, *torchrun, __file__, engine, str(path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(tiny_policy.__file__).parent)},
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    together = json.loads(path.read_text())
    for kind, wanted in alone.items():
        for ours, theirs in zip(together[kind], wanted, strict=True):
            assert left_unexplained(ours) == pytest.approx(
                left_unexplained(theirs), rel=1e-4, abs=1e-5
            )


def finish(number, words, *more):
    ended = run_processes(number, words, *more)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


def left_unexplained(metrics):
    """With the share of the variance that was not foreseen: of a critic that foresees next to
    nothing, the other share is nothing but rounding.
    """
    return {
        name: 1 - value if name == "explained_variance" else value
        for name, value in metrics.items()
    }


@pytest.mark.slow
def test_a_run_of_two_processes_leaves_the_folder_that_one_leaves(tmp_path):
    model = tmp_path / "tiny"
    build_tiny_model(model, hidden=32, layers=1, vocab=400)
    few = (
        f"train --model {model} --iterations 2 --dialogues 4 --algo ppo --critic-knows persona"
        " --max-reply-tokens 8 --eval-every 1 --eval-dialogues 2 --save-every 1 --show-every 1"
    )
    one, two = tmp_path / "one", tmp_path / "two"
    for number, folder in ((1, one), (2, two)):
        finish(number, few, "--out", folder)
    assert left_in(two) == left_in(one)
    lines = [
        [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
        for folder in (one, two)
    ]
    for alone_line, together in zip(*lines, strict=True):
        assert together == pytest.approx(alone_line, rel=1e-3, abs=1e-4)
    assert (two / "evaluations.jsonl").read_text() == (one / "evaluations.jsonl").read_text()
    expected = [
        json.loads((folder / "checkpoints" / "000002" / "state.json").read_text())[
            "persona_baseline"
        ]
        for folder in (one, two)
    ]
    assert expected[0].keys() == expected[1].keys()
    for who, (count, mean) in expected[0].items():
        assert expected[1][who] == [count, pytest.approx(mean, rel=1e-3, abs=1e-5)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_on_sharded_weights_are_saved_resumed_and_exported(dtype, tmp_path):
    pytest.importorskip("peft", reason="adapters need peft: pip install '.[lora]'")
    model, cut, once_folder = tmp_path / "tiny", tmp_path / "cut", tmp_path / "once"
    build_tiny_model(model, hidden=32, layers=1, vocab=400)
    few = (
        f"train --dialogues 4 --max-reply-tokens 8 --eval-every 0 --save-every 1 --lr 1e-2 --model"
        f" {model} --lora-rank 4 --dtype {dtype} --engine fsdp"
    )
    for out, *more in ((once_folder, "2"), (cut, "1"), (cut, "2", "--resume")):
        finish(2, few, "--out", out, "--iterations", *more)
    resumed, once = (
        load_file(out / "checkpoints" / "000002" / "learner.safetensors")
        for out in (cut, once_folder)
    )
    for name, weight in once.items():
        assert torch.allclose(resumed[name], weight, atol=1e-6), name
    config = TrainConfig(
        model=str(model), dialogues=4, max_reply_tokens=8, lora_rank=4, dtype=dtype, eval_every=0
    )
    learner, id_BT = make_learner(config), torch.tensor([[5, 6, 7, 8]])
    begun = learner.language_model(id_BT).logits.detach()
    learner.actor.load_state_dict(
        {name.removeprefix("actor."): weight for name, weight in once.items()}, strict=False
    )
    with torch.no_grad():
        kept = learner.language_model(id_BT).logits
        exported = AutoModelForCausalLM.from_pretrained(once_folder / "model", dtype=kept.dtype)(
            id_BT
        ).logits
    rounding = 1e-5 if dtype == "float32" else 2e-2
    assert torch.allclose(exported, kept, atol=rounding)
    assert not torch.allclose(begun, kept, atol=2 * rounding)


@pytest.mark.slow
def test_a_sharded_run_is_resumed_exactly_and_by_other_processes_too(tmp_path):
    model, cut, once, one, copied = (
        tmp_path / name for name in ("tiny", "cut", "once", "one", "copied")
    )
    build_tiny_model(model, hidden=32, layers=2, vocab=400)
    few = (
        "train --dialogues 4 --max-reply-tokens 8 --eval-every 0 --save-every 1 --lr 1e-2 --model"
        f" {model} --algo ppo --kl 0.1 --engine fsdp"
    )
    for out, *more in ((once, "2"), (cut, "1"), (cut, "2", "--resume")):
        finish(2, few, "--out", out, "--iterations", *more)
        if out == cut and "--resume" not in more:
            shutil.copytree(cut, one)
    shutil.copytree(one, copied)
    finish(1, few, "--out", one, "--iterations", "2", "--resume")
    finish(2, few, "--out", copied, "--iterations", "2", "--resume", "--engine", "ddp")
    folders = [out / "checkpoints" / "000002" for out in (once, cut, one, copied)]
    wanted, resumed = (load_file(folder / "learner.safetensors") for folder in folders[:2])
    assert all(torch.equal(resumed[name], value) for name, value in wanted.items())
    states, resumed_states = (
        torch.load(folder / "optimizer.pt", weights_only=True)["state"] for folder in folders[:2]
    )
    assert resumed_states.keys() == states.keys() == wanted.keys()
    for name, state in states.items():
        assert all(torch.equal(resumed_states[name][key], one) for key, one in state.items()), name
    # Where a gradient is nearly nothing, Adam's first step makes rounding large.
    for folder in folders[2:]:
        for name, weight in load_file(folder / "learner.safetensors").items():
            if not name.endswith("k_proj.bias"):  # attention does not depend on it at all
                assert torch.isclose(wanted[name], weight, atol=1e-4).float().mean() > 0.99, name
    exported = load_file(folders[0] / "model" / "model.safetensors")
    assert exported.keys() == load_file(model / "model.safetensors").keys()
    for name, weight in exported.items():
        assert torch.equal(wanted[f"actor.model.{name}"], weight), name


@pytest.mark.slow
def test_two_processes_give_the_warm_start_that_one_gives(tmp_path):
    model = tmp_path / "tiny"
    build_tiny_model(model, hidden=32, layers=1, vocab=400)
    one, two = tmp_path / "one", tmp_path / "two"
    said = {}
    for number, folder in ((1, one), (2, two)):
        ended = finish(
            number, f"sft --model {model} --dialogues 8 --epochs 2 --lr 1e-2", "--out", folder
        )
        said[folder] = [
            line for line in (ended.stdout + ended.stderr).splitlines() if "loss" in line
        ]
    assert said[two] == said[one]
    assert left_in(two) == left_in(one)
    weights, together = (load_file(folder / "model.safetensors") for folder in (one, two))
    begun = load_file(model / "model.safetensors")
    for name, weight in weights.items():
        assert torch.allclose(together[name], weight, atol=1e-4), name
    assert any(
        not torch.allclose(begun[name], weight, atol=1e-2) for name, weight in weights.items()
    )


def left_in(folder):
    """The names of the files, but for TensorBoard's, which tell the time and the process."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if "tfevents" not in path.name
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    work(*sys.argv[1:])
