"""The response cache: what servers answered, kept so that runs are repeated without them."""

import asyncio
import gc
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from asking import KEY, ask_chat
from commands import invoke, invoke_well
from pydantic import SecretStr

from rlver_gym.llm_client import connect as shared
from rlver_gym.llm_client.connect import CachingClient, connect
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.values import ChatAnswer, ChatMessage, ChatRequest
from rlver_gym.testing import ChatServer, Refused
from rlver_gym.util.errors import BudgetSpent, CacheError, ChatError, NotInCache, ServerUnreachable
from rlver_gym.util.event_loop import run_many


def request(words="hello", model="m"):
    return ChatRequest(model, (ChatMessage("user", str(words)),), seed=1)


def answer(text):
    return ChatAnswer(text, "stop", 3, 4)


class Counting:
    """A chat that says how often it was asked, after a moment in which others can ask too."""

    def __init__(self, error=None):
        self.asked = 0
        self.error = error

    async def complete(self, request):
        self.asked += 1
        number = self.asked
        await asyncio.sleep(0.01)
        if self.error:
            raise self.error
        return answer(f"answer {number}")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.cache"


@pytest.fixture
def full(path):
    cache = ResponseCache(path)
    cache.put(request("one"), answer("first 🙂\x00\n"), server="http://x/v1")
    cache.put(request("two"), answer("第二"), server="http://x/v1")
    cache.put(request("three", "other"), ChatError("no usable answer"))
    return cache


def texts(results):
    return [
        result.text if isinstance(result, ChatAnswer) else f"{type(result).__name__}: {result}"
        for result in results
    ]


def edit(path, statement):
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(statement).rowcount == 1


def test_a_run_is_repeated_without_its_server_failures_included(path):
    requests = [request(at) for at in range(20)]

    def run(settings):
        return texts(ask_chat(connect(settings), *requests))

    def fail_at_some(body):
        number = int(body["messages"][0]["content"])
        if number % 3 == 0:
            raise Refused(500, "The server had an error.")
        return " " if number % 3 == 1 else f"re {number}"

    with ChatServer(fail_at_some) as server:
        live = ChatSettings(
            base_url=server.base_url, api_key=SecretStr(KEY), attempts=2, response_cache=path
        )
        first = run(live)
        assert run(live) == first
        assert len(server.requests) > 20
    assert {text.split()[0] for text in first} == {"re", "ChatError:"}
    assert run(live) == first
    assert run(ChatSettings(response_cache=path, cache_mode="replay")) == first
    shared.close()
    assert KEY.encode() not in path.read_bytes()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_what_is_kept_comes_back_to_the_last_character(full, path):
    full.close()
    again = ResponseCache(path, must_exist=True)
    assert again.get(request("one").key) == answer("first 🙂\x00\n")
    assert again.get(request("two").key) == answer("第二")
    failure = again.get(request("three", "other").key)
    assert type(failure) is ChatError
    assert str(failure) == "no usable answer"
    assert again.get(request("four").key) is None
    assert not again.damaged_keys()


@pytest.mark.parametrize(
    "change",
    [
        "answer = 'better'",
        "answer = NULL, failure = 'gave up'",
        "finish_reason = 'length'",
        "completion_tokens = 5",
        "request = replace(request, 'one', 'won')",
        "answer = x'00ff'",
    ],
)
def test_an_edited_row_is_found_and_never_believed(full, path, change):
    full.close()
    edit(path, f"UPDATE answers SET {change} WHERE key = '{request('one').key}'")
    cache = ResponseCache(path)
    assert cache.damaged_keys() == [request("one").key]
    with pytest.raises(CacheError, match=request("one").key[:12]):
        cache.get(request("one").key)
    assert texts(ask_chat(CachingClient(None, cache, "replay"), request("two"))) == ["第二"]


def test_a_replay_that_lacks_a_request_says_what_to_do(full):
    (result,) = ask_chat(CachingClient(None, full, "replay"), request("four"))
    assert isinstance(result, NotInCache)
    assert all(part in str(result) for part in ("run.cache", "'m'", "auto"))
    assert "four" not in str(result)


