"""What every integration keeps, through the framework's own calls: `drivers` has one for each.

What is peculiar to a framework stands in a file of its own.
"""

import importlib
import os
from pathlib import Path
from types import ModuleType

import pytest
from integrations.drivers import gymnasium
from paths import FRAMEWORKS

from rlver_gym.core.library import library
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.util.errors import UnknownName

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),  # of inspect_ai
]
REQUIRED = os.environ.get("RLVER_INTEGRATION", "")
"""The framework that has to be installed: its drivers alone are tried, and are not skipped. Set by
`make integration-NAME`.
"""
ALL_DRIVERS = sorted(
    path.stem
    for path in (Path(__file__).parent / "drivers").glob("*.py")
    if path.stem not in ("__init__", "gymnasium")
)
DRIVERS = [name for name in ALL_DRIVERS if name.startswith(REQUIRED)]
AS_GIVEN = {"bench", "rllib", "sb3", "serve", "vector"}
"""Where words are said as they are given: what a model sampled is read by whoever sampled it."""
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
FAILING = {0: "failing:FailsAtOnce", 2: "failing:FailsInSecondTurn"}


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> ModuleType:
    try:
        return importlib.import_module(f"integrations.drivers.{request.param}")
    except ImportError as error:
        if REQUIRED:
            raise
        pytest.skip(f"{request.param} is not installed: {error}")


def name_of(driver: ModuleType) -> str:
    return driver.__name__.rpartition(".")[2]


@pytest.mark.parametrize("utterances", [LONG, RUDE], ids=["to the end", "they leave"])
@pytest.mark.parametrize("seed", [0, 12345])
def test_an_episode_gives_the_words_and_rewards_that_gymnasium_gives(driver, seed, utterances):
    played, expected = (one.play(PERSONA, seed, utterances) for one in (driver, gymnasium))
    assert played.rewards == expected.rewards
    assert not played.failed
    if played.texts is not None:
        assert played.texts == expected.texts[: len(played.texts)]
        assert len(played.texts) >= len(played.rewards)


THOUGHT = f"<think>{RUDE[0]}"


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ([f"{THOUGHT}</think>{one}" for one in LONG], LONG),
        ([LONG[0], THOUGHT, *LONG[2:]], [LONG[0], "", *LONG[2:]]),
    ],
    ids=["whole", "cut off"],
)
def test_thoughts_of_a_model_are_not_heard(driver, said, heard):
    expected = gymnasium.play(PERSONA, 5, said if name_of(driver) in AS_GIVEN else heard)
    assert driver.play(PERSONA, 5, said).rewards == expected.rewards


@pytest.mark.parametrize("turn", FAILING)
def test_a_user_that_fails_is_told_and_gives_no_reward(driver, turn):
    played = driver.play(PERSONA, 5, LONG, FAILING[turn])
    assert played.failed
    rewards = gymnasium.play(PERSONA, 5, LONG).rewards[: max(0, turn - 1)]
    assert played.rewards in (rewards, [])


@pytest.mark.usefixtures("close_shared_clients")
def test_a_language_model_as_the_user_gives_what_it_gives_in_gymnasium(driver, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    with ChatServer(EmbeddedAnswers()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        played, expected = (one.play(PERSONA, 3, LONG, "openai:any") for one in (driver, gymnasium))
    assert played.rewards == expected.rewards
    assert not played.failed


def test_a_user_that_does_not_exist_is_named(driver):
    with pytest.raises(UnknownName, match=r"there is no user 'nobody'.*embedded"):
        driver.play(PERSONA, 5, LONG, "nobody")


def test_an_episode_says_the_same_again_after_another_one(driver):
    first = driver.play(PERSONA, 7, LONG)
    driver.play(library().ids("train")[4], 8, RUDE)
    assert driver.play(PERSONA, 7, LONG) == first


def test_the_utterances_end_an_episode_in_both_ways():
    assert len(gymnasium.play(PERSONA, 0, LONG).rewards) == 8
    assert len(gymnasium.play(PERSONA, 0, RUDE).rewards) < 8


def test_every_driver_is_run_somewhere():
    """By `.ci/full integrations`, or where Stable-Baselines3, TRL or nothing is needed."""
    here = {"bench", "episodes", "sb3", "trl", "trl_tool", "vector"}
    assert {*ALL_DRIVERS} == {*FRAMEWORKS, *here}
