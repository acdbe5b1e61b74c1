"""A server for each test that asks for one, and a plain HTTP client."""

import json
from contextlib import ExitStack
from http.client import HTTPConnection

import pytest
from studios import read_answer


class Caller:
    def __init__(self, port, token=None):
        self.connection = HTTPConnection("127.0.0.1", port, timeout=120)
        self.headers = {"content-type": "application/json"}
        if token:
            self.headers["authorization"] = f"Bearer {token}"

    def __call__(self, method, path, body=None, headers=None):
        content = json.dumps(body) if isinstance(body, dict) else body
        self.connection.request(method, path, content, {**self.headers, **(headers or {})})
        return read_answer(self.connection.getresponse())

    def begin(self, **fields):
        answer = self("POST", "/v1/episodes", fields)
        assert answer.status == 201, answer
        return answer.body

    def step(self, episode, turn, utterance, request_id=""):
        body = {"request_id": request_id or f"r{turn}", "turn": turn, "utterance": utterance}
        return self("POST", f"/v1/episodes/{episode}/steps", body)


@pytest.fixture
def serve():
    server = pytest.importorskip("rlver_gym.serve.server", reason="needs rlver-gym[serve]")
    from rlver_gym.serve.operation import ServeSettings

    with ExitStack() as stack:

        def start(token=None, users=None, **settings):
            background = server.EpisodeServer(ServeSettings(**settings), token=token, users=users)
            return stack.enter_context(background)

        yield start


@pytest.fixture(scope="module")
def plain():
    """A server with the usual settings, shared, for to start and stop one takes long."""
    server = pytest.importorskip("rlver_gym.serve.server", reason="needs rlver-gym[serve]")
    with server.EpisodeServer() as background:
        yield background


@pytest.fixture
def caller():
    opened = []

    def connect(server, token=None):
        opened.append(Caller(server.port, token))
        return opened[-1]

    yield connect
    for one in opened:
        one.connection.close()