def test_a_replay_without_a_cache_never_asks_a_server():
    for fields in ({"cache_mode": "replay"}, {"base_url": "http://x", "cache_mode": "record"}):
        with pytest.raises(CacheError, match="needs a response cache"):
            connect(ChatSettings.model_validate(fields))


def test_equal_requests_are_asked_once_even_at_the_same_time(path):
    for mode in ("auto", "record"):
        chat = Counting()
        caching = CachingClient(chat, ResponseCache(path), mode)
        assert texts(ask_chat(caching, *[request(mode)] * 5, request(f"{mode} 2"))) == [
            "answer 1"
        ] * 5 + ["answer 2"]
        assert texts(ask_chat(caching, request(mode))) == ["answer 1"]
        assert chat.asked == 2
    chat = Counting()
    assert texts(ask_chat(chat, request(), request())) == ["answer 1", "answer 2"]


def test_one_who_gives_up_takes_nothing_from_the_others(path):
    async def play():
        caching = CachingClient(Counting(), ResponseCache(path))
        first, second = (asyncio.create_task(caching.complete(request())) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return (await second).text

    assert asyncio.run(play()) == "answer 1"


def test_an_error_that_nobody_waits_for_any_more_is_not_printed(path, caplog):
    class Full(ResponseCache):
        def put(self, *_, **__):
            raise CacheError("the disk is full")

    async def play():
        waiting = asyncio.create_task(CachingClient(Counting(), Full(path)).complete(request()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0.1)

    asyncio.run(play())
    gc.collect()
    assert not caplog.records


@pytest.mark.parametrize("has_cache", [True, False])
def test_who_stops_has_nothing_more_asked(has_cache, path):
    with ChatServer("yes", latency_s=0.2) as server:
        kept = {"response_cache": str(path)} if has_cache else {}
        chat = connect(ChatSettings(base_url=server.base_url, concurrency=2, **kept))
        answers = run_many(lambda number: chat.complete(request(number)), range(20), 20)
        next(answers)
        answers.close()
        time.sleep(1.2)
        assert len(server.requests) <= 6
        assert texts(ask_chat(chat, request(19))) == ["yes"]
        kept = sum(1 for _ in ResponseCache(path).rows()) if has_cache else len(server.requests)
        assert kept == len(server.requests), "what was sent is paid for"


def test_recording_asks_again_and_auto_does_not(full):
    chat = Counting()
    known = ask_chat(CachingClient(chat, full, "auto"), request("one"), request("three", "other"))
    assert texts(known) == ["first 🙂\x00\n", "ChatError: no usable answer"]
    assert chat.asked == 0
    assert texts(ask_chat(CachingClient(chat, full, "record"), request("one"))) == ["answer 1"]
    assert full.get(request("one").key) == answer("answer 1")


@pytest.mark.parametrize("error", [ServerUnreachable("down"), BudgetSpent("spent")])
def test_what_stops_a_run_is_not_kept(path, error):
    cache = ResponseCache(path)
    (result,) = ask_chat(CachingClient(Counting(error), cache), request())
    assert type(result) is type(error)
    assert cache.get(request().key) is None


def test_a_recording_that_was_stopped_asks_again(full):
    chat = Counting(ServerUnreachable("down"))
    recording = CachingClient(chat, full, "record")
    (stopped,) = ask_chat(recording, request("one"))
    chat.error = None
    assert type(stopped) is ServerUnreachable
    assert texts(ask_chat(recording, request("one"))) == ["answer 2"]


def test_a_file_that_is_no_cache_is_refused(path):
    with pytest.raises(CacheError, match="Record one first"):
        ResponseCache(path, must_exist=True)
    path.write_text("dear diary " * 100)
    with pytest.raises(CacheError, match="not a response cache"):
        ResponseCache(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE diary (day TEXT)")
    with pytest.raises(CacheError, match="not a response cache"):
        ResponseCache(path)
    for place in (path.parent, path.parent / "nowhere" / "cache"):
        with pytest.raises(CacheError, match="folder that exists"):
            ResponseCache(place)


def test_a_cache_of_another_version_or_a_broken_one_is_refused(full, path):
    full.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(CacheError, match="another version"):
        ResponseCache(path)
    content = bytearray(path.read_bytes())
    content[64:] = b"\xff" * (len(content) - 64)
    path.write_bytes(content)
    with pytest.raises(CacheError, match="broken"):
        ResponseCache(path)


def test_a_cache_that_was_deleted_begins_anew(full, path):
    full.close()
    path.unlink()
    assert full.get(request("one").key) is None
    full.put(request("one"), answer("again"))
    full.close()
    assert ResponseCache(path, must_exist=True).get(request("one").key) == answer("again")


WRITER = """
import sys
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.llm_client.values import ChatAnswer, ChatMessage, ChatRequest
cache, who, count = ResponseCache(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for at in range(count):
    request = ChatRequest("m", (ChatMessage("user", str(at)),))
    kept = cache.put(request, ChatAnswer(who, "stop", 1, 1))
    print(kept.text, flush=True)
"""


def start_writer(path, who, count):
    command = [sys.executable, "-c", WRITER, str(path), who, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_several_processes_can_write_and_all_believe_the_first(path):
    outputs = [
        process.communicate(timeout=60)
        for process in [start_writer(path, who, 100) for who in "ab"]
    ]
    assert outputs[0] == outputs[1]
    assert (len(outputs[0][0].split()), outputs[0][1]) == (100, "")
    assert not ResponseCache(path).damaged_keys()


def test_a_killed_process_leaves_a_cache_with_everything_it_had_kept(path):
    process = start_writer(path, "a", 10**6)
    assert process.stdout is not None
    for _ in range(50):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    cache = ResponseCache(path, must_exist=True)
    assert len(list(cache.rows())) >= 50
    assert not cache.damaged_keys()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_cache_can_be_used_on_both_sides_of_a_fork(full):
    child = os.fork()
    if child == 0:
        full.put(request("from the child"), answer("hi"))
        os._exit(0 if full.get(request("one").key) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert full.get(request("from the child").key) == answer("hi")


def test_stats_count_what_is_on_a_cache(full, path):
    full.close()
    counts = json.loads(invoke_well("cache", "stats", path, "--json"))
    assert (counts["requests"], counts["failures"], counts["damaged"]) == (3, 1, 0)
    assert counts["models"] == {"m": 2, "other": 1}
    assert (counts["prompt_tokens"], counts["completion_tokens"]) == (6, 8)
    assert "m (2), other (1)" in invoke_well("cache", "stats", path)
    edit(path, f"UPDATE answers SET answer = 'x' WHERE key = '{request('one').key}'")
    assert invoke("cache", "stats", path).exit_code == 1


def test_export_writes_everything_as_lines_of_json(full, path, tmp_path):
    full.close()
    out = invoke_well("cache", "export", path)
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["answer"] for row in rows} == {"first 🙂\x00\n", "第二", None}
    assert {row["request"]["messages"][0][1] for row in rows} == {"one", "two", "three"}
    invoke_well("cache", "export", path, "--out", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == out


def test_prune_forgets_exactly_what_it_was_told(full, path):
    full.close()
    edit(path, f"UPDATE answers SET answer = 'x' WHERE key = '{request('one').key}'")

    def left(*options):
        invoke_well("cache", "prune", path, *options)
        return len(list(ResponseCache(path).rows()))

    assert invoke("cache", "prune", path).exit_code == 2
    assert left("--model", "m", "--dry-run") == 3
    assert left("--older-than", 1) == 3
    assert left("--model", "m", "--failures") == 3
    assert left("--damaged") == 2
    assert left("--failures") == 1
    assert left("--older-than", 0) == 0
