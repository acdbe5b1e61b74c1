"""The door to chat servers: what goes out, what is let in, what is told, on loopback."""

import asyncio
import base64
import json
import logging
import pickle
import time
from contextlib import contextmanager

import asking
import openai
import pytest
from asking import KEY, listening
from hostile_bodies import MODES
from hostile_server import HostileServer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from rlver_gym.llm_client import excerpts, refusals, transport
from rlver_gym.llm_client.connect import connect
from rlver_gym.llm_client.refusals import retry_after_s
from rlver_gym.llm_client.settings import (
    ChatSettings,
    find_problem,
    public_url,
    without_credentials,
)
from rlver_gym.llm_client.values import ChatAnswer, ChatMessage, ChatRequest
from rlver_gym.testing import ChatServer
from rlver_gym.util.errors import ChatError, ServerRefused
from rlver_gym.util.event_loop import wait_for

GOOD = {
    "choices": [{"message": {"content": "I hear you."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5},
}
FULL = ChatRequest(
    "m", (ChatMessage("user", "hello"),), max_tokens=9, seed=3, schema={"type": "object"}
)


@contextmanager
def answering(status, body, headers):
    """The address of a server that gives this answer to everything, and the requests that came."""
    requests = []

    async def handle(request, connection):
        requests.append(request)
        connection.send(status, body, headers=headers)

    with listening(handle) as url:
        yield url, requests


def ask(url, times=1, request=FULL, **options):
    options = {"api_key": KEY, "timeout_s": 5, **options}
    return asking.ask(url, *[request] * times, in_turn=True, **options)


def test_nothing_packed_is_asked_for_and_no_cookie_comes_back():
    with answering(200, GOOD, {"Set-Cookie": "id=1; Path=/"}) as (url, requests):
        assert [type(one) for one in ask(url, times=2)] == [ChatAnswer, ChatAnswer]
    assert [one.headers["accept-encoding"] for one in requests] == ["identity"] * 2
    assert not [one for one in requests if "cookie" in one.headers]


@pytest.mark.parametrize("mode", ["0_200", "1_200", "1_500", "two_headers", "charset_zlib_400"])
def test_a_bomb_is_not_unpacked(mode):
    with HostileServer(MODES) as server:
        begun = time.process_time()
        (error,) = ask(server.base_url(f"encodings.{mode}"), attempts=1)
    assert isinstance(error, ChatError)
    assert time.process_time() - begun < 2
    packed = "compressed answer, which was not asked for (turn compression off"
    assert ("HTTP 400" if "charset" in mode else packed) in str(error)


def test_an_answer_in_crumbs_is_given_up():
    with HostileServer(MODES) as server:
        (error,) = ask(server.base_url("pace.flood_of_chunks"), attempts=1)
    assert "an answer in more than 10,000 pieces" in str(error)


def test_a_redirect_is_not_followed_and_says_what_to_do():
    with HostileServer(MODES) as server:
        for status in (301, 302, 303, 307, 308):
            (error,) = ask(server.base_url(f"redirects.other_port_{status}"))
            assert type(error) is ServerRefused
            says = ("a redirect: http://127.0.0.1", "not followed", "OPENAI_BASE_URL")
            assert all(words in str(error) for words in says)
        assert server.strays == []
        assert server.requests.total() == 5


@pytest.mark.parametrize("field", ["messages", "model", "stream", "max_completion_tokens"])
def test_a_field_that_no_request_can_do_without_is_not_left_out(field):
    complaint = {"message": "Unsupported", "code": "unsupported_parameter", "param": field}
    with answering(400, {"error": complaint}, {}) as (url, requests):
        (error,) = ask(url)
        assert type(error) is ServerRefused
        assert len(requests) == 1


def test_each_optional_field_is_left_out_once_and_that_is_an_attempt():
    async def blame(request, connection):
        bodies.append(json.loads(request.body))
        left = [field for field in sorted(refusals.OPTIONAL) if field in bodies[-1]]
        if not left:
            return connection.send(200, GOOD)
        error = {"message": "no", "code": "unsupported_parameter", "param": left[0]}
        return connection.send(400, {"error": error})

    bodies = []
    with listening(blame) as url:
        (error,) = ask(url, attempts=4)
        assert type(error) is ServerRefused
        assert len(bodies) == 4
        bodies.clear()
        first, second = ask(url, times=2, attempts=5)
    assert isinstance(first, ChatAnswer)
    assert isinstance(second, ChatAnswer)
    assert len(bodies) == 6  # five to find out, and then at once


def test_user_and_password_of_an_address_are_sent_as_a_header_and_in_no_log(caplog):
    with answering(200, GOOD, {}) as (url, requests), caplog.at_level(logging.INFO):
        (answer,) = ask(url.replace("://", "://me:hunter%32@"))
    assert isinstance(answer, ChatAnswer)
    basic = f"Basic {base64.b64encode(b'me:hunter2').decode()}"
    assert requests[0].headers["authorization"] == basic
    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert "127.0.0.1" in logged
    assert not [word for word in ("hunter", "me:", KEY) if word in logged]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://127.0.0.1:1/v1?key=hunter2", "query"),
        ("http://127.0.0.1:1/v1#hunter2", "query"),
        ("http://me:hunter2/x@127.0.0.1/v1", "behind its host"),
        ("http://127.0.0.1:hunter2/v1", "begin with http"),
        ("http://127.0.0.1:99999/hunter2", "begin with http"),
        ("http://[::1/hunter2", "begin with http"),
        ("http://", "begin with http"),
        ("http://:80/v1", "begin with http"),
        ("me:hunter2@localhost", "behind its host"),
        ("file:///hunter2", "begin with http"),
        ("http://127.0.0.1/ hunter2", "blanks"),
        ("http://127.0.0.1/v1\n/x", "blanks"),
    ],
)
def test_an_address_that_is_none_is_refused_with_the_remedy_and_not_repeated(
    url, says, monkeypatch
):
    with pytest.raises(ValidationError, match=says) as wrong:
        ChatSettings(base_url=url)
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ServerRefused, match=f"OPENAI_BASE_URL.*{says}") as refused:
        connect()
    assert "hunter2" not in str(wrong.value) + str(refused.value)


