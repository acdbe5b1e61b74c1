"""Where the numbers of a run go beside its own files: trackers and the page of curves."""

import sys

import pytest

from rlver_gym.policy.curves import write_curves
from rlver_gym.policy.learning.metrics import RunLog
from rlver_gym.util.errors import TrainingError

TRACKER = """
calls = []
def init(**named): calls.append(("init", named))
def log(numbers, step): calls.append(("log", numbers, step))
def finish(): calls.append(("finish",))
"""


def test_a_tracker_is_given_the_config_each_finite_number_and_the_end(tmp_path, monkeypatch):
    (tmp_path / "trackio.py").write_text(TRACKER, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "trackio", raising=False)
    with RunLog(tmp_path / "run-7", {"lr": 0.1}, track="trackio") as log:
        log.write(1, {"return": 3.0, "emotion": float("nan")}, {"seconds": 2.0})
        log.write(2, {"return": 4.0, "emotion": 55.0}, {"seconds": 1.0})
    assert sys.modules.pop("trackio").calls == [
        ("init", {"project": "rlver-gym", "name": "run-7", "config": {"lr": 0.1}}),
        ("log", {"return": 3.0, "seconds": 2.0}, 1),
        ("log", {"return": 4.0, "emotion": 55.0, "seconds": 1.0}, 2),
        ("finish",),
    ]


@pytest.mark.parametrize("name", ["json", "trackio"])
def test_a_tracker_that_is_none_or_not_installed_is_named(name, tmp_path, monkeypatch):
    monkeypatch.setattr("rlver_gym.policy.learning.metrics.find_spec", lambda name: None)
    with pytest.raises(TrainingError, match=rf"'{name}' is not there. One of: wandb, trackio; .*"):
        RunLog(tmp_path, {}, track=name)


def test_a_folder_that_tells_no_emotions_has_no_curves(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(TrainingError, match="holds no metrics yet"):
        write_curves(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 1, "return": 3.0}\n', encoding="utf-8")
    assert write_curves(tmp_path) is None
