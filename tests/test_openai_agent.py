"""The OpenAI agent against servers that misbehave: each is one AgentError."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from rlver_gym.agents.openai_chat import OpenAIChat
from rlver_gym.dialogue import Message
from rlver_gym.errors import AgentError

HELLO = (Message("user", "My dog died."),)


class Server(ThreadingHTTPServer):
    answer: tuple[str, str] = ("application/json", "")
    delay_s = 0.0
    asked = 0


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.asked += 1
        self.rfile.read(int(self.headers["Content-Length"]))
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
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        yield server
        server.shutdown()


def completion(content: object) -> str:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]})


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (("text/html", "<html>Welcome</html>"), "Welcome"),
        (("application/json", '{"choices": ['), "did not answer with a chat completion"),
        (("application/json", "[1, 2]"), "did not answer with a chat completion"),
        (("application/json", '{"choices": [{"index": 0}]}'), "did not answer with a chat completion"),
        (("application/json", '{"choices": []}'), "did not answer with a chat completion"),
        (("application/json", '{"choices": [{"message": null}]}'), "did not answer with a chat completion"),
        (("application/json", ""), "did not answer with a chat completion"),
        (("application/json", completion(None)), "without text"),
        (("application/json", completion("")), "without text"),
        (("application/json", completion(" \n ")), "without text"),
        (("application/json", completion("<think>I should be kind")), "without text"),
    ],
)
def test_an_answer_that_is_no_utterance_is_named(server: Server, answer: tuple[str, str], says: str) -> None:
    server.answer = answer
    with pytest.raises(AgentError, match=says) as error:
        OpenAIChat("m").reply(HELLO)
    assert "http://127.0.0.1" in str(error.value)


def test_thoughts_are_not_said(server: Server) -> None:
    for text in ("<think>\nHe is sad.\n</think>\n\nI am sorry.", "I am sorry.", " <think></think>I am sorry."):
        server.answer = ("application/json", completion(text))
        assert OpenAIChat("m").reply(HELLO) == "I am sorry."
    server.answer = ("application/json", completion("I say <think> aloud </think>."))
    assert OpenAIChat("m").reply(HELLO) == "I say <think> aloud </think>."


def test_a_server_that_hangs_is_given_up_within_the_time(server: Server) -> None:
    server.delay_s = 3
    began = time.monotonic()
    with pytest.raises(AgentError, match=r"within 0\.3 s \(3 attempts\)"):
        OpenAIChat("m", timeout_s=0.3).reply(HELLO)
    assert time.monotonic() - began < 6
    assert server.asked == 3
    assert (OpenAIChat("m").timeout_s, OpenAIChat("m").attempts) == (60, 3)
