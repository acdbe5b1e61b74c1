"""open-instruct's interface of a text environment, against a stand-in for its base classes."""

import asyncio
import json

import pytest
from integrations.drivers.open_instruct import EnvCall, make_env, roll_out

from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.library import library
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.integrations.episodes import EpisodeHost, EpisodeSpec, list_specs
from rlver_gym.integrations.gyms.open_instruct import (
    EmpathyTextEnv,
    EmpathyTextEnvConfig,
    make_rows,
)
from rlver_gym.io.errors import (
    CardError,
    DialogueError,
    ServerRefused,
    TrainingError,
    UnknownName,
    UserFailed,
)
from rlver_gym.users import EmbeddedUser

SPEC = EpisodeSpec(library().ids("train")[3], 5)
KWARGS = SPEC.to_dict()
UTTERANCES = ("I'm listening. What happened?", "That sounds exhausting.", "What would help you?")
RUDE = "Shut up, you are pathetic. Nobody cares."
SECRET = "amina is afraid of the letter"


class FailsLater(EmbeddedUser):
    """Fails in the second turn."""

    def appraise(self, scene, emotion, dialogue):
        if dialogue.turns:
            raise UserFailed("the server is away")
        return super().appraise(scene, emotion, dialogue)


class Refused(EmbeddedUser):
    """Its server refuses, and quotes what it was asked."""

    def appraise(self, scene, emotion, dialogue):
        raise ServerRefused(f"400: bad prompt: {SECRET}")


class Speechless(EmbeddedUser):
    """Has no first words."""

    def open(self, scene, emotion):
        raise UserFailed("no words")


def reference(utterances):
    episode = EpisodeHost().episode(SPEC)
    episode.begin()
    for one in utterances:
        if episode.say(one).done:
            break
    return episode


def play(env, texts, kwargs=KWARGS):
    return asyncio.run(roll_out(env, kwargs, texts))


def test_a_step_says_the_text_and_gives_the_answer_as_the_users():
    env = make_env()
    results = play(env, UTTERANCES)
    episode = reference(UTTERANCES)
    assert [one.reward for one in results] == episode.rewards
    assert [one.result for one in results] == [one["content"] for one in episode.messages[3::2]]
    assert not any(one.done or one.metadata for one in results)
    assert env.get_response_role() == "user"
    assert env.state().step_count == 3


def test_a_rollout_is_done_when_the_person_leaves_and_the_next_one_begins_anew():
    env = make_env()
    rude = play(env, [RUDE] * 8)
    assert [one.reward for one in rude] == reference([RUDE] * 8).rewards
    assert rude[-1].done
    assert env.get_metrics()["outcome_left"] == 1
    with pytest.raises(DialogueError):
        asyncio.run(env.step(EnvCall(id="9", name="", args={"text": "Hello?"})))
    assert [one.reward for one in play(env, UTTERANCES)] == reference(UTTERANCES).rewards


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{RUDE}</think>{UTTERANCES[0]}",
        f"\n<think>\n{RUDE}\n</think>\n\n{UTTERANCES[0]}<|im_end|>\n",
        f"{UTTERANCES[0]}</s>",
    ],
)
def test_thoughts_and_what_ends_a_text_are_not_heard(text):
    env = make_env()
    (result,) = play(env, [text])
    assert result.reward == reference(UTTERANCES[:1]).rewards[0]
    assert env._episode.messages[2]["content"] == UTTERANCES[0]


def test_thoughts_that_were_cut_off_are_silence():
    (result,) = play(make_env(), [f"<think>{RUDE}"])
    assert result.reward == reference([""]).rewards[0]


def test_metrics_are_numbers_of_the_dialogue():
    env = make_env()
    assert env.get_metrics() == {}
    play(env, UTTERANCES)
    expected = reference(UTTERANCES).metrics
    assert expected.pop("outcome_failed") == 0
    assert env.get_metrics() == {**expected, "failed": 0.0}


def test_a_user_that_fails_ends_the_rollout_and_stops_the_training():
    env = EmpathyTextEnv(user=FailsLater())
    *_, last = play(env, UTTERANCES)
    assert (last.done, last.result) == (True, "")
    assert "failed" in last.metadata["error"]
    with pytest.raises(UserFailed, match="stop_on_failure"):
        env.get_metrics()


@pytest.mark.parametrize(("user", "num_turns"), [(FailsLater(), 2), (Speechless(), 1)])
def test_the_training_can_go_on_without_the_failed_turn(user, num_turns):
    env = EmpathyTextEnv(user=user, stop_on_failure=False)
    results = play(env, UTTERANCES)
    assert len(results) == num_turns
    assert results[-1].done
    assert results[-1].metadata["error"]
    assert env.get_metrics()["failed"] == 1
    assert sum(one.reward for one in results) == sum(reference(UTTERANCES[: num_turns - 1]).rewards)


def test_an_error_of_the_users_server_is_neither_read_by_the_policy_nor_a_score(caplog):
    env = EmpathyTextEnv(user=Refused())
    (result,) = play(env, UTTERANCES)
    assert (result.done, result.result) == (True, "")
    assert SECRET not in result.model_dump_json()
    assert SECRET in caplog.text
    with pytest.raises(UserFailed, match="stop_on_failure") as caught:
        env.get_metrics()
    assert SECRET not in repr(caught.value)
    going_on = EmpathyTextEnv(user=Refused(), stop_on_failure=False)
    play(going_on, UTTERANCES)
    assert going_on.get_metrics()["failed"] == 1


def test_rows_hold_the_first_words_and_what_reset_gets():
    rows = [json.loads(json.dumps(one)) for one in make_rows(split="demo", seeds=(1, 2))]
    specs = list_specs(split="demo", seeds=(1, 2))
    assert len(rows) == len(specs)
    for row, spec in zip(rows, specs, strict=True):
        opening = EpisodeHost().episode(spec).begin()
        assert row["messages"] == [
            {"role": "system", "content": agent_prompt()},
            {"role": "user", "content": opening},
        ]
        (entry,) = row["env_config"]["env_configs"]
        assert (entry.pop("env_name"), entry.pop("is_text_env")) == ("rlver_empathy", True)
        assert entry == {**spec.to_dict(), "opening": opening}
    assert rows[0]["env_config"]["max_steps"] == 8
    assert rows[0]["dataset"] == "passthrough"
    assert not set(rows[0]) & set(EmpathyEnv.privileged_info)
    assert play(make_env(), UTTERANCES[:1], entry)[0].result


def test_a_prompt_that_begins_otherwise_than_the_person_is_an_error():
    with pytest.raises(TrainingError, match="make_rows"):
        play(make_env(), UTTERANCES, {**KWARGS, "opening": "Good morning."})


def test_the_config_names_its_environment():
    assert EmpathyTextEnvConfig.tool_class is EmpathyTextEnv
    assert EmpathyTextEnv.config_name == "rlver_empathy"
    assert make_env(stop_on_failure=False)._stop_on_failure is False


def test_what_cannot_be_played_is_an_error_that_says_why():
    with pytest.raises(DialogueError, match="list_specs"):
        play(make_env(), UTTERANCES, {})
    with pytest.raises(UnknownName, match="nobody"):
        make_env(user="nobody")
    with pytest.raises(CardError, match="OPENAI_API_KEY"):
        make_env(user="openai:any", options={"api_key": "secret"})
    with pytest.raises(DialogueError, match="not begun"):
        asyncio.run(make_env().text_step("Hello"))
    with pytest.raises(UserFailed):
        make_rows(split="demo", user=Speechless())
