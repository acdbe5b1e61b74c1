"""Where the numbers of a run go: the page of curves."""

import pytest

from rlver_gym.policy.curves import write_curves
from rlver_gym.util.errors import TrainingError


def test_a_folder_that_tells_no_emotions_has_no_curves(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(TrainingError, match="holds no metrics yet"):
        write_curves(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 1, "return": 3.0}\n', encoding="utf-8")
    assert write_curves(tmp_path) is None
