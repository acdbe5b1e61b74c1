"""Nobody but who was given the address gets in, and no page does what it should not."""

import re
import time
from http.client import HTTPConnection
from importlib.resources import files

import pytest

ASKS = ["/", "/studio.js", "/api/overview", "/api/people", "/nowhere", "/?token=wrong", "/?token="]


@pytest.mark.parametrize("path", ASKS)
def test_without_the_cookie_nothing_is_answered(shared, path):
    for headers in ({}, {"cookie": f"studio_{shared.server.port}=wrong"}, {"cookie": '"\\='}):
        answer = shared.ask("GET", path, headers=headers)
        assert (answer.status, "rlver-gym studio" in answer.body) == (401, True)


def test_the_address_that_is_printed_opens_the_studio(shared):
    answer = shared.ask("GET", f"/?token={shared.server.token}")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    cookie, *rules = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(rules)
    for others in ("", 'prefs={"a": 1}; ', "x=\xe9; ", "foo; "):  # of other programs here
        page = shared.ask("GET", "/", headers={"cookie": others + cookie})
        assert page.status == 200
    assert '<div id="studio">' in page.body


FOREIGN = [{"origin": one} for one in ("http://evil.example", "null", "http://127.0.0.1:1")]
FOREIGN += [{"sec-fetch-site": site} for site in ("cross-site", "same-site")]


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, *FOREIGN])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_page_is_refused_even_with_the_cookie(shared, headers, method):
    answer = shared.ask(method, "/api/overview", "{}", {"cookie": shared.cookie, **headers})
    assert answer.status == 403


def test_a_body_that_is_too_large_or_of_no_length_is_not_read(shared):
    answer = shared.ask("POST", "/api/say", "x" * 600_000, {"cookie": shared.cookie})
    assert answer.status == 413
    connection = HTTPConnection("127.0.0.1", shared.server.port, timeout=60)
    headers = {"cookie": shared.cookie}
    connection.request("POST", "/api/say", iter([b"{}"]), headers, encode_chunked=True)
    with connection.getresponse() as response:
        assert response.status == 413
    connection.close()


def test_answers_on_a_kept_connection_wait_for_no_acknowledgement(shared):
    connection = HTTPConnection("127.0.0.1", shared.server.port, timeout=60)

    def measure_s():
        began = time.perf_counter()
        connection.request("GET", "/", headers={"cookie": shared.cookie})
        connection.getresponse().read()
        return time.perf_counter() - began

    assert min(measure_s() for _ in range(20)) < 0.02, "delayed acknowledgements take 40 ms"
    connection.close()


@pytest.mark.parametrize("path", ["/", "/api/overview", "/api/search", "/nowhere"])
def test_every_answer_forbids_all_but_our_own_files(shared, path):
    headers = shared.ask("GET", path, headers={"cookie": shared.cookie}).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_the_built_files_name_no_other_machine_and_hold_no_inline_script():
    namespaces = {
        f"http://www.w3.org/{one}" for one in ("2000/svg", "1998/Math/MathML", "1999/xhtml")
    }
    for file in (files("rlver_gym.studio") / "static").iterdir():
        text = file.read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[\w./-]+", text)) <= namespaces, file.name
        assert "innerHTML" not in text or file.name == "studio.js"
        if file.name.endswith(".html"):
            assert re.findall(r"<script[^>]*>(.*?)</script>", text) == [""]
            assert " on" not in text


@pytest.mark.parametrize("body", ["", "[]", "null", "{", '{"talk": 1e999}', "[" * 100_000])
def test_what_is_no_request_is_said_to_be_none(shared, body):
    answer = shared.ask("POST", "/api/say", body, {"cookie": shared.cookie})
    assert answer.status in (400, 422)
    assert answer.body["problem"]


def test_unknown_and_missing_fields_are_named(shared):
    assert "words" in shared.refusal("say", talk="x")
    assert "colour" in shared.refusal("say", talk="x", words="", colour="red")
