"""Two processes that torchrun starts learn the same as one. This file is also what they run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_policy
import torch
from commands import run_processes
from json_files import read_lines
from tiny_policy import eight_dialogues, tiny, trying

from rlver_gym.policy import sft
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.iteration import compute_loss, prepare
from rlver_gym.policy.learning.metrics import METRICS
from rlver_gym.policy.learning.rollouts import pack_rollouts
from rlver_gym.policy.learning.steps import make_optimizer, take_steps
from rlver_gym.policy.models import actor as actor_module
from rlver_gym.policy.models import distributed
from rlver_gym.policy.models.actor import Actor, Critic, Models
from rlver_gym.policy.models.trajectory import ignore_progress

TOKENS = 100
FEW_LOGITS = 60 * 16
COMMON = {
    "kl": 0.1,
    "entropy": 0.01,
    "epochs": 2,
    "minibatches": 2,
    "microbatch_tokens": TOKENS,
    "dtype": "float32",
    "max_sampler_kl": None,
}
KINDS = {
    "ppo": {"algo": "ppo"},
    "turn": {"algo": "dapo", "advantage": "turn", "aggregate": "sequence"},
    "dpo": {"algo": "dpo"},
    "replies": {"compare": "replies"},
}


def learned(kind):
    """The metrics of two iterations on the same dialogues, in micro-batches of 100 tokens and two
    minibatches.
    """
    model, config = tiny(), TrainConfig(**COMMON, **KINDS[kind])
    model.activation_checkpointing_enable()
    actor = distributed.distribute(Actor(model))
    critic = distributed.distribute(Critic(tiny(seed=1))) if kind == "ppo" else None
    models = Models(actor, critic, Actor(tiny(seed=2)))
    optimizer, measured = make_optimizer(models, lr=1e-3, critic_lr=1e-2), []
    rng, drawn = np.random.default_rng(0), np.random.default_rng(7)
    dialogues = (
        [trying(drawn, turns=3, tried=2) for _ in range(4)]
        if config.compares == "replies"
        else eight_dialogues()
    )
    for _ in range(2):
        mine = distributed.local_slice(dialogues)
        prepared, metrics = prepare(pack_rollouts(distributed.all_gather(mine)), models, config)
        how = models, config, ignore_progress, optimizer, rng, compute_loss
        measured += [metrics, take_steps(prepared, *how)]
    return measured


def warmed():
    """The loss of a step of a warm start, and the norm of its gradient, which the step itself would
    hide: it is clipped, and Adam takes its size away.
    """
    actor = distributed.distribute(Actor(tiny()))
    loss = sft.compute_cross_entropy(actor, pack_rollouts(eight_dialogues()).tokens, TOKENS)
    norm = torch.nn.utils.clip_grad_norm_(actor.parameters(), 1e9)
    return [{"loss": loss, "gradient": float(norm)}]


def work(path):
    """What each of the processes does."""
    actor_module.LOGITS_AT_ONCE = FEW_LOGITS
    with distributed.process_group():
        found = {kind: learned(kind) for kind in KINDS} | {"sft": warmed()}
        if distributed.rank() == 0:
            Path(path).write_text(json.dumps(found))


@pytest.fixture(scope="module")
def alone():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(actor_module, "LOGITS_AT_ONCE", FEW_LOGITS)
        return {kind: learned(kind) for kind in KINDS} | {"sft": warmed()}


@pytest.mark.slow
def test_two_processes_learn_the_same_as_one(alone, tmp_path):
    path = tmp_path / "found.json"
    torchrun = "-m torch.distributed.run --standalone --nproc-per-node=2".split()
    ended = subprocess.run(
        [sys.executable, *torchrun, __file__, str(path)],
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
def test_a_run_of_two_processes_leaves_the_folder_that_one_leaves(model, tmp_path):
    few = (
        f"train --model {model} --iterations 2 --dialogues 4 --algo ppo --critic-knows persona"
        " --max-reply-tokens 8 --eval-every 1 --eval-dialogues 2 --save-every 1 --show-every 1"
    )
    one, two = tmp_path / "one", tmp_path / "two"
    for number, folder in ((1, one), (2, two)):
        finish(number, few, "--out", folder)
    assert left_in(two) == left_in(one)
    lines = [read_lines(folder / METRICS) for folder in (one, two)]
    for alone_line, together in zip(*lines, strict=True):
        assert together == pytest.approx(alone_line, rel=1e-3, abs=1e-4)
    assert (two / "evaluations.jsonl").read_text() == (one / "evaluations.jsonl").read_text()
    states = [folder / "checkpoints" / "000002" / "state.json" for folder in (one, two)]
    expected = [json.loads(path.read_text())["persona_baseline"] for path in states]
    assert expected[0].keys() == expected[1].keys()
    for who, (count, mean) in expected[0].items():
        assert expected[1][who] == [count, pytest.approx(mean, rel=1e-3, abs=1e-5)]


def left_in(folder):
    """The names of the files, but for TensorBoard's, which tell the time and the process."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if "tfevents" not in path.name
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    work(*sys.argv[1:])
