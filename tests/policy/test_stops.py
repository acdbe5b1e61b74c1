"""Runs that are stopped, killed, gone on with, or started twice: nothing is lost, doubled, mixed or
overwritten unasked.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
import torch
from interrupts import end_in, heeding_ctrl_c
from safetensors.torch import load_file, save_file
from tiny_policy import SHORT
from typer.testing import CliRunner

from rlver_gym.cli.root import app
from rlver_gym.cli.train import spell_flag
from rlver_gym.corpora.demonstrations import Demonstration
from rlver_gym.policy import iteration, learner, run_sft, sft
from rlver_gym.policy import run_training as running
from rlver_gym.policy.checkpoints import Checkpoints, load
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.learner import make_learner
from rlver_gym.policy.learning.metrics import read_metrics
from rlver_gym.policy.models.tiny_model import build_tiny_model
from rlver_gym.policy.run_training import run_training
from rlver_gym.policy.sft_config import SftConfig, make_sft_config
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.json_lines import open_locked
from rlver_gym.util.stop import StopRequested, StopSignals, handle_stops

SMALL = SHORT | {"iterations": 3, "max_reply_tokens": 6, "lr": 1e-3, "eval_every": 2}
SMALL |= {"eval_dialogues": 2, "save_every": 1, "show_every": 1}


@pytest.fixture(scope="module")
def model(one_thread, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    build_tiny_model(folder, hidden=32, layers=1, vocab=400)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"attention_dropout": 0.1}))
    return str(folder)


def make_small(model, algo):
    own = {"critic_knows": "persona", "group_size": 4} if algo == "ppo" else {}
    return TrainConfig(model=model, algo=algo, **SMALL | own)


@pytest.fixture(scope="module")
def config(model):
    return make_small(model, "grpo")


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """A run without a stop. Do not write to it: take a copy."""
    return run_training(config, out=tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture(scope="module")
def whole_ppo(model, tmp_path_factory):
    return run_training(make_small(model, "ppo"), out=tmp_path_factory.mktemp("runs") / "ppo")


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def read_traces(folder):
    """What the seed decides in a run's folder."""
    names = ("metrics.jsonl", "evaluations.jsonl", "dialogues.md", "model/model.safetensors")
    last = [f"checkpoints/000003/{name}" for name in ("learner.safetensors", "state.json")]
    return {name: (folder / name).read_bytes() for name in (*names, *last)}


MOMENTS = {
    "evaluating before the first iteration": ((running, "evaluate", 1), 0, 0),
    "talking": ((learner, "collect_rollouts", 3), 1, 1),
    "preparing": ((iteration, "score_with_models", 2), 2, 1),
    "learning": ((iteration, "take_steps", 2), 2, 1),
    "evaluating": ((running, "evaluate", 2), 2, 1),
    "writing the numbers down": ((running, "_append_evaluation", 2), 2, 1),
    "saving": ((running, "save", 2), 2, 1),
}
"""The module and function in which it ends, at which call, and the iterations that are kept by a
stop, and when it is killed.
"""


ENDINGS = [(moment, ending, "grpo") for moment in MOMENTS for ending in ("killed", "SIGINT")]
ENDINGS += [("learning", "SIGTERM", "grpo")]
PPO_ENDINGS = [(moment, ending, "ppo") for moment in MOMENTS for ending in ("killed", "SIGTERM")]


@pytest.mark.parametrize(
    ("moment", "ending", "algo"),
    [*ENDINGS, *(pytest.param(*values, marks=pytest.mark.slow) for values in PPO_ENDINGS)],
)
def test_a_stop_keeps_the_last_whole_iteration_and_the_run_goes_on_as_if_there_had_been_none(
    moment, ending, algo, model, whole, whole_ppo, tmp_path
):
    (place, if_stopped, if_killed), config = MOMENTS[moment], make_small(model, algo)
    with pytest.MonkeyPatch.context() as patch:
        error = end_in(patch, place, ending)
        with heeding_ctrl_c(), pytest.raises(error):
            run_training(config, out=tmp_path)
    latest = Checkpoints(tmp_path / "checkpoints").latest()
    kept = if_killed if ending == "killed" else if_stopped
    assert (latest and latest.name) == (f"{kept:06d}" if kept else None)
    with pytest.raises(TrainingError, match="holds a run already"):
        run_training(config, out=tmp_path)
    run_training(config, out=tmp_path, resume=True)
    assert read_traces(tmp_path) == read_traces(whole if algo == "grpo" else whole_ppo)


