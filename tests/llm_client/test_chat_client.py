"""The client of chat servers, against real ones on loopback that fail in every way."""

import asyncio
import json
import os
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from asking import ask, request, settle
from failures import show_failure
from hostile_answers import GOOD, MIB, completion_body, error_body
from hostile_server import Answer, Flood, Hang, HostileServer, Mode, Reset, Send
from pydantic import ValidationError

from rlver_gym.llm_client import wire
from rlver_gym.llm_client.client import ChatClient
from rlver_gym.llm_client.connect import connect, spending
from rlver_gym.llm_client.refusals import Failure, Kind
from rlver_gym.llm_client.settings import Budget, ChatSettings, Prices
from rlver_gym.llm_client.spending import Spending
from rlver_gym.llm_client.values import ChatAnswer
from rlver_gym.testing import ChatServer
from rlver_gym.util.errors import BudgetSpent, ChatError, ServerRefused, ServerUnreachable
from rlver_gym.util.event_loop import run_many, wait_for

SCHEMA = {"type": "object", "properties": {"change": {"type": "integer"}}, "required": ["change"]}


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"


def body_of(choice):
    return json.dumps({"choices": [choice]}).encode()


def no_answer(content, ending=None, **message):
    return body_of({"message": {"content": content, **message}, "finish_reason": ending})


def failed(url, kind=ChatError, *, fields=None, **settings):
    (result,) = ask(url, request(**(fields or {})), **settings)
    assert type(result) is kind, result
    return str(result)


def test_an_answer_comes_with_its_tokens_and_what_determines_it_is_sent():
    fields = {"temperature": 0.5, "max_tokens": 9, "seed": 3}
    with ChatServer("I hear you.") as server:
        (answer,) = ask(server.base_url, request(**fields, schema=SCHEMA))
        (sent,) = server.requests
    assert isinstance(answer, ChatAnswer)
    assert (answer.text, answer.finish_reason) == ("I hear you.", "stop")
    assert min(answer.prompt_tokens, answer.completion_tokens) > 0
    assert sent.items() >= {"model": "m", **fields}.items()
    assert sent["messages"] == [{"role": "user", "content": "hello"}]
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA


@contextmanager
def faulty(*turns):
    """A server that does this for each request in turn, and its address."""
    with HostileServer([Mode("faults.this", turns)]) as server:
        yield server, server.base_url("faults.this")


FAULTS = {
    "HTTP 500: The server had an error": [Answer(error_body("The server had an error."), "500 No")],
    "HTTP 502": [Answer(b"<html>Bad Gateway</html>", "502 No", ("Content-Type: text/html",))],
    "the connection broke off": [Send(HEAD + GOOD[:50]), Reset()],
    "no complete JSON": [Answer(GOOD[:50])],
    "no chat completion": [Answer(b'{"status": "ok"}')],
    "without choices": [Answer(b'{"object": "chat.completion", "choices": []}')],
    "more than 1 MB": [Answer(completion_body("I hear you. " * MIB))],
    "declined": [Answer(no_answer(None, refusal="I can't help with that."))],
    "content filter": [Answer(no_answer("I hear", "content_filter"))],
}
"""What a server does, by what is said of it."""


@pytest.mark.parametrize("says", FAULTS)
def test_a_fault_is_tried_again_a_bounded_number_of_times_and_then_named(says):
    attempts = 2 if says in ("declined", "content filter") else 3
    with faulty(FAULTS[says]) as (server, url):
        message = failed(url, attempts=3)
    assert server.requests.total() == attempts
    assert says in message
    assert f"in {attempts} attempts" in message


@pytest.mark.parametrize("fault", [[Hang()], [Send(HEAD), Flood(b" ", 0.05)]], ids=["hang", "drip"])
def test_a_server_that_never_comes_to_an_end_is_given_up_at_the_deadline(fault):
    with faulty(fault) as (server, url):
        message = failed(url, timeout_s=1)
    assert "(timeout_s=1): no answer in time" in message
    assert server.requests.total() > 1
    with faulty([Answer(GOOD)], fault) as (_, url):
        results = ask(url, *map(request, range(6)), attempts=1, timeout_s=1)
    assert Counter(map(type, results)) == {ChatAnswer: 3, ChatError: 3}
    assert {str(result) for result in results if isinstance(result, ChatError)} == {
        "no usable answer of model 'm' (timeout_s=1): no answer in time. Raise --timeout"
        " (timeout_s), or lower --concurrency (64) to what the server does at once."
    }


def test_a_limit_of_tokens_that_is_left_out_goes_by_its_newer_name():
    newer = wire.build_body(request(max_tokens=9, schema=SCHEMA), {"max_tokens", "temperature"})
    assert newer.keys() == {"model", "messages", "max_completion_tokens", "response_format"}
    assert newer["max_completion_tokens"] == 9


