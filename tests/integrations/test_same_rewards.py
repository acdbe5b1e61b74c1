"""The same persona, seed and utterances give the same rewards in every framework."""

import importlib
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from integrations.drivers import episodes, gymnasium

from rlver_gym.core.library import library

DRIVERS = sorted(
    path.stem
    for path in (Path(__file__).parent / "drivers").glob("*.py")
    if path.stem not in ("__init__", "gymnasium")
)
REQUIRED = os.environ.get("RLVER_INTEGRATION", "")
"""The framework that has to be installed: its driver is not skipped. Set by `make
integration-NAME`.
"""
PERSONA = library().ids("train")[3]
LONG = (
    "I'm listening. What happened?",
    "That sounds exhausting, and you carried it alone.",
    "What did they say to you then?",
    "Just cheer up.",
    "I am sorry. That was careless of me. What would help you right now?",
    "You did a lot there, and nobody thanked you for it.",
    "What would you want them to understand?",
    "Thank you for telling me all this.",
    "One more thing: sleep well.",
)
RUDE = ("Shut up, you are pathetic. Nobody cares.",) * 8


@pytest.mark.parametrize("utterances", [LONG, RUDE], ids=["to the end", "they leave"])
@pytest.mark.parametrize("seed", [0, 12345])
@pytest.mark.parametrize("name", DRIVERS)
def test_an_episode_gives_the_rewards_that_gymnasium_gives(name, seed, utterances):
    try:
        driver = importlib.import_module(f"integrations.drivers.{name}")
    except ImportError as error:
        if name == REQUIRED:
            raise
        pytest.skip(f"{name} is not installed: {error}")
    assert driver.play(PERSONA, seed, utterances) == gymnasium.play(PERSONA, seed, utterances)


def test_the_utterances_end_an_episode_in_both_ways():
    assert len(gymnasium.play(PERSONA, 0, LONG)) == 8
    assert len(gymnasium.play(PERSONA, 0, RUDE)) < 8
    assert episodes.play(PERSONA, 0, RUDE) != episodes.play(PERSONA, 0, LONG)


@pytest.mark.skipif(not REQUIRED, reason="only in an environment made for one framework")
def test_the_framework_of_this_environment_has_a_driver():
    assert REQUIRED in DRIVERS
    assert find_spec(f"integrations.drivers.{REQUIRED}")
