"""How often a request is tried, and how long is waited before."""

import asyncio
from itertools import count

import pytest
from asking import request, settle
from hypothesis import given, settings
from hypothesis import strategies as st

from rlver_gym.llm_client.client import ChatClient
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.values import ChatAnswer
from rlver_gym.testing import ChatServer
from rlver_gym.testing.chat_server import Refused

STATUSES = st.sampled_from([400, 429, 500, 503])
WAITS = st.sampled_from([0.0, 2.0, 7.0, 3600.0])
FAILURES, NUMBERS = st.tuples(STATUSES, st.none() | WAITS), count()


@pytest.fixture(scope="module")
def server():
    """Fails as the words of the request say: "429:7 500 200"; then it answers."""
    asked = {}

    def answer(body):
        words = body["messages"][0]["content"]
        at = asked[words] = asked.get(words, -1) + 1
        step = words.split()[at + 1 :][:1]
        if not step or step == ["200"]:
            return str(at + 1)
        status, _, wait = step[0].partition(":")
        raise Refused(int(status), "not now", retry_after_s=float(wait) if wait else None)

    with ChatServer(answer) as running:
        yield running


def try_it(server, words, drawn=1.0, **settings):
    """The answer (how many attempts it took) or the error, and the waits between the attempts."""
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    async def ask():
        chat = ChatSettings.model_validate({"base_url": server.base_url, **settings})
        client = ChatClient(chat, sleep=sleep, random=lambda: drawn)
        result = await settle(client, request(f"{next(NUMBERS)} {words}"))
        await client.close()
        return result.text if isinstance(result, ChatAnswer) else str(result)

    return asyncio.run(ask()), waits


@pytest.mark.parametrize(
    ("steps", "ends", "waits"),
    [
        ("500 500 500 200", "4", [0.25, 0.5, 1.0]),
        ("500 500 500 500 200", "in 4 attempts (timeout_s=60): HTTP 500", [0.25, 0.5, 1.0]),
        ("500:7 200", "2", [7.0]),
        ("429:2 429:2 429:2 429:2 429:2 200", "6", [2.25, 2.5, 3.0, 4.0, 6.0]),
        ("429:7 500 200", "3", [7.25, 0.25]),
        ("429:3600 200", "lower --concurrency", []),
        ("500:3600 200", "(timeout_s=60): HTTP 500", []),
        ("429:25 429:25 429:25 200", "(timeout_s=60): HTTP 429", [25.25, 25.5]),
        ("401 200", "refuses model 'm'", []),
    ],
)
def test_a_failed_request_is_tried_again_as_often_and_as_late_as_makes_sense(
    server, steps, ends, waits
):
    result, waited = try_it(server, steps)
    assert ends in result
    assert waited == waits


@settings(max_examples=40)
@given(st.lists(FAILURES, max_size=12), st.floats(0, 0.999), st.integers(1, 5))
def test_waits_end_within_the_time_and_no_failure_is_tried_for_ever(server, steps, drawn, attempts):
    words = [f"{status}" if wait is None else f"{status}:{wait:g}" for status, wait in steps]
    result, waits = try_it(server, " ".join(words), drawn, attempts=attempts)
    assert 0 <= sum(waits) < 60
    tried = steps[: len(waits) + 1]
    assert sum(status in (400, 500) for status, _ in tried[:-1]) < attempts
    for wait, (_, asked_s) in zip(waits, tried, strict=False):
        assert wait >= (asked_s or 0.0)
    assert result.isdigit() or "not now" in result
