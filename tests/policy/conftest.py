"""What the tests of the learner share."""

import pytest


@pytest.fixture(scope="session")
def model(one_thread, tmp_path_factory):
    """The folder of a model of one layer. Do not write to it: take a copy."""
    from rlver_gym.policy.models.tiny_model import build_tiny_model

    folder = tmp_path_factory.mktemp("models") / "small"
    build_tiny_model(folder, hidden=32, layers=1, vocab=400)
    return str(folder)
