import asyncio
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("verifiers.v1")

import verifiers.v1 as vf
from integrations.drivers.verifiers import run_task, say_in_turn
from integrations.scripted import LONG, hold_episode
from verifiers.v1.runtimes import make_runtime

from rlver_gym import EmpathyEnv
from rlver_gym.agents.openai_chat import OpenAIChat
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run_case
from rlver_gym.core.agent import agent_prompt
from rlver_gym.environment.episode import Case
from rlver_gym.library.personas import library
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.testing.chat_server import Refused

ENV = "RLVER-Empathy-v0"
PERSONA = library().ids("train")[3]
SEED = 12345
FAILING = "failing:FailsInTurn"


def make_env(**config):
    taskset = {"id": "rlver-empathy", **config.pop("taskset", {})}
    return vf.load_environment(vf.resolve_env_config({"taskset": taskset, **config}))


def expected_episode(utterances=LONG, seed=SEED):
    return hold_episode(PERSONA, seed, utterances)


def test_the_taskset_holds_each_person_with_each_seed():
    tasks = list(make_env(taskset={"split": "test", "seeds": [7, 3]}).taskset)
    people = library().ids("test")
    assert [(one.data.persona, one.data.seed) for one in tasks] == [
        (person, seed) for person in people for seed in (7, 3)
    ]
    first = tasks[0]
    assert first.data.id == first.key == f"{ENV}/{people[0]}/7"
    assert first.data.prompt is None
    assert first.data.system_prompt == agent_prompt(library().get(people[0]).language)
    assert len({one.key for one in tasks}) == len(tasks)
    chosen = make_env(taskset={"split": "all"}).taskset.include(names=[PERSONA])
    assert [one.data.name for one in chosen] == [PERSONA]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"taskset": {"env": "Nowhere-v0"}}, "no environment 'Nowhere-v0'"),
        ({"taskset": {"split": "dev"}}, "'train', 'validation', 'test', 'demo' or 'all'"),
        ({"taskset": {"seeds": []}}, "at least one"),
        ({"taskset": {"seeds": [1, 1]}}, "different"),
        ({"taskset": {"seeds": [-1]}}, "from 0"),
        ({"user_options": {"api_key": "sk-secret"}}, "Set OPENAI_API_KEY"),
        ({"user_options": {"base_url": "http://me:secret@host/v1"}}, "password"),
    ],
)
def test_bad_settings_are_refused_before_anything_runs(config, words):
    with pytest.raises(ValueError, match=words):
        make_env(**config)


def test_prime_rls_example_names_environments_that_load():
    text = (Path(__file__).parents[2] / "examples/prime_rl/rlver_empathy.toml").read_text()
    settings = tomllib.loads(text)["orchestrator"]
    sizes = [
        len(list(vf.load_environment(vf.resolve_env_config(source["env"])).taskset))
        for phase in ("train", "eval")
        for source in settings[phase]["source"]
    ]
    assert sizes == [8 * len(library().ids("train")), len(library().ids("test"))]


def test_a_rollout_is_the_dialogue_that_the_environment_gives():
    agent = {"sampling": {"temperature": 0.25}}
    with say_in_turn(LONG) as server:
        episode = run_task(server, PERSONA, SEED, agent=agent)
        assert {one["temperature"] for one in server.requests} == {0.25}
    expected = expected_episode()
    (trace,) = episode.traces
    assert episode.ok
    assert trace.reward == trace.rewards["emotion"].score == expected.score
    assert trace.info["turn_rewards"] == expected.rewards
    assert trace.metrics == {
        "final_emotion": expected.emotion,
        "gain": sum(expected.rewards),
        "turns": 8,
        "outcome_content": 0,
        "outcome_left": 0,
        "outcome_out_of_turns": 1,
        "outcome_cut_off": 0,
    }
    said = [(one.role, one.content) for one in trace.messages]
    assert said == [(one["role"], one["content"]) for one in expected.messages[:-1]]


def test_a_rollout_whose_user_failed_can_be_played_again():
    with say_in_turn(LONG) as server:
        failing = {"user": FAILING, "user_options": {"turn": 2, "times": 1}}
        episode = run_task(server, PERSONA, SEED, **failing, retries={"max_retries": 1})
    assert episode.ok
    assert episode.traces[0].reward == expected_episode().score
    assert len(server.requests) == 2 + 8


def test_a_model_that_fails_is_an_error_and_no_score():
    with ChatServer("x", models={"other"}) as server:
        episode = run_task(server, PERSONA, SEED)
    (trace,) = episode.traces
    assert not episode.ok
    assert trace.last_error.type == "ProviderError"
    assert "does not exist" in trace.last_error.message
    assert trace.rewards == {}


