"""`rlver-gym train --ray`: what a worker samples, what does not go with it, and kills."""

import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import astuple
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from processes import ancestors

from rlver_gym.cli.training.train import train as train_command
from rlver_gym.io.errors import RlverError, RunError, TrainingError
from rlver_gym.io.version import __version__
from rlver_gym.policy.config import TrainConfig, make_config
from rlver_gym.policy.models.rollout import make_groups
from rlver_gym.policy.models.tiny_model import build_tiny
from rlver_gym.policy.models.trajectory import Trajectory
from rlver_gym.policy.ray_rollouts import (
    RayRollouts,
    RolloutWorker,
    Share,
    dump_weights,
    rollouts_on_ray,
    split_groups,
)
from rlver_gym.policy.train import (
    collect_in_process,
    draw_seed,
    make_learner,
    reset_specs,
    train,
)
from rlver_gym.users import EmbeddedUser

with_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install '.[ray]'")
SMALL = {
    "iterations": 2,
    "dialogues": 6,
    "group_size": 2,
    "max_reply_tokens": 8,
    "max_tokens": 1024,
    "lr": 1e-2,
    "eval_every": 0,
}


@pytest.fixture(scope="module")
def model(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    build_tiny(folder, hidden=32, layers=1, vocab=400)
    return str(folder)


def small_config(model: str, **changes: Any) -> TrainConfig:
    return make_config({"model": model} | SMALL | changes, "the test")


def test_shares_are_even_and_hold_whole_groups() -> None:
    specs = make_groups(10, 2, iter(range(5)))
    shares = split_groups(specs, 3)
    assert [[spec.group for spec in share] for share in shares] == [
        [0, 0],
        [1, 1, 2, 2],
        [3, 3, 4, 4],
    ]
    assert [spec for share in shares for spec in share] == specs
    assert len(split_groups(specs, 8)) == 5


def is_same(one: Trajectory, other: Trajectory) -> bool:
    """Whether they agree exactly, log-probabilities too."""
    return pickle.dumps(astuple(one)) == pickle.dumps(astuple(other))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"algo": "rft"}, marks=pytest.mark.slow),
        pytest.param({"style": "think"}, marks=pytest.mark.slow),
        pytest.param(
            {"lora_rank": 4},
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(find_spec("peft") is None, reason="adapters need peft"),
            ],
        ),
    ],
    ids=["grpo", "rft", "think", "adapters"],
)
def test_a_worker_samples_what_the_learner_would_with_the_weights_of_now(
    changes: dict[str, Any], model: str
) -> None:
    config = small_config(model, **changes)
    learner = make_learner(config)
    worker = RolloutWorker(config, 4, False, __version__)
    at_start = dump_weights(learner)
    list(train(learner))
    specs, seed = reset_specs(config, 7), draw_seed(config, learner.iteration)
    shares = split_groups(specs, 2)
    assert [len(share) for share in shares] == ([3, 3] if config.algo == "rft" else [2, 4])
    here = [collect_in_process(learner, share) for share in shares]

    def hold() -> list[list[Trajectory]]:
        held = [worker.hold(Share(0, share, seed, learner.max_tokens)) for share in shares]
        return [pickle.loads(trajectories) for _, trajectories in held]

    worker.learn(dump_weights(learner))
    assert all(map(is_same, chain(*here), chain(*hold())))
    worker.learn(at_start)
    assert not any(map(is_same, chain(*here), chain(*hold())))
    learner.close()


def test_in_other_batches_the_same_is_drawn_up_to_rounding(model: str) -> None:
    learner = make_learner(small_config(model))
    specs = reset_specs(learner.config, 0)
    whole = collect_in_process(learner, specs)
    parts = [one for spec in specs for one in collect_in_process(learner, [spec])]
    same = [
        (one.sequences[0], other.sequences[0])
        for one, other in zip(whole, parts, strict=True)
        if one.lines == other.lines and np.array_equal(one.reward_N, other.reward_N)
    ]
    assert len(same) >= len(specs) - 1  # a token at the border of two may fall to the other
    for one, other in same:
        assert np.array_equal(one.id_T, other.id_T)
        assert one.logprob_T == pytest.approx(other.logprob_T, abs=1e-5)
    learner.close()


def test_only_adapters_travel_where_there_are_any_and_half_precision_where_that_samples(
    model: str,
) -> None:
    pytest.importorskip("peft", reason="adapters need peft: pip install '.[lora]'")
    sizes = {
        name: len(dump_weights(make_learner(small_config(model, **changes))))
        for name, changes in {
            "all": {},
            "half": {"dtype": "bfloat16"},
            "adapters": {"lora_rank": 2},
        }.items()
    }
    assert sizes["all"] / sizes["half"] == pytest.approx(2, rel=0.05)
    assert sizes["adapters"] < sizes["all"] / 10