def test_an_address_that_only_the_http_library_refuses_is_an_error_of_ours():
    with pytest.raises(ServerRefused, match="no address of a server"):
        connect(ChatSettings(base_url=f"http://{'a' * 70}é.example/v1"))


@given(
    st.text(max_size=60)
    | st.from_regex(r"https?://[\w:@%\[\].-]{0,20}/?[\w?#/]{0,10}", fullmatch=True)
)
def test_no_text_is_too_odd_to_be_told_from_an_address(text):
    without_credentials(text)
    if find_problem(text) is None:
        assert "@" not in public_url(ChatSettings(base_url=text)).split("/")[2]


def test_a_key_that_cannot_be_sent_is_refused_without_being_shown():
    for key in ("sk-“quoted”", "sk-two\nlines", "schlüssel"):
        with pytest.raises(ServerRefused, match="holds characters that no key has") as error:
            connect(ChatSettings(base_url="http://127.0.0.1:1/v1", api_key=SecretStr(key)))
        assert key[3:6] not in str(error.value)


@pytest.mark.parametrize("around", ["{} ", "{}\n", "{}\r\n", " {}", "\t{} \n"])
@pytest.mark.parametrize("place", ["variables", "options", "a pickle"])
def test_what_was_pasted_around_a_key_or_an_address_is_not_sent(around, place, monkeypatch):
    with ChatServer("fine", api_key=KEY) as server:
        url, key = around.format(server.base_url), around.format(KEY)
        settings = ChatSettings()
        if place != "options":
            monkeypatch.setenv("OPENAI_BASE_URL", url)
            monkeypatch.setenv("OPENAI_API_KEY", key)
        if place != "variables":
            settings = ChatSettings(base_url=url, api_key=SecretStr(key))
        if place == "a pickle":
            settings = pickle.loads(pickle.dumps(settings))
        assert wait_for(connect(settings).complete(FULL)).text == "fine"


def test_no_piece_of_a_key_is_shown():
    for piece in (KEY, KEY[3:], KEY[5:17], KEY[:12], KEY.upper(), f"x{KEY[8:]}x"):
        masked = piece.replace(piece.strip("x"), "***")
        assert excerpts.mask(f"no such key: {piece}!", [KEY], []) == f"no such key: {masked}!"
    assert excerpts.mask("no such key: abcde", ["abcde"], []) == "no such key: ***"
    assert excerpts.mask("none of them", ["none"], []) == "none of them"
    assert excerpts.mask("Bad glpat-abc123***def", [KEY], []) == "Bad ***"
    assert excerpts.mask("skip_special_tokens: no", [KEY], []) == "skip_special_tokens: no"


OWN_WORDS = (
    "This model's maximum context length is 4096 tokens",
    "response_format: json_schema is not supported",
)


@pytest.mark.parametrize(
    ("says", "shown"),
    [
        *((text, text) for text in OWN_WORDS),
        ("Invalid person: Rosalind, 47", "Invalid person: […]"),
        ("ROSALIND's age is 47.", "[…]'s age is […]."),
        ("name_Rosalind: too long", "name_[…]: too long"),
        ("李雷 is 47", "[…] is […]"),
        (r"got \u674e\u96f7 and 47\n", "got […] and […]"),
        ("&#82;osalind", "[…]"),
        ("She told him about the locksmith", "[…] about the […]"),
        ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
    ],
)
def test_what_a_server_repeats_of_the_request_is_masked_however_short(says, shown):
    said = [
        "Your name is Rosalind, a locksmith, 47. She told him, in tokens of the model.",
        "我是李雷。",
    ]
    assert excerpts.mask(says, [KEY], said) == shown


def test_words_of_our_own_are_never_masked():
    request = asking.request("HTTP 400, no usable answer, a body that is no complete JSON")
    with answering(400, {"error": {"message": "no usable body"}}, {}) as (url, _):
        (error,) = ask(url, request=request)
    assert "HTTP 400: no […]" in str(error)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("1e308", 30 * 86_400),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 30 * 86_400),
        ("3600", 3600),
        ("Mon, 01 Jan 0001 00:00:00 GMT", 0),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("1 Jan 2030 00:00:00 +99999999999", None),
        ("1" * 100, None),
        ("2.5", 2.5),
        ("-1", 0),
        ("", None),
        ("soon", None),
        ("inf", None),
        ("nan", None),
    ],
)
def test_an_absurd_time_to_wait_is_bounded_or_none(header, seconds):
    assert retry_after_s(header) == seconds


def test_the_http_library_is_the_one_of_openai():
    client = openai.DefaultAsyncHttpxClient()
    assert isinstance(client.build_request("GET", "http://x").url, transport.http.URL)
    asyncio.run(client.aclose())
