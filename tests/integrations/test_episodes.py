import asyncio
import re

import pytest
from failing import FailsInTurn
from paths import ROOT

from rlver_gym import env_card
from rlver_gym.integrations import episodes
from rlver_gym.integrations.episodes import EpisodeHost, EpisodeSpec, list_specs
from rlver_gym.library.personas import library
from rlver_gym.util.errors import DialogueError, UnknownName

PERSONA = library().ids("train")[0]
SPEC = EpisodeSpec(PERSONA, 5)


def test_the_code_that_teaches_the_driver_runs():
    (block,) = re.findall(r"```python\n(.*?)```", episodes.__doc__ or "", re.DOTALL)
    exec(block, known := {})
    assert known["reply"]
    assert (known["done"], known["valid"]) == (False, True)


@pytest.mark.parametrize(
    "adapter", list((ROOT / "examples" / "adapters").glob("*.py")), ids=lambda path: path.stem
)
def test_an_adapter_stands_on_the_driver_and_on_other_public_places_alone(adapter):
    places = re.findall(r"^(?:from|import) (rlver_gym\S*)", adapter.read_text(), re.MULTILINE)
    public = {"rlver_gym", episodes.__name__, "rlver_gym.util.errors"}
    assert set(places) <= {*public, "rlver_gym.environment.strategy_env"}
    assert episodes.__name__ in places


def test_specs_name_each_persona_of_the_split_with_each_seed():
    specs = list_specs(split="demo", seeds=(1, 2))
    assert [one.persona for one in specs[::2]] == list(library().ids("demo"))
    assert [one.seed for one in specs[:4]] == [1, 2, 1, 2]
    assert len(list_specs("SAGE-Sentient-v0")) == len(library().ids("test"))


def test_a_row_names_an_episode_and_may_hold_more():
    assert EpisodeSpec.from_dict({**SPEC.to_dict(), "prompt": "x"}) == SPEC


@pytest.mark.parametrize(
    "row", [{}, {"persona": 3}, {"persona": PERSONA, "seed": "1"}, {"seed": 1}]
)
def test_a_row_that_names_nobody_is_an_error_that_says_how_to_make_one(row):
    with pytest.raises(DialogueError, match="list_specs"):
        EpisodeSpec.from_dict(row)


def test_an_unknown_persona_is_named():
    with pytest.raises(UnknownName, match="nobody"):
        EpisodeHost().episode(EpisodeSpec("nobody"))


def test_messages_are_what_a_policy_is_given_and_metrics_are_numbers():
    episode = EpisodeHost().episode(SPEC)
    opening = episode.begin()
    result = episode.say("What happened?")
    roles = [one["role"] for one in episode.messages]
    assert roles == ["system", "user", "assistant", "user"]
    texts = [one["content"] for one in episode.messages[1:]]
    assert texts == [opening, "What happened?", result.reply]
    start = env_card(SPEC.env).start
    assert episode.metrics["gain"] == result.reward == episode.emotion - start
    assert episode.metrics["turns"] == 1
    assert episode.score == episode.emotion / 100


def test_nothing_can_be_said_before_the_beginning_or_after_the_end():
    episode = EpisodeHost().episode(SPEC)
    with pytest.raises(DialogueError, match="not begun"):
        episode.say("Hello")
    episode.begin()
    while not episode.say("You are pathetic, shut up.").done:
        pass
    assert episode.metrics["outcome_left"] == 1
    with pytest.raises(DialogueError, match="over"):
        episode.say("Hello?")


def test_an_episode_can_begin_again_and_is_the_same_on_an_event_loop():
    episode = EpisodeHost().episode(SPEC)

    async def play():
        await episode.abegin()
        for _ in range(3):
            await episode.asay("That sounds hard. What did you do?")
        return episode.rewards

    episode.begin()
    for _ in range(3):
        episode.say("That sounds hard. What did you do?")
    before = episode.rewards
    assert asyncio.run(play()) == before


def test_a_user_without_first_words_has_one_turn_that_failed():
    episode = EpisodeHost(FailsInTurn(0)).episode(SPEC)
    assert episode.begin() == ""
    assert episode.say("Hello?") == ("", 0.0, True, False)
    with pytest.raises(DialogueError, match="over"):
        episode.say("Hello?")


def test_a_user_that_fails_ends_the_episode_and_it_is_no_score():
    episode = EpisodeHost(FailsInTurn(2)).episode(SPEC)
    episode.begin()
    assert episode.say("What happened?").valid
    result = episode.say("And then?")
    assert (result.done, result.valid, result.reward) == (True, False, 0.0)
    assert episode.score is None
    assert episode.metrics["outcome_failed"] == 1
