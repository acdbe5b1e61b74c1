"""The programs of the trial with a real Qwen, with a tiny model in its place."""

import json
import sys

import pytest
from paths import ROOT

from research.real_qwen import folds, memory
from rlver_gym.policy.learner import make_learner
from rlver_gym.util.errors import TrainingError

OWN = ROOT / "recordings" / "en" / "samples" / "own"


def test_folds_that_are_done_and_the_model_before_are_not_computed_again(
    tiny_folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(folds.SETTINGS, "max_tokens", 3000)  # the tiny tokenizer's are shorter
    made = []
    asked_before = []

    def make_small(config):
        learner = make_learner(config)
        learner.rated = learner.rated[::12]
        before = learner.models.reference
        assert before

        def score(*given):
            asked_before.append(len(given[0]))
            return before(*given)

        learner.models = learner.models._replace(reference=score)
        made.append(learner)
        return learner

    monkeypatch.setattr(folds, "make_learner", make_small)

    def run(name, *options):
        made.clear()
        asked_before.clear()
        given = [str(tiny_folder), str(OWN), "--folds", "2", "--dtype", "float32"]
        words = ["folds", *given, "--out", str(tmp_path / name), *options]
        monkeypatch.setattr(sys, "argv", words)
        folds.main()
        return capsys.readouterr().out.splitlines()

    whole = run("whole.jsonl")
    assert (len(made), sum(asked_before)) == (2, 18 * 6)
    assert "1 of 2 folds" in run("cut.jsonl", "--only", "0")[-1]
    assert (len(made), sum(asked_before)) == (1, 18 * 6)
    with (tmp_path / "cut.jsonl").open("a") as file:
        file.write('{"fold": 1, "ri')  # a kill within a line
    assert run("cut.jsonl")[-3:] == whole[-3:]
    assert (len(made), sum(asked_before)) == (1, 0)
    lines = [(tmp_path / name).read_text().splitlines() for name in ("whole.jsonl", "cut.jsonl")]
    rights = [[json.loads(line)["right"] for line in of_file] for of_file in lines]
    assert rights[0] == rights[1]
    assert "2 of 2 folds" in run("cut.jsonl")[-1]
    assert not made
    with pytest.raises(TrainingError, match="other settings"):
        run("cut.jsonl", "--share", "2")


def test_a_step_says_what_it_costs(tiny_folder, monkeypatch, capsys):
    monkeypatch.setitem(folds.SETTINGS, "max_tokens", 3000)
    words = ["memory", str(tiny_folder), "--moments", "3", "--dtype", "float32"]
    monkeypatch.setattr(sys, "argv", [*words, "--microbatch-tokens", "4096"])
    memory.main()
    said = json.loads(capsys.readouterr().out)
    assert (said["moments"], said["replies"], said["microbatch_tokens"]) == (3, 18, 4096)
    assert said["peak_gib"] >= said["loaded_gib"] > 0
    assert 0 < said["processor_seconds"] < 60
