"""The OpenAI agent against servers that misbehave: each is one AgentError."""

import json
from types import SimpleNamespace

import pytest
from asking import answering
from typer.testing import CliRunner

from rlver_gym import Message, make_agent
from rlver_gym.agents.openai_chat import OpenAIChat
from rlver_gym.agents.own import require_text
from rlver_gym.cli import app
from rlver_gym.library.personas import library
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.util.errors import AgentError, AgentFailed, ServerRefused, ServerUnreachable

HELLO = (Message("user", "My dog died."),)
ONCE = ChatSettings(attempts=1)


@pytest.fixture
def server(monkeypatch):
    """Gives its `answer` to every request, and keeps the last one's `body`."""
    server = SimpleNamespace(answer=None, body=None)

    def answer(request):
        server.body = json.loads(request.body)
        return 200, server.answer

    with answering(answer) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        yield server


def completion(content, ended="stop"):
    message = {"role": "assistant", "content": content}
    return {"choices": [{"message": message, "finish_reason": ended}]}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("Welcome", "no usable answer"),
        (completion(" \n "), "text"),
        (completion("<think>I should be kind"), "answered without text"),
        (completion("<think>He is", "length"), r"took all the tokens.* Raise max_tokens"),
        (completion("", "length"), "Raise max_tokens"),
        (completion("<|channel|>analysis<|message|>He is", "length"), "Raise max_tokens"),
    ],
)
def test_an_answer_that_is_no_utterance_is_named(server, answer, says):
    server.answer = answer
    with pytest.raises(AgentError, match=says) as error:
        OpenAIChat("m", chat=ONCE).reply(HELLO)
    assert str(error.value).startswith("http://127.0.0.1")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (completion("<think>\nHe is sad.\n</think>\n\nI am sorry."), "I am sorry."),
        (completion(" <think></think>I am sorry."), "I am sorry."),
        (completion("I say <think> aloud </think>."), "I say <think> aloud </think>."),
        (completion("<think>He is sad.</think>I am sorry that", "length"), "I am sorry that"),
    ],
)
def test_what_is_said_is_the_answer_without_thoughts(server, answer, said):
    server.answer = answer
    assert OpenAIChat("m", chat=ONCE).reply(HELLO) == said


def test_a_failure_on_the_cache_names_the_command_that_forgets_it(server, tmp_path):
    cache = tmp_path / "response_cache.sqlite"
    server.answer = completion(None)
    chat = ChatSettings(attempts=1, response_cache=cache)
    with pytest.raises(AgentError, match=f"cache prune --failures {cache}"):
        OpenAIChat("m", chat=chat).reply(HELLO)
    server.answer = completion("I am sorry.")
    with pytest.raises(AgentError, match="no usable answer"):
        OpenAIChat("m", chat=chat).reply(HELLO)
    assert CliRunner().invoke(app, ["cache", "prune", "--failures", str(cache)]).exit_code == 0
    assert OpenAIChat("m", chat=chat).reply(HELLO) == "I am sorry."


def test_thoughts_of_an_agent_of_ones_own_are_not_said():
    assert require_text("Hm.\n</think>\n\nI am sorry.<|im_end|>") == "I am sorry."
    assert require_text("  I think so. ") == "I think so."
    assert require_text(" ") == ""
    with pytest.raises(AgentFailed, match="thoughts"):
        require_text("<think>I should")


def test_what_concerns_the_whole_run_is_not_put_on_the_agent(server, monkeypatch):
    with pytest.raises(ServerUnreachable, match=r"http://127\.0\.0\.1:9/v1"):
        OpenAIChat("m", chat=ChatSettings(base_url="http://127.0.0.1:9/v1")).reply(HELLO)
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ServerRefused, match="OPENAI_API_KEY"):
        OpenAIChat("m")


def test_the_seed_of_a_dialogue_goes_to_the_server(server):
    server.answer = completion("Hm.")
    make_agent("openai:m", library().get(library().ids("demo")[0]), seed=7).reply(HELLO)
    assert server.body["seed"] == 7
    assert [message["role"] for message in server.body["messages"]] == ["system", "user"]