def test_a_worker_with_another_model_or_version_is_named(model: str, tmp_path: Path) -> None:
    build_tiny(tmp_path, hidden=64, layers=1, vocab=400)
    learner = make_learner(small_config(model))
    worker = RolloutWorker(small_config(str(tmp_path)), 1, False, __version__)
    with pytest.raises(TrainingError, match="another model on"):
        worker.learn(dump_weights(learner))
    with pytest.raises(TrainingError, match=r"the learner's is 0\.0\.1"):
        RolloutWorker(learner.config, 1, False, "0.0.1")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"vllm": "http://127.0.0.1:9/v1", "vllm_folder": "x", "lora_rank": 4}, "vLLM"),
        ({"engine": "fsdp"}, "--engine fsdp"),
        ({"env_options": {"user": "openai:user", "api_key": "k"}}, "OPENAI_API_KEY"),
        ({"env_options": {"base_url": "http://me:secret@127.0.0.1:9/v1"}}, "OPENAI_BASE_URL"),
        (
            {"env_options": {"user": "openai:user", "response_cache": "t"}},
            "response_cache of env_options",
        ),
    ],
)
def test_what_does_not_go_with_workers_is_refused_before_a_cluster_is_joined(
    changes: dict[str, Any], says: str, model: str
) -> None:
    with (
        pytest.raises(TrainingError, match=says) as raised,
        rollouts_on_ray(small_config(model, **changes), "127.0.0.1:9"),
    ):
        pass
    assert "secret" not in str(raised.value)


def test_several_processes_of_torchrun_are_refused(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlver_gym.policy.ray_rollouts.ranks", lambda: 2)
    with (
        pytest.raises(TrainingError, match="torchrun"),
        rollouts_on_ray(small_config(model), "127.0.0.1:9"),
    ):
        pass


def test_without_ray_the_extra_is_named(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RlverError, match=r"pip install '\.\[ray\]'"):
        train_command(model=model, out=tmp_path / "run", ray="local")
    assert not (tmp_path / "run").exists()


class LockedUser(EmbeddedUser):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = Lock()


@with_ray
def test_a_user_that_cannot_be_sent_is_named(model: str) -> None:
    config = small_config(model, env_options={"user": LockedUser()})
    with pytest.raises(RunError, match=r"cannot be sent to workers .*lock"):
        RayRollouts(config, 2)


RUN = ["--dialogues", "12", "--group-size", "2", "--max-reply-tokens", "32", "--lr", "1e-2"]
RUN += ["--max-tokens", "1024", "--minibatches", "2", "--save-every", "1"]
RUN += ["--eval-every", "1", "--eval-dialogues", "2", "--show-every", "1"]


def on_ray(num_workers: int) -> list[str]:
    return ["--ray", "local", "--ray-workers", str(num_workers)]


def begin(model: str, folder: Path, iterations: int, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "rlver_gym", "train", "--model", model, *RUN, *more]
    return subprocess.Popen(
        [*command, "--iterations", str(iterations), "--out", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> None:
    _, stderr = process.communicate(timeout=240)
    assert process.returncode == 0, stderr[-3000:]


def results(folder: Path) -> dict[str, bytes]:
    """What the seed decides."""
    names = ("metrics.jsonl", "evaluations.jsonl", "dialogues.md", "model/model.safetensors")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


def holding_workers(process: "subprocess.Popen[str]") -> list[int]:
    """The processes of its workers that hold dialogues now."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            title = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"ray::_Actor.hold") and process.pid in ancestors(int(path.name)):
            found.append(int(path.name))
    return found


@pytest.fixture(scope="module")
def one_process(model: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of two iterations in one process."""
    folder = tmp_path_factory.mktemp("one") / "run"
    finish(begin(model, folder, 2))
    found = results(folder)
    assert {"metrics.jsonl", "evaluations.jsonl", "model/model.safetensors"} <= found.keys()
    assert len(found["metrics.jsonl"].splitlines()) == 3
    return found


@with_ray
@pytest.mark.slow
def test_one_worker_gives_the_run_of_one_process(
    model: str, one_process: dict[str, bytes], tmp_path: Path
) -> None:
    finish(begin(model, tmp_path / "run", 2, *on_ray(1)))
    assert results(tmp_path / "run") == one_process


@with_ray
@pytest.mark.slow
def test_a_run_begun_with_ray_goes_on_without(
    model: str, one_process: dict[str, bytes], tmp_path: Path
) -> None:
    finish(begin(model, tmp_path / "run", 1, *on_ray(1)))
    finish(begin(model, tmp_path / "run", 2, "--resume"))
    assert results(tmp_path / "run") == one_process


@with_ray
@pytest.mark.slow
def test_a_worker_killed_while_it_holds_dialogues_changes_nothing(
    model: str, tmp_path: Path
) -> None:
    finish(begin(model, tmp_path / "whole", 2, *on_ray(2)))
    process = begin(model, tmp_path / "run", 2, *on_ray(2))
    metrics, deadline = tmp_path / "run" / "metrics.jsonl", time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text() and (victims := holding_workers(process))):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    os.kill(victims[0], signal.SIGKILL)
    finish(process)
    assert results(tmp_path / "run") == results(tmp_path / "whole")


@pytest.mark.slow
def test_a_learner_does_not_import_ray() -> None:
    code = (
        "import sys; from rlver_gym.policy.folder import run;"
        "print([name for name in sys.modules if name.partition('.')[0] == 'ray'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout.strip() == "[]", ended.stderr
