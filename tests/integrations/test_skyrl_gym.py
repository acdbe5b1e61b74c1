import json
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

pytest.importorskip("skyrl_gym")

import skyrl_gym
from adapters.skyrl_gym_env import ENV_ID, EmpathyTextEnv, make_rows, mask_failed
from failing import FailsInTurn
from omegaconf import OmegaConf
from skyrl_gym.metrics import aggregate_for_environment

from rlver_gym.util.errors import CardError

ROW = make_rows(split="demo", seeds=[5])[0]


def make(env_config=None, **extras):
    return skyrl_gym.make(ENV_ID, env_config=env_config or {}, extras={**ROW, **extras})


def finish(env):
    env.init(ROW["prompt"])
    outputs = [env.step("What happened?")]
    while not outputs[-1]["done"]:
        outputs.append(env.step("What happened?"))
    return outputs


def test_the_first_words_take_the_place_of_the_last_user_message():
    assert json.loads(json.dumps(ROW)) == ROW
    messages, info = make().init(ROW["prompt"])
    assert messages[0] == ROW["prompt"][0]
    assert [one["role"] for one in messages] == ["system", "user"]
    assert messages[1]["content"]
    assert info == {"valid": True}
    assert make().init(ROW["prompt"][:1])[0] == messages
    assert ROW["prompt"][1]["content"] == ""


def test_the_last_turn_has_no_observation_and_metrics_are_those_of_the_episode():
    env = make()
    *before, last = finish(env)
    assert [len(one["observations"]) for one in before] == [1] * len(before)
    assert (last["observations"], bool(last["metadata"]["reply"])) == ([], True)
    assert env.get_metrics()["gain"] == sum(one["reward"] for one in (*before, last))


@pytest.mark.parametrize("turn", [0, 2])
def test_a_user_that_failed_is_flagged_and_left_out_of_the_means(turn):
    failing, fine = make({"user": FailsInTurn(turn)}), make()
    *_, last = finish(failing)
    assert (last["reward"], last["observations"], last["metadata"]["valid"]) == (0.0, [], False)
    finish(fine)
    ended = [failing.get_metrics(), {}, fine.get_metrics()]
    assert aggregate_for_environment(ENV_ID, ended) == {**fine.get_metrics(), "valid": 0.5}
    assert aggregate_for_environment(ENV_ID, ended[:1]) == {"valid": 0.0}
    assert EmpathyTextEnv.aggregate_metrics([{}]) == {}


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


def test_dialogues_that_would_be_cut_off_and_keys_are_refused():
    with pytest.raises(ValueError, match="max_turns=8"):
        make(max_turns=1)
    with pytest.raises(CardError, match="OPENAI_API_KEY"):
        make({"user": "openai:m", "api_key": "sk-1"})


@dataclass
class Config:
    user: str = "openai:person"
    base_url: str = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize("config", [vars(Config()), Config(), OmegaConf.structured(Config())])
@pytest.mark.usefixtures("close_shared_clients")
def test_environments_with_one_config_share_a_user(config):
    first, second = (make(config)._episode._env.user for _ in range(2))
    assert first is second
