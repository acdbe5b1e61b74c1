"""What every integration keeps, through the framework's own calls, by a driver for each."""

import importlib
import os
from pathlib import Path

import pytest
from integrations.drivers import gymnasium
from integrations.scripted import LONG, RUDE
from paths import FRAMEWORKS

from rlver_gym.library.personas import library
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.util.errors import UnknownName

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),  # of inspect_ai
]
REQUIRED = os.environ.get("RLVER_INTEGRATION", "")
"""The framework whose drivers alone are tried and not skipped; `make integration-NAME` sets it."""
ALL_DRIVERS = sorted(
    path.stem
    for path in (Path(__file__).parent / "drivers").glob("*.py")
    if path.stem not in ("__init__", "gymnasium")
)
DRIVERS = [name for name in ALL_DRIVERS if name.startswith(REQUIRED)]
AS_GIVEN = {"bench", "rllib", "sb3", "serve", "vector"}
"""Where words are said as they are given: what a model sampled is read by whoever sampled it."""
PERSONA = library().ids("train")[3]
TO_THE_END = (*LONG, "One more thing: sleep well.")
INSULTS = (RUDE,) * 8
FAILING = {0: "failing:FailsAtOnce", 2: "failing:FailsInSecondTurn"}


@pytest.fixture(params=DRIVERS)
def driver(request):
    try:
        return importlib.import_module(f"integrations.drivers.{request.param}")
    except ImportError as error:
        if REQUIRED:
            raise
        pytest.skip(f"{request.param} is not installed: {error}")


def name_of(driver):
    return driver.__name__.rpartition(".")[2]


@pytest.mark.parametrize("utterances", [TO_THE_END, INSULTS], ids=["to the end", "they leave"])
@pytest.mark.parametrize("seed", [0, 12345])
def test_an_episode_gives_the_words_and_rewards_that_gymnasium_gives(driver, seed, utterances):
    played, expected = (one.play(PERSONA, seed, utterances) for one in (driver, gymnasium))
    assert played.rewards == expected.rewards
    assert not played.failed
    if played.texts is not None:
        assert played.texts == expected.texts[: len(played.texts)]
        assert len(played.texts) >= len(played.rewards)


THOUGHT = f"<think>{RUDE}"


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ([f"{THOUGHT}</think>{one}" for one in TO_THE_END], TO_THE_END),
        ([TO_THE_END[0], THOUGHT, *TO_THE_END[2:]], [TO_THE_END[0], "", *TO_THE_END[2:]]),
    ],
    ids=["whole", "cut off"],
)
def test_thoughts_of_a_model_are_not_heard(driver, said, heard):
    expected = gymnasium.play(PERSONA, 5, said if name_of(driver) in AS_GIVEN else heard)
    assert driver.play(PERSONA, 5, said).rewards == expected.rewards


@pytest.mark.parametrize("turn", FAILING)
def test_a_user_that_fails_is_told_and_gives_no_reward(driver, turn):
    played = driver.play(PERSONA, 5, TO_THE_END, FAILING[turn])
    assert played.failed
    rewards = gymnasium.play(PERSONA, 5, TO_THE_END).rewards[: max(0, turn - 1)]
    assert played.rewards in (rewards, [])


@pytest.mark.usefixtures("close_shared_clients")
def test_a_language_model_as_the_user_gives_what_it_gives_in_gymnasium(driver, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    with ChatServer(EmbeddedAnswers()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        played, expected = (
            one.play(PERSONA, 3, TO_THE_END, "openai:any") for one in (driver, gymnasium)
        )
    assert played.rewards == expected.rewards
    assert not played.failed


def test_a_user_that_does_not_exist_is_named(driver):
    with pytest.raises(UnknownName, match=r"there is no user 'nobody'.*embedded"):
        driver.play(PERSONA, 5, TO_THE_END, "nobody")


def test_an_episode_says_the_same_again_after_another_one(driver):
    first = driver.play(PERSONA, 7, TO_THE_END)
    driver.play(library().ids("train")[4], 8, INSULTS)
    assert driver.play(PERSONA, 7, TO_THE_END) == first


def test_the_utterances_end_an_episode_in_both_ways():
    assert len(gymnasium.play(PERSONA, 0, TO_THE_END).rewards) == 8
    assert len(gymnasium.play(PERSONA, 0, INSULTS).rewards) < 8


def test_every_driver_is_run_somewhere():
    """By `.ci/full integrations`, or where Stable-Baselines3, TRL or nothing is needed."""
    here = {"bench", "episodes", "sb3", "trl", "trl_tool", "vector"}
    assert {*ALL_DRIVERS} == {*FRAMEWORKS, *here}
