"""The reference beside the reward: measured, drawn, and a reason to stop."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlver_gym.core.dialogue import Appraisal
from rlver_gym.policy import run_training as folders
from rlver_gym.policy.checkpoints import Checkpoints
from rlver_gym.policy.config import make_config
from rlver_gym.policy.learner import make_learner
from rlver_gym.policy.learning.metrics import read_metrics
from rlver_gym.policy.reference import RewardOveroptimisationCheck, sample_dialogues
from rlver_gym.policy.run_training import run_training
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import TrainingError, UserFailed

SMALL: dict[str, Any] = {
    "iterations": 4,
    "dialogues": 4,
    "group_size": 2,
    "max_reply_tokens": 8,
    "max_tokens": 1024,
    "lr": 1e-2,
    "eval_every": 0,
    "save_every": 1,
    "reference": "test_reference:Whimsical",
    "reference_every": 2,
}


class Whimsical(EmbeddedUser):
    """Feels by the length of what is said."""

    def appraise(self, scene: Any, emotion: int, dialogue: Any) -> Appraisal:
        return Appraisal(len(dialogue.utterance) % 7 - 3, "", ())


class Absent(EmbeddedUser):
    def appraise(self, scene: Any, emotion: int, dialogue: Any) -> Appraisal:
        raise UserFailed("gone")


def small_run(folder: Path, model: Path, resume: bool = False, **changes: Any) -> Path:
    config = make_config({"model": str(model)} | SMALL | changes, "the test")
    return run_training(config, out=folder, resume=resume)


def gaps(folder: Path) -> dict[int, float]:
    lines = read_metrics(folder)
    return {one["iteration"]: one["reference_gap"] for one in lines if "reference_gap" in one}


@pytest.mark.slow
def test_a_run_stops_at_its_gap_in_words_and_goes_on_as_if_it_had_not(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = small_run(tmp_path / "whole", tiny_folder, reference_every=1)
    found = gaps(whole)
    assert list(found) == [1, 2, 3, 4]
    assert found[1] == 0
    for line in read_metrics(whole):
        apart = line["reference_reward"] - line["reference_score"]
        start = line["reference_gap"] - apart
        assert start == pytest.approx(found[2] - _apart(whole, 2))
    assert "reference" in (whole / "curves.svg").read_text(encoding="utf-8")
    limit = max(found.values()) - 1e-6
    assert limit > 0
    stops = next(number for number, gap in found.items() if gap > limit)
    capsys.readouterr()
    cut = small_run(tmp_path / "cut", tiny_folder, reference_every=1, stop_on_gap=limit)
    said = " ".join(capsys.readouterr().err.split())
    assert f"stopped after iteration {stops}" in said
    assert "--resume --stop-on-gap none" in said
    latest = Checkpoints(cut / "checkpoints").latest()
    assert latest is not None
    assert latest.name == f"{stops:06d}"
    small_run(cut, tiny_folder, resume=True, reference_every=1)
    assert (cut / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def _apart(folder: Path, iteration: int) -> float:
    line = next(one for one in read_metrics(folder) if one["iteration"] == iteration)
    return line["reference_reward"] - line["reference_score"]


def test_it_is_asked_every_few_iterations_at_first_and_at_last() -> None:
    few = {"iterations": 5, "reference": "reader", "reference_every": 3}
    asked: Any = SimpleNamespace(config=make_config(few, "the test"))
    assert [
        number for number in range(1, 6) if RewardOveroptimisationCheck.is_due(asked, number)
    ] == [1, 3, 5]


def test_a_reference_that_fails_at_all_dialogues_stops_nothing(
    tiny_folder: Path, tmp_path: Path
) -> None:
    changes = {"iterations": 1, "stop_on_gap": 0.1, "reference": "test_reference:Absent"}
    (line,) = read_metrics(small_run(tmp_path, tiny_folder, **changes))
    assert (line["reference_gap"], line["reference_failed"]) == (None, 4)
    assert (
        json.loads((tmp_path / "checkpoints/000001/state.json").read_text())["reference_start"]
        is None
    )


def test_dialogues_are_sampled_evenly_from_those_that_count() -> None:
    class One:
        def __init__(self, number: int) -> None:
            self.number, self.valid = number, number != 0

    dialogues: Any = [One(number) for number in range(9)]
    assert [one.number for one in sample_dialogues(dialogues, 4)] == [1, 3, 5, 7]
    assert len(sample_dialogues(dialogues, 100)) == 8
    assert sample_dialogues(dialogues[:1], 4) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"stop_on_gap": 5.0}, "stop_on_gap would be ignored: there is no reference"),
        ({"reference": "embedded"}, "reference is embedded, the user that pays"),
        ({"reference": "reader", "env_options": {"user": "reader"}}, "the user that pays"),
    ],
)
def test_a_reference_that_would_say_nothing_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(TrainingError, match=says):
        make_config(options, "the options")


def test_without_cards_there_is_nothing_to_appraise_by(tiny_folder: Path) -> None:
    config = make_config({"model": str(tiny_folder)} | SMALL, "the test")
    learner = make_learner(config)
    learner.envs = [_NoCards()]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TrainingError, match="no persona and env cards on this machine"):
        folders.RewardOveroptimisationCheck(learner)


class _NoCards:
    unwrapped = None


def test_within_an_iteration_a_run_without_a_terminal_says_how_far_it_is(
    tiny_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rlver_gym.util.progress.SECONDS_BETWEEN_LINES", 0.0)
    small_run(tmp_path, tiny_folder, iterations=1, epochs=2)
    said = capsys.readouterr().err
    for stage in ("replies, 4 of 4", "micro-batches scored, 0 of", "steps, 1 of 2"):
        assert stage in said
    assert "kl start" in said, "the distance from the start is shown each iteration"
