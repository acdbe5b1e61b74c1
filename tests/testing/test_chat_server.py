"""The chat server for tests, as sockets and the official client see it, and the script."""

import asyncio
import json
import re
import socket
import threading
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletion

import rlver_gym
from rlver_gym.llm_client.transport import http
from rlver_gym.llm_client.values import ChatAnswer, ChatMessage, ChatRequest
from rlver_gym.testing import ChatServer, ScriptedChat
from rlver_gym.util.errors import ChatError

SCHEMA = {"type": "json_schema", "json_schema": {"name": "feeling", "schema": {"type": "object"}}}
GENEROUS_S = 60.0
TRUST = http.create_ssl_context()
"""Which certificates are believed: nobody has any, and to read them takes long."""


@pytest.fixture(autouse=True)
def nothing_left():
    before = set(threading.enumerate())
    yield
    assert not set(threading.enumerate()) - before


def using(server, work, **options):
    async def run():
        usual = {"base_url": server.base_url, "api_key": "any", "max_retries": 0}
        usual |= {"timeout": GENEROUS_S}
        usual["http_client"] = openai.DefaultAsyncHttpxClient(verify=TRUST)
        async with openai.AsyncOpenAI(**(usual | options)) as client:
            return await work(client)

    return asyncio.run(run())


ASKED = {"model": "m", "messages": [{"role": "user", "content": "My dog died."}]}


async def say(client, text="My dog died.", **options):
    return await client.chat.completions.create(**body(text), **options)


def said(server, text="My dog died.", **options):
    return using(server, lambda client: say(client, text, **options)).choices[0].message.content


def port(server):
    return int(server.base_url.removesuffix("/v1").rpartition(":")[2])


def body(text):
    return {"model": "m", "messages": [{"role": "user", "content": text}]}


