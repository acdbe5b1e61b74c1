"""The description at /openapi.json: complete, and what schemathesis finds against it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi", reason="needs rlver-gym[serve]")

TOKEN = "a-token-of-some-length"


@pytest.fixture
def schema(serve, caller):
    return caller(serve(token=TOKEN))("GET", "/openapi.json").body


def test_every_route_is_described_and_answers_problems(schema):
    for path, methods in schema["paths"].items():
        for route in methods.values():
            assert route["summary"], path
            assert route["description"], path
            media = route["responses"]["default"]["content"]["application/problem+json"]
            assert media["schema"] == {"$ref": "#/components/schemas/Problem"}
    assert "Problem" in schema["components"]["schemas"]
    assert "HTTPValidationError" not in json.dumps(schema)


def test_the_token_is_asked_for_where_it_is_needed(schema):
    routes = [(at, route) for at, of in schema["paths"].items() for route in of.values()]
    assert [path for path, route in routes if "security" not in route] == ["/healthz"]


def test_every_field_of_the_requests_is_described(schema):
    for name in ("EpisodeRequest", "StepRequest"):
        fields = schema["components"]["schemas"][name]["properties"]
        assert [field for field, kind in fields.items() if "description" not in str(kind)] == []


def granted_operations(har, operations):
    """Method and path of the operations that a recorded run had an answer 2xx of."""
    granted = set()
    for entry in json.loads(har.read_text(encoding="utf-8"))["log"]["entries"]:
        request, path = entry["request"], urlsplit(entry["request"]["url"]).path
        if 200 <= entry["response"]["status"] < 300:
            granted |= {
                (method, template)
                for method, template in operations
                if method == request["method"]
                and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)
            }
    return granted


@pytest.mark.fuzz
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("token", [None, TOKEN], ids=["without a token", "with a token"])
@pytest.mark.parametrize(
    ("phases", "operations"),
    [
        ("examples,coverage,fuzzing,stateful", "/"),
        # among all operations the walks along links seldom begin an episode
        ("stateful", "/v1/episodes"),
    ],
    ids=["every operation", "episodes from begin to end"],
)
def test_schemathesis_finds_nothing(serve, caller, tmp_path, phases, operations, token):
    if os.environ.get("RLVER_INTEGRATION") != "serve":  # there it is a failure
        pytest.importorskip("schemathesis", reason="needs: pip install schemathesis")
    server = serve(token=token, max_episodes=100_000)
    command = [str(Path(sys.executable).parent / "schemathesis"), "run"]
    command += [f"{server.url}/openapi.json", "--max-examples=50", "--seed=1", "--no-color"]
    command += ["--checks=all", f"--phases={phases}", f"--include-path-regex=^{operations}"]
    command += ["--report=har", f"--report-har-path={tmp_path / 'run.har'}"]
    command += ["--header", f"Authorization: Bearer {token}"] if token else []
    hooks = str(Path(__file__).parent / "schemathesis_hooks.py")
    env = {**os.environ, "SCHEMATHESIS_HOOKS": hooks}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    expected = {
        (method.upper(), path)
        for path, methods in caller(server)("GET", "/openapi.json").body["paths"].items()
        for method in methods
        if path.startswith(operations)
    }
    # a choice needs an id, a turn and an index that fit together: test_client.py makes them
    expected.discard(("POST", "/v1/episodes/{episode_id}/choices"))
    assert granted_operations(tmp_path / "run.har", expected) == expected
