"""A server that is slow, that does not count, that asks for ages, and an environment that is in the
way: nothing fails that only needs patience, and what fails names its remedy.
"""

import asyncio
import time

import pytest
from asking import listening, request, settle

from rlver_gym.llm_client import transport
from rlver_gym.llm_client.client import ChatClient
from rlver_gym.llm_client.settings import Budget, ChatSettings, Prices
from rlver_gym.llm_client.spending import Spent
from rlver_gym.llm_client.values import ChatAnswer
from rlver_gym.testing import ChatServer
from rlver_gym.testing.chat_server import Refused
from rlver_gym.util.errors import BudgetSpent, ServerRefused, ServerUnreachable
from rlver_gym.util.request_origin import REQUEST_ORIGIN, RequestOrigin

GOOD = {"choices": [{"message": {"content": "I hear you."}}]}


def ask(url, count, apart_s=0.0, **settings):
    """`apart_s`: between one request and the next, so that they arrive as they were sent."""

    async def ask_in(dialogue, client):
        REQUEST_ORIGIN.set(RequestOrigin(dialogue))
        await asyncio.sleep(apart_s * dialogue)
        return await settle(client, request(dialogue))

    async def ask_all():
        client = ChatClient(ChatSettings.model_validate({"base_url": url, **settings}))
        results = await asyncio.gather(*[ask_in(number, client) for number in range(count)])
        await client.close()
        return list(results), client

    return asyncio.run(ask_all())


def test_a_server_that_answers_one_at_a_time_fails_nobody():
    # Few and long: what a busy machine adds to each is little beside them.
    with ChatServer("x", latency_s=0.4, capacity=1, retry_after_s=None) as server:
        found, client = ask(server.base_url, 8, apart_s=0.05, timeout_s=3.0)
    assert all(isinstance(one, ChatAnswer) for one in found)
    assert client.spending.spent.attempts == 8, "nothing is sent twice for impatience"


def test_a_request_that_hangs_alone_is_given_up_and_says_which_options_to_change():
    async def one_hangs(body):
        if body["messages"][0]["content"] == "3":
            await asyncio.sleep(60)
        return "fine"

    began = time.monotonic()
    with ChatServer(one_hangs) as server:
        found, _ = ask(server.base_url, 8, timeout_s=0.8, max_wait_s=None)
    assert [isinstance(one, ChatAnswer) for one in found].count(False) == 1
    assert "--timeout" in str(found[3])
    assert "--concurrency" in str(found[3])
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("usage", [None, {}, "?", {"prompt_tokens": 0, "completion_tokens": 0}])
def test_a_budget_binds_where_the_server_counts_nothing_and_the_summary_says_so(usage):
    async def answer(request, connection):
        connection.send(200, GOOD if usage == "?" else {**GOOD, "usage": usage})

    prices = Prices(prompt=1e6, completion=1e6)
    with listening(answer) as url:
        for budget in (Budget(tokens=12), Budget(money=12.0)):
            results, client = ask(url, 12, concurrency=1, prices=prices, budget=budget)
            spent = client.spending.spent
            assert spent.estimated == sum(isinstance(each, ChatAnswer) for each in results) < 12
            assert spent.tokens >= 12
            assert type(results[-1]) is BudgetSpent
            assert "estimated, since the server does not count them" in str(results[-1])


@pytest.mark.parametrize("content", ["", "I hear you."])
def test_thoughts_count_where_the_server_counts_nothing_with_or_without_words(content):
    message = {"content": content, "reasoning_content": "hm " * 500}

    async def answer(request, connection):
        connection.send(200, {"choices": [{"message": message, "finish_reason": "length"}]})

    with listening(answer) as url:
        results, client = ask(url, 12, concurrency=1, budget=Budget(tokens=1_200))
    assert 2 <= client.spending.spent.attempts < 12
    assert type(results[-1]) is BudgetSpent


def test_what_the_server_counts_is_no_estimate():
    with ChatServer("I hear you.") as server:
        _, client = ask(server.base_url, 2)
    assert client.spending.spent.estimated == 0
    assert "estimated" not in client.spending.summary()
    assert Spent(estimated=1) != Spent()


def test_one_hostile_wait_is_not_believed_and_its_request_is_asked_again():
    asked = []

    async def answer(body):
        asked.append(words := body["messages"][0]["content"])
        if words == "2" and asked.count("2") == 1:
            await asyncio.sleep(0.2)
            raise Refused(429, "Slow down", retry_after_s=999_999_999.0)
        return "fine"

    began = time.monotonic()
    with ChatServer(answer) as server:
        found, _ = ask(server.base_url, 6, timeout_s=30.0)
    assert all(isinstance(one, ChatAnswer) for one in found)
    assert time.monotonic() - began < 10


ENVIRONMENTS = [
    ("ALL_PROXY", "socks5://me:secret@127.0.0.1:9", ServerRefused, ("socks", "Unset")),
    ("HTTP_PROXY", "foo://127.0.0.1:9", ServerRefused, ("Unset",)),
    ("SSL_CERT_FILE", "/nonexistent", ServerRefused, ("No such file",)),
    ("SSL_CERT_FILE", __file__, ServerRefused, ("PEM",)),
    ("HTTP_PROXY", "http://me:secret@127.0.0.1:9", ServerUnreachable, ("127.0.0.1:9", "NO_PROXY")),
    ("all_proxy", "http://127.0.0.1:9", ServerUnreachable, ("NO_PROXY",)),
    ("HTTP_PROXY", "me:secret@127.0.0.1:9", ServerUnreachable, ("127.0.0.1:9", "NO_PROXY")),
]


@pytest.mark.parametrize(("name", "value", "kind", "words"), ENVIRONMENTS)
def test_an_environment_that_is_in_the_way_is_named_with_its_remedy(
    name, value, kind, words, monkeypatch
):
    for other in ("all_proxy", "http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
        monkeypatch.delenv(other.upper(), raising=False)
    monkeypatch.setenv(name, value)
    transport._ssl_context.cache_clear()
    try:
        (error,), _ = ask("http://chat.example/v1", 1)
    finally:
        transport._ssl_context.cache_clear()
    assert type(error) is kind
    assert all(word in str(error) for word in (name, *words)), str(error)
    assert "secret" not in str(error)
    assert "\n" not in str(error)
