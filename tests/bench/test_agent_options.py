"""What chat models are asked with, and not sent, from the command line into the manifest."""

import json
import os

import pytest
from commands import run_command

from rlver_gym.agents.openai_chat import AGENT_OPTIONS, parse_agent_options
from rlver_gym.bench.folder import MANIFEST, RESPONSE_CACHE_FILE
from rlver_gym.bench.judge.ask import HEEDED
from rlver_gym.bench.verify import verify
from rlver_gym.library.personas import library
from rlver_gym.llm_client.body_fields import THINKING_SWITCH
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.users.llm import LLMOptions

PERSON = library().ids("demo")[0]
ANSWERS = EmbeddedAnswers(card="SAGE-Sentient-v0")


def bench(server, folder, *words):
    asked = ["bench", "--agent", "openai:a", "--persona", PERSON, "--seeds", "1"]
    asked += ["--base-url", server.base_url, "--out", str(folder), *words]
    return run_command(*asked, env=os.environ | {"OPENAI_API_KEY": "x", "COLUMNS": "300"})


def test_agent_options_are_sent_with_every_request_and_pinned_in_the_manifest(tmp_path):
    words = ("temperature=0", "top_p=0.9", "max_tokens=50", "thinking=false", "stop=###")
    options = [word for pair in words for word in ("--agent-option", pair)]
    with ChatServer(ANSWERS) as server:
        done = bench(server, tmp_path / "greedy", *options, "--user", "openai:u")
        assert done.returncode == 0, done.stderr
        for body in (one for one in server.requests if one["model"] == "a"):
            assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0, 0.9, 50)
            assert body["chat_template_kwargs"] == {"enable_thinking": False}
            assert body["stop"] == "###"
        assert all("top_p" not in body for body in server.requests if body["model"] == "u")
        again = bench(server, tmp_path / "greedy", "--user", "openai:u")
        assert again.returncode == 2
        assert "another plan" in again.stderr
        sampled = bench(server, tmp_path / "sampled", "--user", "openai:u")
        assert sampled.returncode == 0
    plan = json.loads((tmp_path / "greedy" / MANIFEST).read_text(encoding="utf-8"))["plan"]
    assert plan["agent_options"]["temperature"] == 0
    assert plan["agent_options"]["thinking"] is False
    plan = json.loads((tmp_path / "sampled" / MANIFEST).read_text(encoding="utf-8"))["plan"]
    assert plan["agent_options"] == {}
    assert set(verify(tmp_path / "greedy")) == {None}


def test_omitted_fields_are_not_sent_and_are_pinned(tmp_path):
    with ChatServer(ANSWERS) as server:
        done = bench(server, tmp_path, "--omit", "seed", "--omit", "temperature", "--timeout", "9")
        assert done.returncode == 0, done.stderr
        assert all({"seed", "temperature"}.isdisjoint(body) for body in server.requests)
    manifest = json.loads((tmp_path / MANIFEST).read_text(encoding="utf-8"))
    assert manifest["agents"]["openai:a"]["omit"] == "seed,temperature"
    assert set(verify(tmp_path)) == {None}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--agent-option", "temprature=0"), "temperature"),
        (("--agent-option", "temperature=5"), "temperature"),
        (("--agent-option", "temperature"), "NAME=VALUE"),
        (("--agent-option", "api_key=abc"), "OPENAI_API_KEY"),
        (("--agent-option", "temperature=0", "--omit", "temperature"), "Leave one out"),
        (("--omit", "messages"), "response_format"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_before_anything_is_asked(words, says, tmp_path):
    with ChatServer("x") as server:
        done = bench(server, tmp_path, *words)
        assert done.returncode == 2
        assert says in done.stderr
        assert server.requests == ()


def test_options_of_an_agent_that_only_some_servers_know_are_kept():
    kept = {"thinking": {"type": "disabled"}, "reasoning_effort": "low"}
    assert parse_agent_options(kept) == kept


BODY = {
    "thinking=false": {"chat_template_kwargs": {"enable_thinking": False}},
    "enable_thinking=false": {"enable_thinking": False},
    "reasoning_effort=low": {"reasoning_effort": "low"},
    'reasoning={"enabled": false}': {"reasoning": {"enabled": False}},
    'provider={"order": ["a"]}': {"provider": {"order": ["a"]}},
    "repetition_penalty=1.1": {"repetition_penalty": 1.1},
    'extra_body={"priority": 3, "chat_mode": "x"}': {"priority": 3, "chat_mode": "x"},
}


@pytest.mark.parametrize("option", BODY)
def test_agent_user_and_judge_send_the_same_fields_with_every_request_and_pin_them(
    option, tmp_path
):
    fields, run, env = BODY[option], tmp_path / "run", os.environ | {"OPENAI_API_KEY": "x"}
    with ChatServer(ANSWERS) as server:
        asked = ("--user", "openai:u", "--agent-option", option, "--user-option", option)
        done = bench(server, run, *asked)
        assert done.returncode == 0, done.stderr
        judged = ["judge", str(run), "--judge", "openai:j", "--judge-option", option]
        judged += ["--judge-option", f"base_url={server.base_url}"]
        run_command(*judged, env=env)  # this server judges nothing
        assert {body["model"] for body in server.requests} == {"a", "u", "j"}
        for body in server.requests:
            assert {name: body.get(name) for name in fields} == fields
        other = bench(server, run, "--user", "openai:u", "--agent-option", option)
    assert "another plan" in other.stderr
    plan = json.loads((run / MANIFEST).read_text(encoding="utf-8"))["plan"]
    name = option.partition("=")[0]
    assert name in plan["user_options"]
    assert name in plan["agent_options"]
    (judgement,) = map(json.loads, (run / "judgements.jsonl").read_text().splitlines())
    assert judgement["options"] == fields
    keys = [row.request for row in ResponseCache(run / RESPONSE_CACHE_FILE).rows()]
    assert all(json.loads(key)["options"] == fields for key in keys)
    assert set(verify(run)) == {None}


SECRETS = [
    ('extra_body={"x": [{"Authorization": "abc"}]}', "Set OPENAI_API_KEY"),
    ('extra_body={"messages": []}', "messages"),
    ('extra_body={"top_p": 0.5}', "top_p"),
]
"""A secret in a field, the others of which are those of tests/cli/test_secret_options.py."""


@pytest.mark.parametrize("of", ["agent", "user", "judge"])
@pytest.mark.parametrize(("option", "says"), SECRETS)
def test_a_secret_and_what_only_we_set_are_refused_before_anything_is_written(
    of, option, says, tmp_path
):
    run = tmp_path / "run"
    with ChatServer("x") as server:
        if of == "judge":
            base_url = f"base_url={server.base_url}"
            plain = f"bench --agent listener --persona {PERSON} --out {run}".split()
            assert run_command(*plain).returncode == 0
            words = ("--judge-option", option, "--judge-option", base_url)
            done = run_command("judge", str(run), "--judge", "openai:j", *words)
        else:
            done = bench(server, run, "--user", "openai:u", f"--{of}-option", option)
        assert server.requests == ()
    assert done.returncode == 2
    assert says in done.stderr
    assert "abc" not in done.stderr
    assert of == "judge" or not run.exists() or not list(run.iterdir())


def test_the_remedy_for_thoughts_names_options_that_agent_user_and_judge_have():
    named = {word.partition("=")[0] for word in THINKING_SWITCH.split() if "=" in word}
    assert len(named) == 3
    for known in (AGENT_OPTIONS, LLMOptions.model_fields, HEEDED):
        assert named <= set(known)
