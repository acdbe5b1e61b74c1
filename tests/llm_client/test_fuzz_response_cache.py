"""A cache that somebody damaged or edited gives what was recorded, or a CacheError."""

import json
from pathlib import Path

import pytest
from fuzzing import assert_clear, damaged_bytes, effort
from hypothesis import given

from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.llm_client.values import ChatAnswer, ChatMessage, ChatRequest
from rlver_gym.util.errors import CacheError, ChatError
from rlver_gym.util.terminal import printable

SECRET = "my sister stole the inheritance"
RECORDED = {
    ChatRequest("m", (ChatMessage("user", f"question {number}"),), seed=number): (
        ChatAnswer(f"{SECRET} {number} – grüße 🙂", "stop", 3 + number, 4)
        if number % 3
        else ChatError(f"no answer {number}")
    )
    for number in range(6)
}
BY_KEY = {request.key: result for request, result in RECORDED.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a cache with four answers and two failures."""
    path = tmp_path_factory.mktemp("cache") / "response_cache.sqlite"
    cache = ResponseCache(path)
    for request, result in RECORDED.items():
        cache.put(request, result, server="http://127.0.0.1/v1")
    cache.close()
    return path.read_bytes()


def same(result, recorded):
    if isinstance(result, ChatError) or isinstance(recorded, ChatError):
        return type(result) is type(recorded) and str(result) == str(recorded)
    return result == recorded and list(map(type, result)) == list(map(type, recorded))


def check_error(error):
    """Fit to show, short, and without what a model said in confidence."""
    assert_clear(error, max_chars=1000)
    assert SECRET[:12] not in str(error)


def check_well_formed(result):
    """Whatever a cache gives has the types that a server's answer has."""
    if isinstance(result, ChatAnswer):
        json.dumps(result, ensure_ascii=False).encode()
        assert type(result.text) is str
        assert result.finish_reason is None or type(result.finish_reason) is str
        assert all(type(count) is int and count >= 0 for count in result[2:])
    else:
        assert type(result) is ChatError
        assert str(result) == printable(str(result))


def open_cache(path):
    try:
        return ResponseCache(path, must_exist=True)
    except CacheError as error:
        check_error(error)
        return None


def check_prune(cache):
    """What is damaged is listed and can be taken out, or the file as a whole is refused."""
    try:
        cache.delete(cache.damaged_keys())
        assert cache.damaged_keys() == []
        for row in cache.rows():
            check_well_formed(row.result())
    except CacheError as error:
        check_error(error)


def write(path, data):
    for suffix in ("-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def test_a_row_out_of_order_is_deleted_or_the_file_is_refused(whole, tmp_path):
    path = tmp_path / "response_cache.sqlite"
    for key in sorted(BY_KEY):
        write(path, whole.replace(key.encode(), b"z" + key[1:].encode()))
        if cache := open_cache(path):
            check_prune(cache)
            cache.close()


@effort(few=25, many=3_000)
def test_any_other_byte_gives_no_other_answer(whole, tmp_path, examples):
    path = tmp_path / "response_cache.sqlite"

    @given(damaged_bytes(whole))
    def holds(data):
        write(path, data)
        if not (cache := open_cache(path)):
            return
        try:
            for key, recorded in BY_KEY.items():
                try:
                    result = cache.get(key)
                    assert result is None or same(result, recorded)
                except CacheError as error:
                    check_error(error)
            check_prune(cache)
        finally:
            cache.close()

    examples(holds)()
