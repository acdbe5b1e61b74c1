"""The WebSocket over real sockets."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs rlver-gym[serve]")
client = pytest.importorskip("websockets.sync.client", reason="needs rlver-gym[serve]")

from test_server import PERSONA, TOKEN, WORDS
from websockets.exceptions import ConnectionClosed, InvalidStatus

from rlver_gym.environment.env import EmpathyEnv


class Talk:
    """One connection."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def ask(self, message: Any) -> Any:
        text = message if isinstance(message, str | bytes) else json.dumps(message)
        self.connection.send(text)
        return json.loads(self.connection.recv(timeout=120))

    def begin(self, request_id: str = "begin", **fields: Any) -> Any:
        return self.ask({"type": "begin", "request_id": request_id, **fields})

    def step(self, turn: int, utterance: str, request_id: str = "") -> Any:
        request_id = request_id or f"r{turn}"
        return self.ask(
            {"type": "step", "request_id": request_id, "turn": turn, "utterance": utterance}
        )


@pytest.fixture
def connect() -> Iterator[Any]:
    """Opens connections, and closes them."""
    with ExitStack() as stack:

        def open_one(server: Any, **options: Any) -> Talk:
            address = f"ws://127.0.0.1:{server.port}/v1/ws"
            return Talk(stack.enter_context(client.connect(address, **options)))

        yield open_one


def kind(answer: Any) -> tuple[str, int]:
    assert answer["type"] == "problem"
    return answer["problem"]["type"].removeprefix("urn:rlver-gym:"), answer["problem"]["status"]


def test_an_episode_is_the_one_that_gymnasium_gives(serve: Any, connect: Any) -> None:
    talk = connect(serve())
    env = EmpathyEnv(persona=PERSONA)
    opening, _ = env.reset(seed=3)
    begun = talk.begin(persona=PERSONA, seed=3)
    assert (begun["type"], begun["request_id"], begun["opening"]) == ("episode", "begin", opening)
    for turn in range(1, 9):
        got, expected = talk.step(turn, WORDS), env.step(WORDS)
        assert (got["type"], got["request_id"], got["turn"]) == ("step", f"r{turn}", turn)
        assert (got["reply"], got["reward"], got["terminated"]) == expected[:3]
        if expected[2]:
            break
    assert kind(talk.step(turn + 1, WORDS)) == ("episode-over", 409)


def test_the_same_begin_on_a_new_connection_goes_on(serve: Any, connect: Any, caller: Any) -> None:
    server = serve()
    first = connect(server)
    begun = first.begin("mine", seed=1)
    step = first.step(1, WORDS, "a")
    first.connection.close()
    second = connect(server)
    assert second.begin("mine", seed=1)["episode_id"] == begun["episode_id"]
    assert second.step(1, WORDS, "a") == step
    assert second.step(2, WORDS)["turn"] == 2
    assert caller(server)("GET", f"/v1/episodes/{begun['episode_id']}").body["turn"] == 2


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("{", ("invalid", 422)),
        (b"\xff", ("invalid", 422)),
        ("[]", ("invalid", 422)),
        ('{"type": "leave"}', ("invalid", 422)),
        ({"type": "begin"}, ("invalid", 422)),
        ({"type": "step", "request_id": "a", "turn": 1, "utterance": "x"}, ("wrong-message", 409)),
        ({"type": "begin", "request_id": "a", "persona": "nobody"}, ("unknown-name", 404)),
        ('{"type": "begin", "request_id": "a", "persona": "\\ud800"}', ("invalid", 422)),
    ],
)
def test_a_message_that_cannot_be_granted_is_a_problem_and_the_connection_stays(
    plain: Any, connect: Any, message: Any, problem: tuple[str, int]
) -> None:
    talk = connect(plain)
    assert kind(talk.ask(message)) == problem
    assert talk.begin()["type"] == "episode"


def test_a_connection_has_one_episode(serve: Any, connect: Any) -> None:
    talk = connect(serve())
    talk.begin("one")
    assert kind(talk.begin("two")) == ("wrong-message", 409)
    assert kind(talk.step(5, WORDS)) == ("wrong-turn", 409)
    assert talk.begin("one")["turn"] == 0


def test_limits_hold_for_messages_too(serve: Any, connect: Any) -> None:
    talk = connect(serve(max_requests_per_s=0.05))
    limited = talk.begin()
    assert kind(limited) == ("rate-limited", 429)
    assert limited["problem"]["retry_after"] > 9
    talk = connect(serve(max_body_bytes=2_000))
    with pytest.raises(ConnectionClosed) as closed:
        talk.ask("x" * 3_000)
    assert closed.value.rcvd.code == 1009


def test_metrics_count_connections_and_problems(serve: Any, connect: Any, caller: Any) -> None:
    server = serve()
    talk = connect(server)
    assert kind(talk.ask("{}")) == kind(talk.ask("[]")) == ("invalid", 422)
    page = caller(server)("GET", "/metrics").body
    assert 'rlver_gym_websocket_problems_total{status="422"} 2' in page
    assert "rlver_gym_open_websockets 1" in page


def test_too_many_connections_and_foreign_ones_are_refused(serve: Any, connect: Any) -> None:
    server = serve(token=TOKEN, max_episodes=1)
    for headers in ({}, {"authorization": "Bearer wrong"}):
        with pytest.raises(InvalidStatus) as refused:
            connect(server, additional_headers=headers)
        assert refused.value.response.status_code == 401
        assert b"RLVER_GYM_TOKEN" in refused.value.response.body
    right = {"authorization": f"Bearer {TOKEN}"}
    with pytest.raises(InvalidStatus) as refused:
        connect(server, additional_headers=right, origin="http://evil.example")
    assert refused.value.response.status_code == 403
    connect(server, additional_headers=right).begin()
    with pytest.raises(InvalidStatus) as refused:
        connect(server, additional_headers=right)
    assert refused.value.response.status_code == 503


def test_a_connection_on_which_nothing_is_said_is_closed(serve: Any, connect: Any) -> None:
    talk = connect(serve(idle_s=0.3))
    with pytest.raises(ConnectionClosed) as closed:
        talk.connection.recv(timeout=120)
    assert closed.value.rcvd.code == 1001
