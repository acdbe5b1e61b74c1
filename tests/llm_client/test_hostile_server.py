"""The client against a server that does everything to harm it ends in time and tells nothing."""

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import time
from typing import NamedTuple

import pytest
from asking import KEY, settle
from hostile_bodies import GROUPS, MODES
from hostile_server import HostileServer
from machine import slack
from pydantic import SecretStr

from rlver_gym.library.personas import library
from rlver_gym.llm_client.client import ChatClient
from rlver_gym.llm_client.settings import Budget, ChatSettings
from rlver_gym.llm_client.values import ChatAnswer, ChatMessage, ChatRequest
from rlver_gym.util.errors import BudgetSpent, ChatError
from rlver_gym.util.terminal import printable

PIECES = {KEY[at : at + 12] for at in range(len(KEY) - 11)}
PROFILE = (
    '{"person": {"name": "Rosalind", "age": 47, "work": "locksmith"}, "story": "my sister stole the'
    ' inheritance"}'
)
TOLD = ("Rosalind", "47", "locksmith", "sister", "stole", "inheritance")
"""Words of the request that no message may hold."""
ATTEMPTS = 2
TIMEOUT_S, ATTEMPT_S = 1.0, 0.4
SLACK_S = 3.0 * slack()
"""What a busy machine may add to a deadline."""
MOST_WAITS = 6
"""Requests that fit in the time where a server asks for ever longer waits."""
AT_ONCE = 6
EACH_GROUP = 4
"""Modes of each group that are always tried, spread evenly."""
MOST_MB = 300
LAUNCHER = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL, timeout=120).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
kib = peak >> (10 if sys.platform == "darwin" else 0)
open(sys.argv[1], "w").write(json.dumps([code, kib >> 10]))
"""
"""A small process that starts the command, for its starter's memory counts as its own."""


@pytest.fixture
def server():
    with HostileServer(MODES) as server:
        yield server


class Ending(NamedTuple):
    mode: str
    result: object
    took_s: float
    counted: int
    """Attempts that the client counted."""


async def end_of(server, mode):
    """Ask with every field that can be blamed; then once more, for which there is no budget."""
    settings = ChatSettings(
        base_url=server.base_url(mode),
        api_key=SecretStr(KEY),
        attempts=ATTEMPTS,
        timeout_s=TIMEOUT_S,
        attempt_timeout_s=ATTEMPT_S,
        budget=Budget(calls=1),
    )
    profile = (ChatMessage("system", PROFILE),)
    request = ChatRequest("m", profile, max_tokens=9, seed=3, schema={"type": "object"})
    client = ChatClient(settings, random=lambda: 0.5)
    begun = time.monotonic()
    result = await settle(client, request)
    took_s = time.monotonic() - begun
    with pytest.raises(BudgetSpent):
        await client.complete(request)
    await client.close()
    return Ending(mode, result, took_s, client.spending.spent.attempts)


def endings(server, modes):
    """The endings of these modes, a few of them at once."""

    async def run():
        places = asyncio.Semaphore(AT_ONCE)

        async def one(mode):
            async with places:
                return await end_of(server, mode)

        return await asyncio.gather(*map(one, modes))

    return asyncio.run(run())


def faults(ending, requests):
    text = str(ending.result)
    if not isinstance(ending.result, ChatAnswer | ChatError):
        yield f"ended as {type(ending.result).__name__}"
    if ending.took_s > TIMEOUT_S + SLACK_S:
        yield f"took {ending.took_s:.1f} s"
    waits = ending.mode.startswith("waits") or "429" in text or "503" in text
    if requests > (MOST_WAITS if waits else ATTEMPTS):
        yield f"{requests} requests"
    if requests > ending.counted:
        yield f"{requests} requests, of which the budget knows {ending.counted}"
    if isinstance(ending.result, ChatError):
        if printable(text) != text:
            yield "not printable"
        yield from (f"tells {piece!r}" for piece in PIECES if piece.lower() in text.lower())
        yield from (
            f"tells {word!r}" for word in TOLD if re.search(rf"\b{word}\b", text, re.IGNORECASE)
        )
        if len(text) > 1_000:
            yield "says too much"


def check(server, modes, caplog):
    with caplog.at_level(logging.INFO):
        ended = {ending.mode: ending for ending in endings(server, modes)}
        # A busy machine may not have connected in time.
        for again in endings(server, [mode for mode in modes if mode not in server.requests]):
            ended[again.mode] = again._replace(counted=again.counted + ended[again.mode].counted)
    wrong = {
        mode: (wrongs, str(ending.result)[:300])
        for mode, ending in ended.items()
        if (wrongs := [*faults(ending, server.requests[mode])])
    }
    assert not wrong
    assert server.strays == []
    assert ended.keys() <= server.requests.keys(), "a mode that was never asked"
    logged = [record.getMessage() for record in caplog.records]
    assert not [line for line in logged if any(piece in line for piece in PIECES)]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("most", [EACH_GROUP, pytest.param(1_000, marks=pytest.mark.slow)])
def test_each_kind_of_malice_ends_in_time_and_tells_nothing(group, most, server, caplog):
    modes = [mode.name for mode in MODES if mode.group == group]
    check(server, modes[:: -(-len(modes) // most)], caplog)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_a_benchmark_survives_each_kind_of_malice_in_little_memory(group, server, tmp_path):
    words = "bench --user openai:m --agent comfort --seeds 40 --max-wait 5 --base-url"
    command = [sys.executable, "-m", "rlver_gym", *words.split(), server.base_url(group)]
    command += ["--persona", library().ids("demo")[0], "--out", str(tmp_path / "run")]
    for option in ("attempts=3", "timeout_s=4", "attempt_timeout_s=1"):
        command += ["--user-option", option]
    launched = [sys.executable, "-c", LAUNCHER, str(tmp_path / "end"), *command]
    environment = os.environ | {"OPENAI_API_KEY": KEY, "NO_COLOR": "1"}
    done = subprocess.run(launched, env=environment, capture_output=True, text=True, timeout=150)
    output = done.stdout + done.stderr
    code, resident_mb = json.loads((tmp_path / "end").read_text())
    assert "Traceback" not in output, output[-3_000:]
    assert code in (0, 2, 3, 4), output[-3_000:]
    assert resident_mb < MOST_MB
    assert server.strays == []
    assert not [piece for piece in PIECES if piece in output]
    assert sum(server.requests.values()) > 0