@pytest.mark.parametrize("is_interruptible", [False, True])
def test_a_second_stop_ends_at_once_and_its_echo_does_not(is_interruptible, monkeypatch):
    now = 100.0
    monkeypatch.setattr("rlver_gym.util.stop.time.monotonic", lambda: now)
    stop = StopSignals()
    with heeding_ctrl_c(), stop.listen():
        with stop.interruptible() if is_interruptible else nullcontext(), suppress(StopRequested):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_requested
        now = 102.0
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_stop_while_modules_are_imported_ends_with_130(name, tmp_path):
    made_from_text = f"import os, signal; os.kill(os.getpid(), signal.{name}); sum(range(10**7))"
    (tmp_path / "stopped_here.py").write_text(f"exec({made_from_text!r})", encoding="utf-8")
    program = (
        "import signal, sys; from rlver_gym.cli.train import import_with_torch as do;"
        " from rlver_gym.util.stop import handle_stops\n"
        "try:\n"
        "    with handle_stops(signal.default_int_handler): do('stopped_here')\n"
        "except KeyboardInterrupt: sys.exit(130)"
    )
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    with heeding_ctrl_c():
        process = subprocess.run([sys.executable, "-m", "program"], cwd=tmp_path)
    assert process.returncode == 130


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew_with_resume_alone(
    whole, copy, config, capsys
):
    shutil.rmtree(copy / "checkpoints")
    before = read_traces(whole)
    with pytest.raises(TrainingError, match="holds a run already"):
        run_training(config, out=copy)
    assert (copy / "metrics.jsonl").read_bytes() == before["metrics.jsonl"]
    run_training(config, out=copy, resume=True)
    assert "it begins anew" in " ".join(capsys.readouterr().err.split())
    assert read_traces(copy) == before


@pytest.mark.parametrize("name", ["metrics.jsonl", "config.json", "dialogues.md", "model"])
def test_nothing_that_lies_in_the_folder_is_overwritten_unasked(name, config, tmp_path):
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(TrainingError, match=name.replace(".", r"\.")):
        run_training(config, out=tmp_path)
    assert (tmp_path / name).is_symlink()
    with pytest.raises(TrainingError, match="no checkpoint"):
        run_training(config, out=tmp_path / "none", resume=True)


def run_command(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, f"{result.exception} {result.output}"


def test_resume_takes_the_options_of_the_folder(copy, config):
    code, told = run_command("train", "--resume", "--out", copy, "--iterations", 4)
    assert code == 0, told
    assert read_metrics(copy)[-1]["iteration"] == 4
    saved = TrainConfig(**json.loads((copy / "config.json").read_text()))
    assert saved == config.model_copy(update={"iterations": 4})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--lr", "0.5"], "made with lr 0.001, this run has 0.5"),
        (["--model", "tiny"], "this run has 'tiny'"),
        (["--algo", "ppo"], "made with algo 'grpo', this run has 'ppo'"),
        (["--seed", "7"], "made with seed 0, this run has 7"),
        (["--env-options", "split=demo"], "made with env_options {}"),
        (["--target-kl", "0.2"], "made with target_kl None, this run has 0.2"),
        (["--config", "smollm2"], "this run has"),
    ],
)
def test_an_option_said_again_that_differs_is_refused_by_name(options, says, whole):
    before = read_traces(whole)
    code, told = run_command("train", "--resume", "--out", whole, *options)
    assert code != 0
    assert says in told
    assert read_traces(whole) == before


