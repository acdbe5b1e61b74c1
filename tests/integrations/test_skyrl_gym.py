import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

pytest.importorskip("skyrl_gym")

import skyrl_gym
from integrations.drivers import gymnasium
from integrations.failing import FailsInTurn
from omegaconf import OmegaConf
from skyrl_gym.metrics import aggregate_for_environment

from rlver_gym.core.library import library
from rlver_gym.integrations.gyms.skyrl_gym import EmpathyTextEnv, make_rows, mask_failed
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.util.errors import CardError, DialogueError, TrainingError, UnknownName

PERSONA = library().ids("demo")[0]
ROW = make_rows(split="demo", seeds=[5])[0]


def make(row=ROW, env_config=None, **extras):
    return skyrl_gym.make("rlver_empathy", env_config=env_config or {}, extras={**row, **extras})


def finish(env, utterance="What happened?"):
    """The outputs of an episode in which the same is said again and again."""
    env.init(ROW["prompt"])
    outputs = [env.step(utterance)]
    while not outputs[-1]["done"]:
        outputs.append(env.step(utterance))
    return outputs


def test_rows_are_plain_values_and_name_whom_the_environment_meets():
    rows = make_rows(split="demo", seeds=(1, 2))
    assert json.loads(json.dumps(rows)) == rows
    assert [one["persona"] for one in rows[::2]] == list(library().ids("demo"))
    assert [one["seed"] for one in rows[:2]] == [1, 2]
    assert {one["env_class"] for one in rows} == {"rlver_empathy"}
    assert [one["role"] for one in rows[0]["prompt"]] == ["system", "user"]


def test_the_first_words_take_the_place_of_the_last_user_message():
    messages, info = make().init(ROW["prompt"])
    assert messages[0] == ROW["prompt"][0]
    assert [one["role"] for one in messages] == ["system", "user"]
    assert messages[1]["content"]
    assert info == {"valid": True}
    assert make().init(ROW["prompt"][:1])[0] == messages
    assert ROW["prompt"][1]["content"] == ""


def test_rewards_are_those_of_gymnasium_and_the_last_turn_has_no_observation():
    env = make()
    outputs = finish(env)
    assert [one["reward"] for one in outputs] == (
        gymnasium.play(PERSONA, 5, ["What happened?"] * 8).rewards
    )
    assert [one["role"] for output in outputs[:-1] for one in output["observations"]] == [
        "user"
    ] * (len(outputs) - 1)
    assert outputs[-1]["observations"] == []
    assert outputs[-1]["metadata"]["reply"]
    metrics = env.get_metrics()
    assert metrics["gain"] == sum(one["reward"] for one in outputs)
    assert (metrics["turns"], metrics["valid"]) == (len(outputs), 1.0)
    with pytest.raises(DialogueError, match="over"):
        env.step("Hello?")


def test_observations_hold_what_was_said_and_nothing_else():
    env = make()
    messages, _ = env.init(ROW["prompt"])
    output = env.step("What happened?")
    shown = [*messages[1:], *output["observations"]]
    assert [set(one) for one in shown] == [{"role", "content"}] * 2
    assert [one["content"] for one in shown] == [
        one["content"] for one in env._episode.messages if one["role"] == "user"
    ]


def test_a_user_that_failed_is_flagged_and_left_out_of_the_means():
    failing, fine = make(env_config={"user": FailsInTurn(2)}), make()
    outputs = finish(failing)
    assert [one["metadata"]["valid"] for one in outputs] == [True, False]
    assert (outputs[-1]["reward"], outputs[-1]["observations"]) == (0.0, [])
    finish(fine)
    ended = [failing.get_metrics(), {}, fine.get_metrics()]
    assert ended[0]["valid"] == 0.0
    means = aggregate_for_environment("rlver_empathy", ended)
    assert means == {**fine.get_metrics(), "valid": 0.5}
    assert aggregate_for_environment("rlver_empathy", ended[:1]) == {"valid": 0.0}
    assert EmpathyTextEnv.aggregate_metrics([{}]) == {}


def test_a_user_that_failed_at_once_ends_the_episode_with_the_first_step():
    env = make(env_config={"user": FailsInTurn(0)})
    messages, info = env.init(ROW["prompt"])
    assert (messages, info) == (ROW["prompt"], {"valid": False})
    output = env.step("Hello?")
    assert (output["done"], output["reward"], output["metadata"]["valid"]) == (True, 0.0, False)
    assert env.get_metrics()["valid"] == 0.0


def test_a_trajectory_whose_user_failed_has_no_token_to_learn_from():
    def trajectory(valid):
        return SimpleNamespace(loss_mask=[1, 0, 1], env_metrics={"valid": valid})

    first = SimpleNamespace(loss_mask=[1, 1], env_metrics={})
    assert mask_failed(trajectory(0.0)).loss_mask == [0, 0, 0]
    assert mask_failed(trajectory(1.0)).loss_mask == [1, 0, 1]
    mask_failed(SimpleNamespace(step_outputs=[first, trajectory(1.0)]))
    assert first.loss_mask == [1, 1]
    mask_failed(SimpleNamespace(step_outputs=[first, trajectory(0.0)]))
    assert first.loss_mask == [0, 0]


def test_what_the_generator_would_cut_off_and_bad_rows_are_errors():
    with pytest.raises(TrainingError, match="max_turns=8"):
        make(max_turns=1)
    with pytest.raises(DialogueError, match="list_specs"):
        skyrl_gym.make("rlver_empathy")
    with pytest.raises(UnknownName, match="nobody"):
        make(persona="nobody")
    with pytest.raises(UnknownName, match="split"):
        make(env_config={"split": "test"})
    with pytest.raises(CardError, match="OPENAI_API_KEY"):
        make(env_config={"user": "openai:m", "api_key": "sk-1"})


@dataclass
class Config:
    user: str = "openai:person"
    base_url: str = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize("form", ["dict", "dataclass", "omegaconf"])
@pytest.mark.usefixtures("close_shared_clients")
def test_environments_with_one_config_share_a_user_that_is_a_server(form):
    with ChatServer(EmbeddedAnswers()) as server:
        config = {
            "dict": {"user": "openai:person", "base_url": server.base_url},
            "dataclass": Config(base_url=server.base_url),
            "omegaconf": OmegaConf.structured(Config(base_url=server.base_url)),
        }[form]
        envs = [make(row, config) for row in make_rows(split="demo")[:3]]
        with ThreadPoolExecutor(3, "skyrl-gym-env-") as executor:
            ended = list(executor.map(finish, envs))
    assert len({id(env._episode._env.user) for env in envs}) == 1
    assert all(one[-1]["done"] and one[-1]["metadata"]["valid"] for one in ended)