def exchange(server, sent):
    """All that comes back for these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", port(server)), timeout=GENEROUS_S) as sock:
        sock.sendall(sent)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def test_the_official_client_gets_a_completion():
    with ChatServer("我在听。 I am listening.") as server:
        answer = using(server, say)
        assert answer.choices[0].message.content == "我在听。 I am listening."
        assert (answer.model, answer.choices[0].finish_reason) == ("m", "stop")
        assert 0 < answer.usage.prompt_tokens < answer.usage.total_tokens
        assert server.requests == (ASKED,)
        assert server.max_concurrent_calls == 1


def test_it_lists_models_and_says_that_it_is_up():
    async def names(client):
        return [model.id async for model in client.models.list()]

    with ChatServer("", models=("small", "large")) as server:
        assert using(server, names) == ["small", "large"]
        with pytest.raises(openai.NotFoundError, match="'m' does not exist"):
            said(server)
        connection = HTTPConnection("127.0.0.1", port(server), timeout=GENEROUS_S)
        connection.request("GET", "/health")
        assert connection.getresponse().read() == b'{"status": "ok"}'
        connection.close()


def test_requests_that_come_in_pieces_or_at_once_are_read_one_by_one():
    content = json.dumps(body("hi")).encode()
    line = b"POST /v1/chat/completions HTTP/1.1\r\n"
    start = line + f"Host: x\r\ncontent-length: {len(content)}\r\n".encode()
    sent = start + b"\r\n" + content + start + b"Connection: close\r\n\r\n" + content
    with ChatServer(["one", "two"]) as server:
        answers = exchange(server, sent)
        assert answers.count(b"HTTP/1.1 200 OK") == 2
        assert 0 < answers.index(b'"one"') < answers.index(b'"two"')
        with socket.create_connection(("127.0.0.1", port(server)), timeout=GENEROUS_S) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in range(len(sent)):
                sock.sendall(sent[byte : byte + 1])
            answers = b"".join(iter(lambda: sock.recv(65536), b""))
        assert answers.count(b"the script is used up") == 2


HEADS = (b"Content-Length: many", b"Content-Length: -1", b"Transfer-Encoding: chunked")
POSTS = [b"POST /v1/chat/completions HTTP/1.1\r\n" + head + b"\r\n\r\n" for head in HEADS]


@pytest.mark.parametrize("sent", [b"hello\r\n\r\n", *POSTS, b"x" * 70_000])
def test_what_is_not_http_gets_400_and_the_connection_is_closed(sent):
    with ChatServer("") as server:
        assert exchange(server, sent).startswith(b"HTTP/1.1 400 Bad Request")


NO_CALLS = ["", "[", "[]", "{}", '{"messages": [{}]}']
NO_CALLS += [f'{{"model": "m", "messages": {messages}}}' for messages in ("[]", '["hi"]')]


@pytest.mark.parametrize("content", NO_CALLS)
def test_a_body_that_is_no_call_gets_400(content):
    with ChatServer("") as server:
        connection = HTTPConnection("127.0.0.1", port(server), timeout=GENEROUS_S)
        connection.request("POST", "/v1/chat/completions", content)
        response = connection.getresponse()
        assert response.status == 400
        assert json.load(response)["error"]["type"] == "invalid_request_error"
        connection.close()
        assert server.requests == ()


def test_what_it_cannot_do_it_refuses():
    with ChatServer("yes") as server:
        with pytest.raises(openai.BadRequestError, match="n=1"):
            said(server, n=2)
        assert said(server, n=1, stream=False) == "yes"
        with pytest.raises(openai.NotFoundError, match="end in /v1"):
            using(server, say, base_url=server.base_url.removesuffix("/v1"))


async def streamed(client, **options):
    chunks = await client.chat.completions.create(**ASKED, stream=True, **options)
    return [chunk async for chunk in chunks]


async def assembled(client):
    """What the official client makes of a stream: how it ended, and the text or the refusal."""
    async with client.chat.completions.stream(**ASKED) as stream:
        (choice,) = (await stream.get_final_completion()).choices
    return f"{choice.finish_reason} {choice.message.content or choice.message.refusal}"


@pytest.mark.parametrize(
    "text", ["", "yes", "That must be hard.\n\nWhere did he sleep?", "他睡在哪里？" * 99]
)
def test_a_stream_holds_the_words_of_the_answer_in_pieces(text):
    with ChatServer(text) as server:
        first, *middle, last = using(server, streamed)
        whole = using(server, say)
        assert using(server, assembled) == f"stop {text or None}"
    assert first.choices[0].delta.role == "assistant"
    assert "".join(one.choices[0].delta.content for one in middle) == text
    assert (len(middle) > 1) == (len(text) > 10)
    assert [one.choices[0].finish_reason for one in middle] == [None] * len(middle)
    assert last.choices[0].finish_reason == whole.choices[0].finish_reason == "stop"
    assert {(one.id, one.model, one.usage) for one in (first, *middle, last)} == {
        (whole.id, whole.model, None)
    }


def test_a_stream_says_what_it_used_where_that_is_asked_for():
    with ChatServer("That must be hard.") as server:
        *chunks, last = using(
            server, lambda client: streamed(client, stream_options={"include_usage": True})
        )
        assert last.choices == []
        assert last.usage == using(server, say).usage
        assert {one.usage for one in chunks} == {None}
        assert [one for one in chunks if not one.choices] == []


def test_a_script_is_said_in_order_and_then_used_up():
    with ChatServer(["one", ValueError("as scripted"), "two"]) as server:
        assert said(server) == "one"
        with pytest.raises(openai.InternalServerError, match="ValueError: as scripted"):
            said(server)
        assert said(server) == "two"
        with pytest.raises(openai.InternalServerError, match="used up: it holds 3 answers"):
            said(server)


def test_a_function_answers_each_body():
    def shout(body):
        return body["messages"][-1]["content"].upper()

    async def slowly(body):
        await asyncio.sleep(0)
        return shout(body)

    for function in (shout, slowly):
        with ChatServer(function) as server:
            assert said(server, "hello") == "HELLO"
    wrong = {"KeyError": lambda body: body["nothing"], "has to be a str, not int": lambda _: 3}
    for says, function in wrong.items():
        refused = pytest.raises(openai.InternalServerError, match=says)
        with ChatServer(function) as server, refused:
            said(server)


def test_only_the_right_key_is_let_in():
    with ChatServer("yes", api_key="sk-right") as server:
        assert using(server, say, api_key="sk-right").choices[0].message.content == "yes"
        with pytest.raises(openai.AuthenticationError) as error:
            using(server, say, api_key="sk-wrong")
        assert error.value.code == "invalid_api_key"
        assert "sk-" not in str(error.value)
        assert len(server.requests) == 1


def test_schemas_are_seen_or_ignored():
    def form(body):
        return body.get("response_format", {}).get("type", "free text")

    with ChatServer(form) as server:
        assert said(server, response_format=SCHEMA) == "json_schema"
    with ChatServer(form, schemas=False) as server:
        assert said(server, response_format=SCHEMA) == "free text"
        assert server.requests[0]["response_format"] == SCHEMA


@pytest.mark.parametrize(
    ("schemas", "error"), [("refuse", openai.BadRequestError), ("fail", openai.InternalServerError)]
)
def test_a_server_can_know_no_schemas(schemas, error):
    with ChatServer("{}", schemas=schemas) as server:
        assert said(server, response_format={"type": "json_object"}) == "{}"
        with pytest.raises(error, match="should be 'text' or 'json_object'"):
            said(server, response_format=SCHEMA)


async def at_once(client, calls):
    return await asyncio.gather(
        *(say(client, str(call)) for call in range(calls)), return_exceptions=True
    )


def patient(capacity, calls):
    """A server that answers nobody before so many calls have come."""

    async def answer(_):
        while len(server.requests) < calls:
            await asyncio.sleep(0.001)
        return "yes"

    return (server := ChatServer(answer, capacity=capacity, retry_after_s=2.5))


def test_calls_beyond_the_capacity_are_told_to_wait():
    with patient(4, calls=10) as server:
        answers = using(server, lambda client: at_once(client, 10))
        refused = [answer for answer in answers if isinstance(answer, openai.RateLimitError)]
        assert len(refused) == 6
        assert {error.response.headers["retry-after"] for error in refused} == {"2.5"}
        assert server.max_concurrent_calls == 4


def test_calls_beyond_the_capacity_wait_where_that_is_asked_for():
    with ChatServer("yes", latency_s=0.01, capacity=4, retry_after_s=None) as server:
        answers = using(server, lambda client: at_once(client, 20))
        assert all(isinstance(answer, ChatCompletion) for answer in answers)
        assert server.max_concurrent_calls == 4


def test_a_call_that_the_client_gave_up_frees_its_place():
    options = {"capacity": 1, "retry_after_s": 0.01}
    with ChatServer(
        "yes", latency_s=lambda body: 3600 * ("slow" in str(body)), **options
    ) as server:
        with pytest.raises(openai.APITimeoutError):
            said(server, "slow", timeout=0.1)
        answer = using(server, lambda client: say(client, "quick"), max_retries=10)
        assert answer.choices[0].message.content == "yes"


def test_stopping_frees_the_port_and_breaks_off_what_is_under_way():
    with ChatServer("", latency_s=3600) as server:
        taken = port(server)

        async def stopped_meanwhile(client):
            call = asyncio.create_task(say(client))
            while not server.requests:
                await asyncio.sleep(0.001)
            await asyncio.to_thread(server.stop)
            return await call

        with pytest.raises(openai.APIConnectionError):
            using(server, stopped_meanwhile)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", taken), timeout=GENEROUS_S)
        server.stop()
    with ChatServer("again", port=taken) as server:
        assert said(server) == "again"
        with pytest.raises(OSError, match="in use"):
            ChatServer("", port=taken)


def test_a_server_can_be_stopped_before_and_between_calls():
    for _ in range(50):
        ChatServer("").stop()
        server = ChatServer("")
        with socket.create_connection(("127.0.0.1", port(server)), timeout=GENEROUS_S) as sock:
            server.stop()
            with suppress(ConnectionResetError):
                assert sock.recv(1) == b""


def test_arguments_that_cannot_be_meant_are_named():
    with pytest.raises(ValueError, match="capacity"):
        ChatServer("", capacity=0)
    with pytest.raises(ValueError, match="schemas"):
        ChatServer("", schemas="ignore")


def test_a_scripted_chat_answers_without_a_network():
    asked = ChatRequest("m", (ChatMessage("user", "My dog died."),))

    def ask(chat):
        return asyncio.run(chat.complete(asked))

    chat = ScriptedChat(["I am sorry.", ChatError("as scripted")])
    assert ask(chat) == ChatAnswer("I am sorry.", "stop", 4, 3)
    with pytest.raises(ChatError, match="as scripted"):
        ask(chat)
    with pytest.raises(ChatError, match="it holds 2 answers"):
        ask(chat)
    assert chat.requests == [asked] * 3
    assert ask(ScriptedChat("always")).text == ask(ScriptedChat("always")).text == "always"
    assert ask(ScriptedChat(lambda request: request.model)).text == "m"


def test_nothing_but_tests_imports_a_test_server():
    package = Path(rlver_gym.__file__).parent
    named = re.compile(r"^\s*(from|import) rlver_gym\.testing|[\"']rlver_gym\.testing[.:\"']", re.M)
    assert any(named.search(path.read_text()) for path in (package / "testing").glob("*.py"))
    assert [
        path.relative_to(package)
        for path in package.rglob("*.py")
        if named.search(path.read_text(encoding="utf-8")) and path.parent.name != "testing"
    ] == []
