"""A server that is down: everybody waits, no dialogue fails, what was paid for is not lost."""

import asyncio
import os

import pytest
from asking import request, settle
from commands import run_command
from hostile_run import edit_manifest

from rlver_gym.bench.costs import read_response_cache_spending
from rlver_gym.bench.folder import EPISODES, RESPONSE_CACHE_FILE, read_episodes
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import open_run, run
from rlver_gym.bench.verify import verify
from rlver_gym.core.emotion import Outcome
from rlver_gym.library.personas import library
from rlver_gym.llm_client.client import ChatClient
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.values import ChatAnswer
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.testing.chat_server import Refused
from rlver_gym.util.errors import ChatError, ServerOutage
from rlver_gym.util.request_origin import REQUEST_ORIGIN, RequestOrigin

ANSWERS = EmbeddedAnswers(card="SAGE-Sentient-v0")
PEOPLE = library().ids("demo")[::2][:2]


class Time:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds
        await asyncio.sleep(0.05 if self.now < 5 else 0)  # answers under way come in real time


class Flaky:
    """Answers "fine", but for the times and dialogues in which it has to fail."""

    def __init__(self, fails):
        self.fails, self.clock, self.asked_at = fails, Time(), list[float]()

    def __call__(self, body):
        self.asked_at.append(self.clock())
        if (refused := self.fails(self.clock(), body["messages"][0]["content"])) is not None:
            raise refused
        return "fine"


async def settle_in(dialogue, client):
    REQUEST_ORIGIN.set(RequestOrigin(dialogue))
    return await settle(client, request(dialogue))


def ask(flaky, *dialogues, notices=None, **settings):
    """What a request for each dialogue comes to, all at once, after one that was answered."""

    async def ask_all():
        chat = ChatSettings.model_validate({"base_url": server.base_url, "attempts": 2, **settings})
        client = ChatClient(chat, clock=flaky.clock, sleep=flaky.clock.sleep, random=lambda: 0.5)
        client.outage.on_change = (notices if notices is not None else []).append
        await client.complete(request(-1))
        flaky.asked_at.clear()
        results = await asyncio.gather(*[settle_in(number, client) for number in dialogues])
        await client.close()
        return list(results)

    with ChatServer(flaky) as server:
        return asyncio.run(ask_all())


def until(end_s, error):
    return lambda now, words: error() if words != "-1" and now < end_s else None


def test_an_outage_is_waited_for_and_everybody_is_answered():
    notices = []
    flaky = Flaky(until(100.0, lambda: Refused(502, "Bad gateway")))
    results = ask(flaky, *range(10), notices=notices)
    assert [result.text for result in results if isinstance(result, ChatAnswer)] == ["fine"] * 10
    assert 100 <= flaky.clock() < 135
    probes = [at for at in flaky.asked_at if 5 < at < 100]
    assert len(probes) < 12, "while it is down, one asks now and then"
    assert len(notices) == 2
    assert "HTTP 502: Bad gateway" in notices[0]
    assert "answers again" in notices[1]


def test_an_outage_that_takes_too_long_stops_everybody_with_the_option_to_change():
    flaky = Flaky(until(1e9, lambda: Refused(502, "Bad gateway")))
    results = ask(flaky, *range(10), max_wait_s=60.0)
    assert {type(result) for result in results} == {ServerOutage}
    assert "--max-wait" in str(results[0])
    assert "HTTP 502" in str(results[0])
    assert 60 <= flaky.clock() < 70


def test_a_server_that_asks_to_wait_longer_than_allowed_is_not_waited_for_at_all():
    flaky = Flaky(until(1e9, lambda: Refused(429, "Slow down", retry_after_s=3600.0)))
    results = ask(flaky, *range(10))
    assert {type(result) for result in results} == {ServerOutage}
    assert "asks to wait for 3,600 s" in str(results[0])
    assert flaky.clock() < 5
    assert len(flaky.asked_at) <= 10