def test_options_said_again_that_are_the_same_are_taken(copy, model):
    same = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    code, told = run_command("train", "--resume", "--out", copy, "--model", model, *same)
    assert code == 0, told


@pytest.mark.parametrize(
    "values",
    [
        {"env_options": {"user": "own_module:User"}},
        {"reference": "own_module:User"},
        {"env": "own_module:Env-v0"},
    ],
)
def test_a_folder_alone_makes_resume_import_nothing(values, copy):
    path = copy / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    code, told = run_command("train", "--resume", "--out", copy)
    assert code != 0
    assert "names a module, which a file cannot" in told


@pytest.mark.parametrize(
    "name",
    ["config.json", "metrics.jsonl", "checkpoints", "checkpoints/000003/state.json", "model"],
)
def test_resume_follows_no_link_out_of_its_folder(name, copy, tmp_path, config):
    (copy / name).rename(tmp_path / "outside")
    (copy / name).symlink_to(tmp_path / "outside")
    with pytest.raises(TrainingError, match="leads out of the folder"):
        run_training(config, out=copy, resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_process_on_the_same_folder_is_refused(resume, copy, tmp_path, config):
    folder = copy if resume else tmp_path / "new"
    with (
        open_locked(folder / ".lock"),
        pytest.raises(TrainingError, match="another process is writing here"),
    ):
        run_training(config, out=folder, resume=resume)


@pytest.mark.parametrize("name", ["learner.safetensors", "optimizer.pt"])
def test_a_checkpoint_that_lacks_a_tensor_names_it(name, copy, config):
    folder = copy / "checkpoints" / "000003"
    lost = "actor.model.model.norm.weight"
    if name == "optimizer.pt":
        values = torch.load(folder / name, weights_only=True)
        del values["state"][lost]
        torch.save(values, folder / name)
    else:
        weights = load_file(folder / name)
        del weights[lost]
        save_file(weights, folder / name)
    with pytest.raises(TrainingError, match=rf"{name} lacks {lost}"):
        load(make_learner(config), folder)


TALK = [
    Demonstration(("Hi.",), (f"Hello there, {who}.",), ("",), who=who)
    for who in ("Ann", "Ben", "Cy", "Dan", "Eve", "Flo", "Gil", "Hal", "Ivy", "Jo")
]


def teach_small(model, out, resume=False, **changes):
    values = {"model": model, "epochs": 3, "lr": 1e-2, "held_out": 0.2, "save_every": 2}
    run_sft.teach(make_sft_config(values | changes, "the test"), TALK, out, resume=resume)


@pytest.fixture(scope="module")
def taught(model, tmp_path_factory):
    """A warm start of six steps without a stop. Do not write to it: take a copy."""
    folder = tmp_path_factory.mktemp("taught") / "whole"
    teach_small(model, folder)
    return folder


def read_all(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


SFT_MOMENTS = {
    "reading the model": ((run_sft, "load_model", 1), None),
    "before the first step": ((run_sft, "measure_cross_entropy", 1), None),
    "the first step": ((sft.SupervisedLearner, "learn", 1), None),
    "after a checkpoint": ((sft.SupervisedLearner, "learn", 4), 2),
    "writing a loss down": ((run_sft, "append_lines", 6), 4),
    "writing a checkpoint": ((run_sft, "save_weights", 2), 2),
    "measuring a pass": ((run_sft, "measure_cross_entropy", 3), 2),
    "writing the model": ((run_sft, "export_model", 1), 6),
}
"""Where it ends, at which call, and the step of the last checkpoint if it is killed there."""


@pytest.mark.parametrize("ending", ["killed", "SIGINT", "SIGTERM"])
@pytest.mark.parametrize("moment", SFT_MOMENTS)
def test_a_warm_start_goes_on_to_the_same_bytes_wherever_it_ended(
    moment, ending, model, taught, tmp_path
):
    (place, kept), out = SFT_MOMENTS[moment], tmp_path / "warm"
    with pytest.MonkeyPatch.context() as patch:
        error = end_in(patch, place, ending)
        with heeding_ctrl_c(), handle_stops(signal.default_int_handler), pytest.raises(error):
            teach_small(model, out)
    latest = Checkpoints(out / "checkpoints").latest()
    if ending == "killed":
        assert (latest and int(latest.name)) == kept
    assert not (out / "config.json").exists()
    if moment != "reading the model":
        with pytest.raises(TrainingError, match="or go on with --resume"):
            teach_small(model, out)
    teach_small(model, out, resume=True)
    assert read_all(out) == read_all(taught)
    assert [path.name for path in tmp_path.iterdir()] == ["warm"]


def test_a_model_that_is_there_stays_as_it_is(model, taught, tmp_path, capsys):
    before = read_all(taught)
    teach_small(model, taught, resume=True)
    assert "is there already" in capsys.readouterr().err
    with pytest.raises(TrainingError, match="is not empty"):
        teach_small(model, taught)
    killed = tmp_path / ".warm.part"
    killed.mkdir()
    (killed / "half.safetensors").write_text("what a killed process left")
    teach_small(model, tmp_path / "warm")
    assert read_all(tmp_path / "warm") == read_all(taught) == before


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lr": 0.5}, "made with lr 0.01, this run has 0.5"),
        ({"epochs": 4}, "made with epochs 3, this run has 4"),
        ({"lora_rank": 2}, "made with lora_rank 0, this run has 2"),
        ({"held_out": 0.0}, "made with held_out 0.2, this run has 0.0"),
    ],
)
def test_a_warm_start_goes_on_with_its_own_options_alone(changes, says, model, taught):
    with pytest.raises(TrainingError, match=says):
        teach_small(model, taught, resume=True, **changes)