def test_what_the_server_will_never_do_is_refused_at_once_with_the_setting_to_change():
    with ChatServer("x", api_key="right") as server:
        message = failed(server.base_url, ServerRefused, api_key="wrong-key")
        assert all(part in message for part in (server.base_url, "401", "OPENAI_API_KEY", "'m'"))
    with ChatServer("x", models={"other"}) as server:
        message = failed(server.base_url, ServerRefused, fields={"schema": SCHEMA})
        assert all(part in message for part in ("404", "/v1"))
        assert len(server.requests) == 2  # with the schema and without


def test_a_server_that_was_never_there_is_one_clear_error():
    with ChatServer("x") as server:
        url = server.base_url
    message = failed(url, ServerUnreachable)
    assert all(part in message for part in (url, "OPENAI_BASE_URL", "base_url", 'user="embedded"'))


def test_a_server_that_died_stops_the_run_after_a_while_instead_of_failing_every_dialogue():
    async def ask_on():
        client = ChatClient(ChatSettings(base_url=server.base_url, attempts=2), random=lambda: 0.0)
        assert (await client.complete(request())).text == "x"
        server.stop()
        kinds = [type(await settle(client, request(at))) for at in range(8)]
        await client.close()
        return kinds

    with ChatServer("x") as server:
        kinds = asyncio.run(ask_on())
    assert kinds[0] is ChatError
    assert kinds[-1] is ServerUnreachable
    assert kinds == sorted(kinds, key=lambda kind: kind is ServerUnreachable)


def test_openai_itself_needs_a_key_and_options_have_to_be_some():
    with pytest.raises(ServerRefused, match=r"OPENAI_API_KEY.*OPENAI_BASE_URL.*embedded"):
        connect()
    for wrong in ({"budget": Budget(money=1)}, {"timeout": 3}):
        with pytest.raises(ValidationError):
            ChatSettings.model_validate(wrong)


@pytest.mark.parametrize(
    ("serving", "asking", "count", "most_at_once"),
    [
        pytest.param({"latency_s": 4.0}, {"concurrency": 200}, 200, 200, marks=pytest.mark.slow),
        ({"latency_s": 0.02, "capacity": 4, "retry_after_s": 0.01}, {"timeout_s": 30}, 40, 4),
        # 1 s of work, one after the other
        ({"latency_s": 0.1}, {"concurrency": 1, "timeout_s": 0.8}, 10, 1),
    ],
    ids=["many at once", "few places", "a long queue"],
)
def test_everything_is_answered_however_much_is_under_way_at_once(
    serving, asking, count, most_at_once
):
    with ChatServer("x", **serving) as server:
        results = ask(server.base_url, *map(request, range(count)), **asking)
        assert server.max_concurrent_calls == most_at_once
    assert all(isinstance(result, ChatAnswer) for result in results)


@pytest.mark.parametrize(
    ("budget", "limit"),
    [({"calls": 5}, "5 calls"), ({"tokens": 30}, "30 tokens"), ({"money": 0.0001}, "0.0001")],
)
def test_a_budget_stops_cleanly_and_says_what_was_spent(budget, limit):
    prices = {"prompt": 5, "completion": 10}
    with ChatServer("a few words, no more") as server:
        results = ask(
            server.base_url, *map(request, range(50)), in_turn=True, budget=budget, prices=prices
        )
        answered = sum(isinstance(result, ChatAnswer) for result in results)
        assert 50 > len(server.requests) == answered > 1
    assert all(isinstance(result, BudgetSpent) for result in results[answered:])
    assert limit in str(results[-1])
    assert f"{answered} calls, " in str(results[-1])


def test_money_is_tokens_times_price():
    counted = Spending(Prices(prompt=2, completion=10))
    for _ in range(3):
        counted.attempt(first=True)
        counted.attempt(first=False)
        counted.tokens(100_000, 20_000)
    assert counted.money == pytest.approx(1.2)
    assert counted.summary() == "3 calls (3 repeated), 360,000 tokens, cost 1.2000 (your currency)"
    counted.reset()
    assert counted.summary() == "0 calls, 0 tokens, cost 0.0000 (your currency)"


def test_everybody_who_means_the_same_server_shares_one_client_from_any_thread_loop_or_copy():
    with ChatServer("x") as server:
        settings = ChatSettings(base_url=server.base_url)
        line = connect(settings)

        async def inside_a_running_loop():
            return (await line.complete(request("loop"))).text + wait_for(
                connect(settings).complete(request("blocking"))
            ).text

        assert asyncio.run(inside_a_running_loop()) == "xx"
        with ThreadPoolExecutor(4) as pool:
            answers = pool.map(lambda _: wait_for(line.complete(request("thread"))), range(4))
            assert [answer.text for answer in answers] == ["x"] * 4
        assert wait_for(pickle.loads(pickle.dumps(line)).complete(request("copy"))).text == "x"
        assert spending(settings).spent.calls == len(server.requests) == 7
        other = ChatSettings(base_url=server.base_url, budget=Budget(calls=8))
        assert spending(other).spent.calls == 0


