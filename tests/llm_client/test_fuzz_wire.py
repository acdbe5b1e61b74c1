"""Whatever a chat server sends, a request ends in an answer or our error, in bounds."""

import json

import pytest
from asking import KEY
from fuzzing import as_json, damaged_bytes, damaged_json, effort, json_values
from hypothesis import given
from hypothesis import strategies as st

from rlver_gym.llm_client import refusals, wire
from rlver_gym.llm_client.refusals import Failure
from rlver_gym.llm_client.values import ChatAnswer
from rlver_gym.testing.chat_server import completion, error
from rlver_gym.util.errors import ChatError
from rlver_gym.util.terminal import printable

PROMPT = "My sister stole the inheritance and I told nobody"
GOOD = completion({"model": "m", "messages": [{"role": "user", "content": PROMPT}]}, "I hear you.")
ERRORS = [
    error(400, f"cannot serve {PROMPT} with {KEY}", "invalid_request"),
    {"error": {"code": "unsupported_parameter", "param": "messages", "message": "\x1b]0;x\x07"}},
    {"error": {"code": "unsupported_value", "param": "temperature", "message": PROMPT}},
    {"detail": [{"loc": ["body", "model"], "msg": "field required", "input": PROMPT}]},
    {"message": "context length exceeded"},
    {"error": "content_filter"},
]
LONGEST_MESSAGE = 2000
"""More than the words of every attempt together."""

BODIES = st.one_of(
    damaged_json(GOOD).map(as_json),
    st.sampled_from(ERRORS).flatmap(damaged_json).map(as_json),
    damaged_bytes(as_json(GOOD)),
    json_values().map(as_json),
    st.sampled_from([b"[" * 3_000, b'{"error":' * 2_000, b'{"choices":' + b"9" * 5000 + b"}"]),
    st.binary(max_size=50),
)
_STATUSES = "200 201 204 301 302 307 400 401 402 403 404 408 409 413 422 429 500 502 503 529"
STATUSES = st.sampled_from([*map(int, _STATUSES.split())])
DATES = [
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Fri, 31 Dec 9999 23:59:59 -9999",
    "Mon, 1 Jan 0000 00:00:00 GMT",
    "Sat, 99 Jan 99999999999999999999 00:00:00 GMT",
    "Wed, 21 Oct 2015 07:28:00",
    "1 Jan 1 0:0:0 +999999999999",
]
DAMAGED_DATES = st.sampled_from(DATES).flatmap(lambda date: damaged_bytes(date.encode()))
ODD_WAITS = [*DATES, "0", "-1", "3600", "1e400", "nan", "-inf", "9" * 5000, "1_0", "٣", " 5 "]
WAITS = (
    st.sampled_from(ODD_WAITS)
    | DAMAGED_DATES.map(lambda data: data.decode("latin-1"))
    | st.text(max_size=30)
    | st.floats().map(str)
)


def check_message(message):
    """What is shown of a server's words: bounded and printable."""
    assert len(message) < LONGEST_MESSAGE
    assert str(ChatError(message)) == printable(str(ChatError(message)))


def check_result(result):
    """An answer that can be used and kept, or why there is none."""
    if isinstance(result, ChatAnswer):
        assert result.text.strip()
        json.dumps(result, ensure_ascii=False).encode()
        assert all(type(count) is int and 0 <= count < 1 << 40 for count in result[2:])
    else:
        assert isinstance(result, Failure)
        check_message(result.reason)


@pytest.mark.parametrize("said", ["false", "true", "-1", "1.5", '"7"', "null", "1e30", '"many"'])
def test_a_count_of_tokens_that_is_none_counts_0(said):
    choice = '{"message": {"content": "I hear you."}, "finish_reason": "stop"}'
    body = f'{{"choices": [{choice}], "usage": {{"prompt_tokens": {said}}}}}'
    counts = wire.parse_answer(body.encode(), "application/json")[1:3]
    assert (counts, [type(count) for count in counts]) == ((0, 0), [int, int])


@effort(few=40, many=10_000)
def test_any_body_is_an_answer_or_a_failure(examples):
    @given(
        BODIES,
        st.sampled_from(["application/json", "text/html; charset=x", ""]) | st.text(max_size=80),
    )
    def holds(body, kind):
        read = wire.parse_answer(body, kind)
        check_result(read.result)
        assert all(type(count) is int and 0 <= count < 1 << 40 for count in read[1:3])

    examples(holds)()


@effort(few=40, many=10_000)
def test_any_http_error_is_a_failure_that_can_be_shown(examples):
    @given(STATUSES | st.integers(100, 999), BODIES, st.dictionaries(st.just("retry-after"), WAITS))
    def holds(status, body, headers):
        failure = refusals.classify_http_error(status, body, headers)
        assert isinstance(failure, Failure)
        check_result(failure)
        assert failure.retry_after_s is None or 0 <= failure.retry_after_s < float("inf")

    examples(holds)()