def test_a_warm_start_goes_on_with_its_own_demonstrations_alone(model, taught, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "TALK", TALK[::-1])
    with pytest.raises(TrainingError, match="learned from other demonstrations"):
        teach_small(model, taught, resume=True)


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"config": {}, "x": 1}'])
def test_what_is_no_warm_start_does_not_go_on(content, model, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    if content is not None:
        (tmp_path / "sft.json").write_text(content)
    with pytest.raises(TrainingError, match="the folder of a warm start"):
        teach_small(model, tmp_path, resume=True)
    assert (tmp_path / "notes.txt").exists()


def test_two_models_are_not_taught_into_one_folder(model, tmp_path):
    with (
        open_locked(tmp_path / ".warm.part" / ".lock"),
        pytest.raises(TrainingError, match="another process is writing here"),
    ):
        teach_small(model, tmp_path / "warm")


SECRETS = (
    "sk-proj-abcdefghijklmnop1234",
    "Bearer abcdefgh12345678",
    "http://somebody:hunter22@127.0.0.1:9/v1",
    "http://127.0.0.1:9/v1?api_key=hunter22",
)
NAMED = ("api_key", "password", "auth-token", "base_url", "note")


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("kind", [TrainConfig, SftConfig])
def test_no_secret_reaches_a_file_by_any_option(kind, secret, tmp_path):
    options, command = [], "train" if kind is TrainConfig else "sft"
    for name, field in kind.model_fields.items():
        flag = spell_flag(name)
        if "dict" in str(field.annotation):
            options += [[flag, f"{key}={secret}"] for key in NAMED]
        elif "str" in str(field.annotation) or "Path" in str(field.annotation):
            options.append([flag, secret])
    assert len(options) > (15 if kind is TrainConfig else 2)
    for number, words in enumerate(options):
        more = ["--reference", "reader"] if words[0] == "--reference-options" else []
        out = tmp_path / str(number)
        code, told = run_command(command, "--out", out, *more, *words)
        assert code != 0, words
        assert "would stand in the run's files" in told, words
        assert secret not in told
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