def test_a_dialogue_that_a_limit_cuts_off_is_scored_as_it_stands():
    with say_in_turn(LONG) as server:
        episode = run_task(server, PERSONA, SEED, agent={"max_turns": 2})
    expected = expected_episode(LONG[:2])
    (trace,) = episode.traces
    assert episode.ok
    assert trace.stop_condition == "max_turns"
    assert (trace.reward, trace.metrics["outcome_cut_off"]) == (expected.score, 1)
    assert trace.info["turn_rewards"] == expected.rewards


def test_a_dialogue_that_outgrows_the_models_context_is_scored_as_it_stands():
    def answer(body):
        if len(body["messages"]) > 4:
            raise Refused(400, "This model's maximum context length is 200 tokens.")
        return LONG[len(body["messages"]) // 2 - 1]

    with ChatServer(answer) as server:
        episode = run_task(server, PERSONA, SEED)
    (trace,) = episode.traces
    assert episode.ok
    assert (trace.metrics["turns"], trace.metrics["outcome_cut_off"]) == (2, 1)
    assert trace.reward == expected_episode(LONG[:2]).score


def test_the_chat_harness_says_that_it_uses_no_sandbox():
    harness = make_env()._harnesses["agent"]
    with pytest.raises(TypeError, match=r"--env\.agent\.runtime\.type subprocess"):
        asyncio.run(harness.setup(make_runtime(vf.DockerConfig())))


def vf_command(name, *words, folder):
    """What a command of verifiers prints. It pushes nothing anywhere."""
    tools = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONWARNINGS": "ignore"}
    command = [str(tools / name), *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def vf_eval(server, folder, *words):
    return vf_command(
        "vf-eval",
        *("rlver-empathy", "--model", "listener", "--client.base-url", server.base_url),
        *("--env.taskset.seeds", str(SEED), "--select.include.names", PERSONA),
        *("--no-push", "--no-rich", "--output-dir", str(folder), "--run.name", "run", *words),
        folder=folder,
    )


def bench_score(server):
    """What `rlver-gym bench --agent openai:listener` gives for the dialogue of `reset(seed=SEED)`.

    The benchmark numbers its dialogues: its seed is the user's, which `reset` draws with its own.
    """
    env = EmpathyEnv(ENV, persona=PERSONA)
    env.reset(seed=SEED)
    chat = ChatSettings.model_validate({"base_url": server.base_url, "api_key": "any"})
    plan = BenchPlan(env=ENV, agents=("openai:listener",), persona_ids=(PERSONA,))
    case = Case("openai:listener", PERSONA, env.session.scene.seed)
    episode = run_case(case, plan, lambda *_: OpenAIChat("listener", chat=chat))
    return episode.final / 100


@pytest.mark.usefixtures("close_shared_clients")
def test_vf_eval_prints_the_score_that_the_benchmark_gives(tmp_path):
    with ChatServer(EmbeddedAnswers()) as server:
        printed = vf_eval(server, tmp_path, "-r", "2")
        expected = bench_score(server)
        asked = [one["messages"] for one in server.requests]
    assert re.findall(r"rollout done: .* reward=(\S+)", printed) == [f"{expected:.3f}"] * 2
    last_calls = [one[1:] for one in asked if len(one) == max(map(len, asked))]
    assert last_calls == [last_calls[0]] * 3
    assert len(last_calls[0]) == 15


def test_vf_replay_scores_a_saved_run_again(tmp_path):
    with ChatServer(EmbeddedAnswers()) as server:
        vf_eval(server, tmp_path)
    vf_command("vf-replay", "run", "--no-rich", "--output-dir", "again", folder=tmp_path)
    (saved,) = (tmp_path / "run/traces.jsonl").read_text().splitlines()
    (again,) = (tmp_path / "again/traces.jsonl").read_text().splitlines()
    first, second = (json.loads(one)["traces"][0] for one in (saved, again))
    assert first["rewards"] == second["rewards"] != {}
    assert first["metrics"] == second["metrics"] != {}


@pytest.mark.slow
@pytest.mark.usefixtures("close_shared_clients")
def test_vf_eval_with_the_null_harness_gives_the_same_score(tmp_path):
    with ChatServer(EmbeddedAnswers()) as server:
        printed = vf_eval(
            server,
            tmp_path,
            *("--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"),
        )
        expected = bench_score(server)
        assert {one.get("stream") for one in server.requests[:8]} == {True}
    assert re.findall(r"rollout done: .* reward=(\S+)", printed) == [f"{expected:.3f}"]