@pytest.mark.parametrize("told", [{"timeout_s": 50}, {"attempts": 2}])
def test_who_asks_one_server_with_another_patience_shares_its_budget_and_its_places(told):
    with ChatServer("x", latency_s=0.02) as server:
        usual = ChatSettings(base_url=server.base_url, budget=Budget(calls=9), concurrency=2)
        chats = [connect(usual), connect(usual.model_copy(update=told))]
        list(run_many(lambda n: settle(chats[n % 2], request(n)), range(18), 18))
        assert spending(usual).spent.calls == 9 == len(server.requests)
        assert server.max_concurrent_calls == 2


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own():
    with ChatServer("x") as server:
        settings = ChatSettings(base_url=server.base_url)
        line = connect(settings)
        wait_for(line.complete(request("parent")))
        child = os.fork()
        if child == 0:
            said = wait_for(line.complete(request("child"))).text
            os._exit(0 if (said, spending(settings).spent.calls) == ("x", 1) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert wait_for(line.complete(request("parent again"))).text == "x"
        assert spending(settings).spent.calls == 2


OUT_OF_TOKENS = "thoughts took all the tokens that it may have. Raise max_tokens"
BROKEN_OFF = {"message": {"content": "I"}, "error": {"code": 502}}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "no complete JSON"),
        (b"[1, 2]", "no chat completion"),
        (b'{"error": {"message": "upstream is down", "code": 502}}', "upstream is down"),
        (no_answer(None), "without text"),
        (no_answer(" \n"), "without text"),
        (no_answer("\ud800"), "without text"),
        (no_answer("", "length"), "max_tokens"),
        (no_answer("", "length", reasoning_content="hm"), OUT_OF_TOKENS),
        (no_answer(None, "stop", reasoning_content="hm"), "thoughts and no words"),
        (no_answer([{"type": "thinking", "thinking": "hm"}]), "thoughts and no words"),
        (no_answer("I told him", "error"), "broke off"),
        (body_of({**BROKEN_OFF, "finish_reason": "stop"}), "broke off"),
        (no_answer(None, refusal="no"), "declined"),
        (no_answer([{"type": "refusal", "refusal": "no"}]), "declined"),
        (no_answer("I t", "SAFETY"), "filter"),
    ],
)
def test_a_body_that_holds_no_answer_says_why_and_what_helps(body, says):
    result = wire.parse_answer(body, "application/json").result
    assert isinstance(result, Failure)
    is_declined, is_of_upstream = says in ("declined", "filter"), b'"code": 502' in body
    kind = Kind.BROKEN if is_of_upstream else Kind.DECLINED if is_declined else Kind.MALFORMED
    assert result.kind is kind
    assert says in show_failure(result)


def test_half_a_character_at_the_end_of_an_answer_is_mended():
    answer = wire.parse_answer(no_answer("I hear you \ud83d", "length"), "application/json").result
    assert isinstance(answer, ChatAnswer)
    assert answer.text == "I hear you \ufffd"


def stream(*events, done=True):
    lines = [f"data: {json.dumps(event)}" for event in events] + ["data: [DONE]"] * done
    return "\n\n".join((": ping", *lines, "")).encode()


def delta(content, **rest):
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None} | rest]}


def test_an_answer_that_comes_as_a_stream_of_events_is_read_whole():
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    body = stream(
        {"choices": [{"index": 0, "delta": {"role": "assistant"}}]},
        {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]},
        delta("I hear "),
        delta([{"type": "text", "text": "you "}]),
        delta("\ud83d"),
        delta("\ude00", finish_reason="stop"),
        usage,
    )
    for kind in ("text/event-stream; charset=utf-8", "application/json", ""):
        read = wire.parse_answer(body, kind)
        assert read[:3] == (ChatAnswer("I hear you \U0001f600", "stop", 7, 3), 7, 3)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (stream(delta("I hear"), done=False), "broke off"),
        (stream(delta("I hear"), {"error": {"message": "upstream"}}), "broke off"),
        (stream({"error": {"message": "upstream is down"}}), "upstream is down"),
        (stream(delta("", finish_reason="length")), "max_tokens"),
        (b"data: <html>\n\n", "something else than JSON"),
        (b"", "something else than JSON"),
        (b"data: 7\n\n", "cannot be used"),
        (stream({"choices": [{"delta": {"content": 7}}]}), "cannot be used"),
    ],
)
def test_a_stream_that_holds_no_whole_answer_is_named(body, says):
    result = wire.parse_answer(body, "text/event-stream").result
    assert isinstance(result, Failure)
    assert says in f"{result.reason} {result.quote}"