def test_a_server_that_asks_to_wait_for_some_minutes_is_left_alone_till_then():
    notices = []
    flaky = Flaky(until(300.0, lambda: Refused(429, "Slow down", retry_after_s=300.0)))
    results = ask(flaky, *range(5), notices=notices)
    assert all(isinstance(result, ChatAnswer) for result in results)
    assert not [at for at in flaky.asked_at if 5 < at < 300]
    assert "asks to wait" in notices[0]


def test_a_server_that_fails_from_the_first_request_on_is_not_waited_for(tmp_path):
    def sick(body):
        raise Refused(500, "out of memory")

    with ChatServer(sick) as server, open_run(plan(server), tmp_path) as under_way:
        notices = []
        under_way.on_outage(notices.append)
        says = r"gives no usable answer, and has given none before \(HTTP 500: out of memory"
        with pytest.raises(ServerOutage, match=says):
            list(under_way.run_missing())
    assert notices == []
    assert read_episodes(tmp_path) == []


def test_one_dialogue_that_always_fails_is_no_outage():
    flaky = Flaky(lambda now, words: Refused(500, "no") if words == "3" else None)
    results = ask(flaky, 3, 3, 3, 3, 3, 1, 2)
    assert [type(result) for result in results] == [ChatError] * 5 + [ChatAnswer] * 2
    assert flaky.clock() < 20


def test_answers_that_cannot_be_used_are_no_outage():
    class Empty(Flaky):
        def __call__(self, body):
            super().__call__(body)
            return "fine" if body["messages"][0]["content"] == "-1" else " "

    flaky = Empty(lambda now, words: None)
    assert {type(result) for result in ask(flaky, *range(8))} == {ChatError}
    assert flaky.clock() < 5


DOWN, TOLD_TO_WAIT = Refused(502, "down"), Refused(429, "Slow down", retry_after_s=1e9)


@pytest.mark.parametrize(
    ("refused", "max_wait_s", "later"),
    [
        (DOWN, 10.0, {50.0: ChatAnswer}),
        (TOLD_TO_WAIT, 100.0, {50.0: ServerOutage, 101.0: ChatAnswer}),
    ],
)
def test_who_asks_after_an_outage_was_given_up_finds_out_at_once_whether_it_is_over(
    refused, max_wait_s, later
):
    async def ask_again_and_again():
        settings = ChatSettings(base_url=server.base_url, attempts=1, max_wait_s=max_wait_s)
        client = ChatClient(settings, clock=flaky.clock, sleep=flaky.clock.sleep)
        await client.complete(request(-1))
        kinds = []
        for at in (0.0, *later):
            flaky.clock.now = max(flaky.clock.now, at)
            results = await asyncio.gather(*[settle_in(one, client) for one in range(4)])
            kinds.append([*map(type, results)])
        await client.close()
        return kinds

    flaky = Flaky(until(40.0, lambda: refused))
    with ChatServer(flaky) as server:
        kinds = asyncio.run(ask_again_and_again())
    assert kinds == [[ServerOutage] * 4, *([kind] * 4 for kind in later.values())]


def test_who_asks_after_a_dialogue_asks_for_none(session):
    session.reply("What happened then?")
    assert REQUEST_ORIGIN.get() is None
    with session.request_context():
        asker = REQUEST_ORIGIN.get()
        session.start()
        assert REQUEST_ORIGIN.get() == asker
    assert REQUEST_ORIGIN.get() is None


def plan(server, **chat):
    chat = {"base_url": server.base_url, "attempts": 2, **chat}
    usual = {"agents": ("listener",), "user": "openai:user", "persona_ids": PEOPLE, "seeds": 1}
    return BenchPlan.model_validate({**usual, "chat": chat})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    with ChatServer(ANSWERS) as server:
        list(run(plan(server), folder))
    return folder


