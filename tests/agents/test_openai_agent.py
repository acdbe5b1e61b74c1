"""The OpenAI agent against servers that misbehave: each is one AgentError."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from rlver_gym.agents import make_agent
from rlver_gym.agents.openai_chat import OpenAIChat
from rlver_gym.agents.own import require_text
from rlver_gym.cli import app
from rlver_gym.core.dialogue import Message
from rlver_gym.core.library import library
from rlver_gym.io.errors import AgentError, AgentFailed, ServerRefused, ServerUnreachable
from rlver_gym.llm_client.settings import ChatSettings

HELLO = (Message("user", "My dog died."),)


class Server(ThreadingHTTPServer):
    answer: tuple[str, str] = ("application/json", "")
    delay_s = 0.0
    body: dict[str, Any]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.server.delay_s)
        kind, text = self.server.answer
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass

    def handle(self) -> None:
        with suppress(OSError):  # the client did not wait
            super().handle()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        yield server
        server.shutdown()


def completion(content: object) -> str:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]})


ONCE = ChatSettings(attempts=1)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (("text/html", "<html>Welcome</html>"), "no usable answer"),
        (("application/json", completion(" \n ")), "text"),
        (("application/json", completion("<think>I should be kind")), "answered without text"),
    ],
)
def test_an_answer_that_is_no_utterance_is_named(
    server: Server, answer: tuple[str, str], says: str
) -> None:
    server.answer = answer
    with pytest.raises(AgentError, match=says) as error:
        OpenAIChat("m", chat=ONCE).reply(HELLO)
    assert str(error.value).startswith("http://127.0.0.1")


def test_a_failure_on_the_cache_names_the_command_that_forgets_it(
    server: Server, tmp_path: Path
) -> None:
    cache = tmp_path / "response_cache.sqlite"
    server.answer = ("application/json", completion(None))
    with pytest.raises(AgentError, match=f"cache prune --failures {cache}"):
        OpenAIChat("m", chat=ChatSettings(attempts=1, response_cache=cache)).reply(HELLO)
    server.answer = ("application/json", completion("I am sorry."))
    with pytest.raises(AgentError, match="no usable answer"):
        OpenAIChat("m", chat=ChatSettings(attempts=1, response_cache=cache)).reply(HELLO)
    assert CliRunner().invoke(app, ["cache", "prune", "--failures", str(cache)]).exit_code == 0
    assert (
        OpenAIChat("m", chat=ChatSettings(attempts=1, response_cache=cache)).reply(HELLO)
        == "I am sorry."
    )


def test_thoughts_are_not_said(server: Server) -> None:
    for text in (
        "<think>\nHe is sad.\n</think>\n\nI am sorry.",
        "I am sorry.",
        " <think></think>I am sorry.",
    ):
        server.answer = ("application/json", completion(text))
        assert OpenAIChat("m").reply(HELLO) == "I am sorry."
    server.answer = ("application/json", completion("I say <think> aloud </think>."))
    assert OpenAIChat("m").reply(HELLO) == "I say <think> aloud </think>."


def test_a_reply_that_was_cut_is_what_was_said_until_then_and_a_cut_thought_is_none(
    server: Server,
) -> None:
    def cut(text: str) -> tuple[str, str]:
        choice = {"message": {"content": text}, "finish_reason": "length"}
        return "application/json", json.dumps({"choices": [choice]})

    server.answer = cut("<think>He is sad.</think>I am sorry that")
    assert OpenAIChat("m", chat=ONCE).reply(HELLO) == "I am sorry that"
    for text in ("<think>He is", "", "<|channel|>analysis<|message|>He is"):
        server.answer = cut(text)
        with pytest.raises(AgentFailed, match=r"took all the tokens.* Raise max_tokens"):
            OpenAIChat("m", chat=ONCE).reply(HELLO)


def test_thoughts_of_an_agent_of_ones_own_are_not_said() -> None:
    def reply(_: object) -> str:
        return ""

    assert require_text("Hm.\n</think>\n\nI am sorry.<|im_end|>", reply) == "I am sorry."
    assert require_text("  I think so. ", reply) == "I think so."
    assert require_text(" ", reply) == ""
    with pytest.raises(AgentFailed, match="thoughts"):
        require_text("<think>I should", reply)


def test_a_server_that_hangs_is_given_up_within_the_time(server: Server) -> None:
    server.delay_s = 60
    began = time.monotonic()
    with pytest.raises(AgentError, match=r"timeout_s=2"):
        OpenAIChat("m", chat=ChatSettings(timeout_s=2)).reply(HELLO)
    assert time.monotonic() - began < 60


def test_what_concerns_the_whole_run_is_not_put_on_the_agent(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ServerUnreachable, match=r"http://127\.0\.0\.1:9/v1"):
        OpenAIChat("m", chat=ChatSettings(base_url="http://127.0.0.1:9/v1")).reply(HELLO)
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ServerRefused, match="OPENAI_API_KEY"):
        OpenAIChat("m")


def test_the_seed_of_a_dialogue_goes_to_the_server(server: Server) -> None:
    server.answer = ("application/json", completion("Hm."))
    make_agent("openai:m", library().get(library().ids("demo")[0]), seed=7).reply(HELLO)
    assert server.body["seed"] == 7
    assert [message["role"] for message in server.body["messages"]] == ["system", "user"]
