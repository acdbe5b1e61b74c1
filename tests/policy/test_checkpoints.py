"""Checkpoints and the files of a training run: whole or not there."""

import json

from rlver_gym.policy.checkpoints import Checkpoints


def _one(path):
    (path / "weights").write_text("w" * 100)


def test_the_last_ones_and_the_best_stay(tmp_path):
    kept = Checkpoints(tmp_path, keep=2)
    for iteration, score in [(1, 5.0), (2, 9.0), (3, 7.0), (4, None), (5, 8.0)]:
        kept.write(iteration, _one, score)
    assert [path.name for path in kept.all()] == ["000002", "000004", "000005"]
    assert kept.best() == tmp_path / "000002"
    assert kept.latest() == tmp_path / "000005"


def test_a_score_that_is_no_number_is_not_the_best(tmp_path):
    kept = Checkpoints(tmp_path, keep=1)
    for iteration, score in [(1, 50.0), (2, float("nan")), (3, 1.0)]:
        kept.write(iteration, _one, score)
    assert kept.best() == tmp_path / "000001"


def test_one_that_was_interrupted_is_not_there_and_can_be_written_again(tmp_path):
    kept = Checkpoints(tmp_path)
    (tmp_path / ".000002.tmp").mkdir(parents=True)
    assert kept.latest() is None
    kept.write(2, _one)
    assert kept.latest() == tmp_path / "000002"


def test_a_resumed_run_that_writes_the_best_iteration_again_may_lower_it(tmp_path):
    kept = Checkpoints(tmp_path)
    kept.write(3, _one, 9.0)
    kept.write(3, _one, 4.0)
    assert json.loads((tmp_path / "best.json").read_text()) == {"iteration": 3, "score": 4.0}
