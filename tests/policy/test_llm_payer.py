"""Training with a language model that appraises while the embedded user speaks."""

import asyncio
import os
import signal

import pytest

from rlver_gym.policy import run_training as runs
from rlver_gym.policy.config import make_config
from rlver_gym.policy.evaluate import evaluate
from rlver_gym.policy.learner import make_learner
from rlver_gym.policy.learning.metrics import read_metrics
from rlver_gym.policy.run_training import _summarise_training, run_training
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.util.errors import BudgetSpent


def test_an_iteration_over_replies_asks_once_a_moment(tiny_folder):
    with ChatServer(EmbeddedAnswers()) as server:
        user = {"user": "openai:payer", "base_url": server.base_url, "speaker": "embedded"}
        values = {"model": str(tiny_folder), "compare": "replies", "group_size": 4, "dialogues": 3}
        values |= {"env_options": user, "max_reply_tokens": 8, "workers": 3, "eval_every": 0}
        learner = make_learner(make_config(values, "the test"))
        trajectories = learner.collect()
        learner.close()
        moments = sum(len(one.reward_N) for one in trajectories)
        assert sum(len(one.alternatives) for one in trajectories) == 3 * moments
        assert len(server.requests) == moments
        assert moments > len(trajectories)


def test_the_benchmark_that_is_proposed_has_the_same_user(tmp_path):
    user = {"user": "openai:payer", "base_url": "http://127.0.0.1:1/v1", "speaker": "embedded"}
    asked = {**user, "on_failure": "truncate", "card": "my/card.yaml"}
    config = make_config({"env_options": asked}, "the test")
    command = _summarise_training(config, tmp_path, 1, {}, is_alarmed=False).splitlines()[-1]
    assert command.partition("rlver-gym bench ")[2].startswith("--env my/card.yaml --user ")
    assert (
        "--user openai:payer --user-option base_url=http://127.0.0.1:1/v1 --user-option"
        " speaker=embedded --split validation --agent hf:"
    ) in command
    assert "on_failure" not in command
    assert "card=" not in command


def test_an_evaluation_that_a_server_ends_is_held_again(tiny_folder, tmp_path, monkeypatch):
    values = {"model": str(tiny_folder), "group_size": 2, "dialogues": 2, "max_reply_tokens": 8}
    values |= {"eval_every": 1, "eval_dialogues": 2, "iterations": 2, "save_every": 1}
    config, asked = make_config(values, "the test"), []

    def evaluate_twice(learner):
        asked.append(learner.iteration)
        if asked == [0, 1, 2]:
            raise BudgetSpent("it is spent")
        return evaluate(learner)

    monkeypatch.setattr(runs, "evaluate", evaluate_twice)
    with pytest.raises(BudgetSpent):
        run_training(config, out=tmp_path)
    assert [path.name for path in (tmp_path / "checkpoints").glob("0*")] == ["000001"]
    run_training(config, out=tmp_path, resume=True)
    assert [line["iteration"] for line in read_metrics(tmp_path)] == [0, 1, 2]
    assert all("eval_score" in line for line in read_metrics(tmp_path))


@pytest.mark.usefixtures("close_shared_clients")
def test_a_spent_budget_keeps_what_was_learned_and_a_larger_one_goes_on(tiny_folder, tmp_path):
    with ChatServer(EmbeddedAnswers()) as server:
        user = {"user": "openai:payer", "base_url": server.base_url, "speaker": "embedded"}
        values = {"model": str(tiny_folder), "compare": "replies", "group_size": 2, "dialogues": 1}
        values |= {"max_reply_tokens": 8, "eval_every": 0, "iterations": 3, "save_every": 3}

        def train(calls, *, resume):
            options = {**user, "budget": {"calls": calls}}
            config = make_config({**values, "env_options": options}, "the test")
            return run_training(config, out=tmp_path, resume=resume)

        with pytest.raises(BudgetSpent, match="raise the budget"):
            train(12, resume=False)
        (last,) = (tmp_path / "checkpoints").iterdir()
        assert 0 < int(last.name) == read_metrics(tmp_path)[-1]["iteration"] < 3
        train(99, resume=True)
        assert read_metrics(tmp_path)[-1]["iteration"] == 3


def test_a_stop_waits_for_no_server(tiny_folder, tmp_path):
    async def stop_and_hang(body):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(3600)

    with ChatServer(stop_and_hang) as server:
        user = {"user": "openai:payer", "base_url": server.base_url, "timeout_s": 20, "attempts": 9}
        values = {"model": str(tiny_folder), "dialogues": 3, "workers": 3, "eval_every": 0}
        config = make_config({"env_options": user, "group_size": 3, **values}, "the test")
        with pytest.raises(KeyboardInterrupt):
            run_training(config, out=tmp_path / "run")
        assert 1 <= len(server.requests) <= 3, "none is asked again"
