"""`rlver-gym sft --ray`: who holds the dialogues. That they are the same: test_ray.py."""

import sys
from pathlib import Path

import pytest

from rlver_gym.cli.training.train import sft
from rlver_gym.io.errors import RlverError


def test_the_dialogues_are_held_on_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RlverError, match=r"pip install '\.\[ray\]'"):
        sft(tmp_path / "warm", dialogues=2, ray="local")
    assert not (tmp_path / "warm").exists()