def test_a_run_stopped_by_an_outage_keeps_what_it_has_and_ends_like_any_other(
    undisturbed, tmp_path
):
    calls = 0

    def then_down(body):
        nonlocal calls
        calls += 1
        if calls > 10:
            raise Refused(502, "Bad gateway")
        return ANSWERS(body)

    with (
        ChatServer(then_down) as server,
        open_run(plan(server, max_wait_s=0.0), tmp_path) as under_way,
    ):
        with pytest.raises(ServerOutage, match="HTTP 502"):
            list(under_way.run_missing())
        (spending,) = under_way.spending
    assert not [one for one in read_episodes(tmp_path) if one.outcome is Outcome.FAILED]
    cache = tmp_path / RESPONSE_CACHE_FILE
    assert read_response_cache_spending(cache).prompt_tokens == spending.spent.prompt_tokens > 0
    with ChatServer(ANSWERS) as back:
        before = read_response_cache_spending(cache)
        # as if the run had been begun with this server, whose port is another
        edit_manifest(tmp_path, lambda there: there.update(server=back.base_url))
        with open_run(plan(back), tmp_path) as under_way:
            list(under_way.run_missing())
    assert (tmp_path / EPISODES).read_bytes() == (undisturbed / EPISODES).read_bytes()
    assert read_response_cache_spending(cache).prompt_tokens > before.prompt_tokens


def test_dialogues_that_failed_are_held_again_and_the_file_is_in_the_plans_order(
    undisturbed, tmp_path
):
    name = library().get(PEOPLE[1]).person.name
    sick = True

    def half(body):
        return "?" if sick and name in body["messages"][0]["content"] else ANSWERS(body)

    with ChatServer(half) as server:
        first = list(run(plan(server), tmp_path))
        failed = [one.key for one in first if one.outcome is Outcome.FAILED]
        assert 0 < len(failed) < len(first)
        assert set(verify(tmp_path)) == {None}
        sick = False
        with open_run(plan(server), tmp_path) as under_way:
            assert set(under_way.failed_before) == set(failed)
            assert {one.key for one in under_way.run_missing()} == set(failed)
        assert (tmp_path / EPISODES).read_bytes() == (undisturbed / EPISODES).read_bytes()
        assert set(verify(tmp_path)) == {None}
        asked = len(server.requests)
        assert list(run(plan(server), tmp_path)) == []
        assert len(server.requests) == asked


# From here on: the command itself.

AGENTS = ("comfort", "listener", "adaptive", "oracle")


def bench(server, folder, *words, people=1):
    command = f"bench --user openai:user --base-url {server.base_url} --seeds 1".split()
    command += ["--out", str(folder), *words]
    for agent in AGENTS:
        command += ["--agent", agent]
    for persona in library().ids("test")[:people]:
        command += ["--persona", persona]
    return run_command(*command, env=os.environ | {"OPENAI_API_KEY": "x", "COLUMNS": "200"})


def test_the_command_ends_with_4_when_some_dialogues_failed_unless_that_is_allowed(tmp_path):
    with ChatServer("?") as server:
        failed, allowed = (bench(server, tmp_path, *words) for words in ((), ("--allow-failures",)))
    assert failed.returncode == 4, failed.stderr
    assert "4 dialogues failed" in failed.stdout
    assert "the same command holds them again" in failed.stdout
    assert allowed.returncode == 0, allowed.stderr
    assert "(4 of them had failed)" in allowed.stdout


def test_a_server_that_takes_requests_and_never_answers_stops_the_run_with_the_option_to_change(
    tmp_path,
):
    words = ("--timeout", "1", "--max-wait", "2")
    with ChatServer("fine", latency_s=60) as server:
        done = bench(server, tmp_path / "run", *words, people=2)
    assert done.returncode == 3, done.stderr
    assert "has given none before (no answer in time)" in " ".join(done.stderr.split())
    assert "Raise --timeout" in " ".join(done.stderr.split())
