"""A key or a password that somebody gives to a command is in none of the files that it writes."""

import json
import os
from base64 import b64encode

import pytest
from command_uses import COMMANDS, PERSONA, USES
from commands import run_command
from pydantic import ValidationError

from rlver_gym import EmpathyEnv
from rlver_gym.llm_client.body_fields import BodyFields
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.util.errors import CardError
from rlver_gym.util.secret_words import find_secret, hide_credentials

SECRETS = [
    "http://me:hunter2pw@host.example/v1",
    "HTTP://me:hunter2pw@host.example",
    "http://me:hunter%32pw@host.example/v1",
    "http%3A%2F%2Fme:hunter2pw%40host.example",
    "https://hunter2pw@host.example/v1",
    "wss://me:hunter2/pw@host.example",
    "http://host.example/v1?api_key=hunter2pw",
    "sk-hunter2pw-0123456789abcd",
    "Authorization: Bearer hunter2pw",
    "password=hunter2pw",
    '{"api_key": "hunter2pw"}',
    "Basic bWU6aHVudGVyMnB3",
    "Cookie: session=hunter2pw",
    "plain-hunter-words",
]
"""The last is what the environment's OPENAI_API_KEY holds."""
ENVIRONMENT = {**os.environ, "OPENAI_API_KEY": SECRETS[-1]}


def options():
    """Every option with a value, and "" for the arguments, of every command."""
    for name, command in COMMANDS.items():
        yield name, ""
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.is_flag:
                yield name, max(parameter.opts, key=len)


OPTIONS = [(name, option) for name, option in options() if option != "--base-url"]


def check_refusal(folder, name, option, secret):
    for words in ([option, secret], [f"{option}={secret}"]) if option else ([secret],):
        done = run_command(*name.split(), *USES[name], *words, cwd=folder, env=ENVIRONMENT)
        said = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == 2, (name, words, said)
        assert "hunter" not in said, (name, words)
        assert "Set OPENAI_API_KEY" in said, (name, words, said)
        assert list(folder.iterdir()) == [], (name, words)


def test_no_option_of_a_command_takes_a_secret(tmp_path):
    assert len(OPTIONS) > 100
    for number, (name, option) in enumerate(OPTIONS):
        check_refusal(tmp_path, name, option, SECRETS[number % len(SECRETS)])


@pytest.mark.parametrize("address", ["http://me:{}@", "HTTP://me:{}@", "http://me%40x:{}@"])
@pytest.mark.parametrize("place", ["option", "environment"])
def test_a_password_in_the_address_of_a_server_is_used_and_written_nowhere(
    tmp_path, address, place
):
    """By bench, judge and rescore, with reports and exports of what they wrote."""
    password = "hunter%32pw"
    with ChatServer(EmbeddedAnswers(card="SAGE-Sentient-v0")) as server:
        url = server.base_url.replace("http://", address.format(password))
        env = {**ENVIRONMENT, **({"OPENAI_BASE_URL": url} if place == "environment" else {})}
        given = place == "option"
        at, option = (["--base-url", url], f"base_url={url}") if given else ([], "timeout_s=30")
        agents = ["--agent", "listener", "--user", "openai:m", "--seeds", "1"]
        for words in (
            ["bench", "--persona", PERSONA, *agents, "--out", "run", *at],
            ["rescore", "run", "--user", "openai:n", "--user-option", option],
            ["judge", "run", "--judge", "openai:j", "--judge-option", option],
            ["report", "run"],
            ["export", "run", "--to", "table"],
        ):
            done = run_command(*words, cwd=tmp_path, env=env)
            # the server is no judge, whose answers are kept all the same
            assert done.returncode == (2 if words[0] == "judge" else 0), (words, done.stderr)
            assert "hunter" not in done.stdout + done.stderr
        assert len(server.requests) > 10
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path for path in files if b"hunter" in path.read_bytes()] == []


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=300", "temperature=0", "a/folder/with@sign.yaml", "me@example.org",
        "https://medium.com/@john", "http://host:8000/v1", "hf:org/model", "openai:gpt-4o",
        "You keep every secret: theirs is safe. password: none", "http://[::1]:8000/v1", "seed",
        "sk-learn", "the tokens of a model", "//share/folder", "http://host/v1?version=2",
        "hf-internal-testing/tiny-random-LlamaForCausalLM", "runs/rk-listener-vs-adaptive-2",
        "a drill sergeant in basic training", "the bearer of misfortune", "cookie: 3 eggs",
    ],
)  # fmt: skip
def test_what_is_no_secret_is_taken(text):
    assert find_secret({"text": text}) is None
    assert BodyFields(extra_body={"text": text}).to_body() == {"text": text}


@pytest.mark.parametrize("secret", SECRETS)
def test_no_field_of_a_request_takes_a_secret(secret, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f" {SECRETS[-1]}\n")
    with pytest.raises(ValidationError, match=r"x\.text holds a key or a password"):
        BodyFields(extra_body={"x": {"text": secret}})


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("api_key", {"extra_body": {"api_key": "abc"}}),
        (r"x\.Authorization", {"extra_body": {"x": [{"Authorization": "abc"}]}}),
        (r"provider\.p\.openai-api-key", {"provider": {"p": {"openai-api-key": "abc"}}}),
        (r"chat_template_kwargs\.note", {"chat_template_kwargs": {"note": "Bearer abc"}}),
        (r"reasoning\.session_cookie", {"reasoning": {"session_cookie": "abc"}}),
        ("reasoning_effort", {"reasoning_effort": "sk-abcdefghij0123"}),
    ],
)
def test_a_field_that_holds_a_secret_is_named(name, fields):
    with pytest.raises(ValidationError, match=f"{name} holds a key or a password"):
        BodyFields(**fields)


def test_the_password_of_the_environments_address_is_found_as_it_is_sent(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", " http://anna:hunter@host/v1\n")
    for text in ("my hunter", b64encode(b"anna:hunter").decode()):
        assert find_secret({"text": text}) == "text"


@pytest.mark.parametrize("value", ["{}", ["x", "{}"], {"": "{}"}, [["{}"]]])
def test_a_secret_in_a_place_without_a_name_is_told(value):
    held = json.loads(json.dumps(value).replace("{}", SECRETS[7]))
    assert find_secret(held) == "a value"


def test_the_commands_of_a_manifest_have_addresses_without_credentials():
    told = "--base-url=HTTP://me:p%40w@Host:8000/v1?key=x"
    assert hide_credentials(told) == "--base-url=HTTP://Host:8000/v1"


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "HTTP://me:hunter2pw@host/v1"},
        {"api_key": "hunter2pw"},
        {"token": "hunter2pw"},
        {"personas": "http://me:hunter2pw@host/people"},
        {"user": "openai:http://me:hunter2pw@host"},
    ],
)
def test_an_environment_takes_no_secret_into_its_spec(options):
    with pytest.raises(CardError, match="would stand in the environment's spec") as refusal:
        EmpathyEnv(**{"user": "openai:m", **options})
    assert "hunter" not in str(refusal.value)
