"""How often a request is tried, how long is waited before, and how many are under way at once."""

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlver_gym.io.errors import ChatError
from rlver_gym.llm_client.admission import ConcurrencyLimit
from rlver_gym.llm_client.client import ChatClient
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.values import ChatMessage, ChatRequest
from rlver_gym.testing import ChatServer
from rlver_gym.testing.chat_server import Refused

STATUSES = st.sampled_from([400, 429, 500, 503])
WAITS = st.sampled_from([0.0, 2.0, 7.0, 3600.0])
FAILURES, NUMBERS = st.tuples(STATUSES, st.none() | WAITS), count()


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    """Fails as the words of the request say: "429:7 500 200"; then it answers."""
    asked: dict[str, int] = {}

    def answer(body: dict[str, Any]) -> str:
        words = body["messages"][0]["content"]
        at = asked[words] = asked.get(words, -1) + 1
        step = words.split()[at + 1 :][:1]
        if not step or step == ["200"]:
            return str(at + 1)
        status, _, wait = step[0].partition(":")
        raise Refused(int(status), "not now", retry_after_s=float(wait) if wait else None)

    with ChatServer(answer) as running:
        yield running


def try_it(
    server: ChatServer, words: str, drawn: float = 1.0, **settings: Any
) -> tuple[str | ChatError, list[float]]:
    """The answer (how many attempts it took) or the error, and the waits between the attempts."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def ask() -> str | ChatError:
        chat = ChatSettings.model_validate({"base_url": server.base_url, **settings})
        client = ChatClient(chat, sleep=sleep, random=lambda: drawn)
        try:
            message = ChatMessage("user", f"{next(NUMBERS)} {words}")
            return (await client.complete(ChatRequest("m", (message,)))).text
        except ChatError as error:
            return error
        finally:
            await client.close()

    return asyncio.run(ask()), waits


@pytest.mark.parametrize(
    ("steps", "ends", "waits"),
    [
        ("500 500 500 200", "4", [0.25, 0.5, 1.0]),
        ("500 500 500 500 200", "in 4 attempts (timeout_s=60): HTTP 500", [0.25, 0.5, 1.0]),
        ("500:7 200", "2", [7.0]),
        ("429:2 429:2 429:2 429:2 429:2 200", "6", [2.25, 2.5, 3.0, 4.0, 6.0]),
        ("429:7 500 200", "3", [7.25, 0.25]),
        ("429:3600 200", "(timeout_s=60): HTTP 429", []),
        ("500:3600 200", "(timeout_s=60): HTTP 500", []),
        ("429:25 429:25 429:25 200", "(timeout_s=60): HTTP 429", [25.25, 25.5]),
        ("401 200", "refuses model 'm'", []),
    ],
)
def test_a_failed_request_is_tried_again_as_often_and_as_late_as_makes_sense(
    server: ChatServer, steps: str, ends: str, waits: list[float]
) -> None:
    result, waited = try_it(server, steps)
    assert ends in str(result)
    assert waited == waits


@settings(max_examples=40)
@given(st.lists(FAILURES, max_size=12), st.floats(0, 0.999), st.integers(1, 5))
def test_waits_end_within_the_time_and_no_failure_is_tried_for_ever(
    server: ChatServer, steps: list[tuple[int, float | None]], drawn: float, attempts: int
) -> None:
    words = [f"{status}" if wait is None else f"{status}:{wait:g}" for status, wait in steps]
    result, waits = try_it(server, " ".join(words), drawn, attempts=attempts)
    assert 0 <= sum(waits) < 60
    tried = steps[: len(waits) + 1]
    assert sum(status in (400, 500) for status, _ in tried[:-1]) < attempts
    for wait, (_, asked_s) in zip(waits, tried, strict=False):
        assert wait >= (asked_s or 0.0)
    if isinstance(result, ChatError):
        assert "not now" in str(result)


def test_the_limit_halves_once_a_round_and_grows_by_one_for_as_many_answers_or_eight() -> None:
    async def play() -> list[int]:
        places = ConcurrencyLimit(16)
        rounds = [await places.acquire() for _ in range(12)]
        for round_ in rounds:
            places.record_overload(round_)
            places.release()
        limits = [places.limit]
        for _ in range(6 + 7 + 8 + 8 + 8):
            places.record_answer()
            limits.append(places.limit)
        for _ in range(6):
            places.record_overload(await places.acquire())
            places.release()
        return [*limits, places.limit]

    grown = [*[6] * 6, *[7] * 7, *[8] * 8, *[9] * 8, *[10] * 8, 11]
    assert asyncio.run(play()) == [*grown, 1]


@given(st.lists(st.tuples(st.sampled_from("elcoa"), st.integers(0, 20)), max_size=60))
def test_never_more_are_inside_than_allowed_and_nobody_is_left_waiting(
    moves: list[tuple[str, int]],
) -> None:
    async def settle() -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def play() -> None:
        places = ConcurrencyLimit(4)
        tasks: list[asyncio.Task[int]] = []
        inside: list[int] = []

        async def look() -> None:
            await settle()
            inside.extend(t.result() for t in tasks if t.done() and not t.cancelled())
            tasks[:] = [task for task in tasks if not task.done()]

        for move, at in moves:
            before = len(inside)
            if move == "e":
                tasks.append(asyncio.create_task(places.acquire()))
            elif move == "c" and tasks:
                tasks[at % len(tasks)].cancel()
            elif move == "l" and inside:
                inside.pop()
                places.release()
            elif move == "o" and inside:
                places.record_overload(inside[-1])
            elif move == "a":
                places.record_answer()
            await look()
            assert 1 <= places.limit <= 4
            assert len(inside) <= max(places.limit, before)
        while inside or tasks:
            assert inside, "somebody waits although every place is free"
            inside.pop()
            places.release()
            await look()

    asyncio.run(asyncio.wait_for(play(), 30))
