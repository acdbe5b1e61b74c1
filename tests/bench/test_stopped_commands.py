"""Ctrl-C, SIGTERM and kill -9 at any moment of what costs money: nothing that was answered is asked
for again but what was under way, and the same command ends as if nothing had been.
"""

import json
import random
import signal
import subprocess
import sys
import time

import pytest
from interrupts import heeding_ctrl_c

from rlver_gym.core.capabilities import JUDGEMENTS
from rlver_gym.library.personas import library
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers

PEOPLE = library().ids("test")[:2]
AT_ONCE, STOPS = 2, 14
BENCH = ["bench", "--user", "openai:m", "--agent", "listener", "--agent", "comfort", "--seeds", "1"]
BENCH += [word for one in PEOPLE for word in ("--persona", one)]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
EXIT_CODES = {signal.SIGINT: (130, -2), signal.SIGTERM: (-15, 143), signal.SIGKILL: (-9,)}
"""-2: at its very end."""


class Answers:
    """As a user, and as a judge who gives 4."""

    def __init__(self):
        self.user = EmbeddedAnswers(card="SAGE-Sentient-v0")

    def __call__(self, body):
        if '"conversation"' not in body["messages"][-1]["content"]:
            return self.user(body)
        names = body["response_format"]["json_schema"]["schema"]["properties"]
        return json.dumps({name: [] if "_quotes_" in name else 4 for name in names})


def start(place, words):
    command = [sys.executable, "-m", "rlver_gym", *words]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with heeding_ctrl_c():
        return subprocess.Popen(command, cwd=place, **streams)


def finish(place, words):
    told, error = (process := start(place, words)).communicate(timeout=200)
    assert process.returncode == 0, error
    return told


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", ["bench", "judge", "rescore"])
def test_a_command_that_is_stopped_at_any_moment_loses_doubles_and_bends_nothing(command, tmp_path):
    rng = random.Random(command)
    with ChatServer(Answers(), latency_s=0.03) as server:
        bench = [*BENCH, "--base-url", server.base_url, "--concurrency", str(AT_ONCE)]
        options = [f"base_url={server.base_url}", f"concurrency={AT_ONCE}"]
        more = {
            "bench": [*bench, "--out", "run"],
            "judge": "judge run --samples 8 --judge openai:j".split(),
            "rescore": "rescore run --json --user openai:n".split(),
        }
        words = more[command]
        for option in options if command != "bench" else ():
            words += ["--judge-option" if command == "judge" else "--user-option", option]
        whole, stopped = tmp_path / "whole", tmp_path / "stopped"
        for place in (whole, stopped):
            place.mkdir()
            if command != "bench":
                finish(place, more["bench"])
        before = len(server.requests)
        told = finish(whole, words)
        needed = len(server.requests) - before
        file = {"bench": "episodes.jsonl", "judge": JUDGEMENTS, "rescore": "opinions.json"}[command]

        begun = len(server.requests)
        for number in range(STOPS):
            target = begun + (number + rng.random()) * needed / STOPS
            target = max(target, len(server.requests) + 1)  # it has begun to ask
            process, sign = start(stopped, words), rng.choice(SIGNALS)
            while len(server.requests) < target and process.poll() is None:
                time.sleep(0.002)
            time.sleep(rng.random() / 20)
            process.send_signal(sign)
            _, error = process.communicate(timeout=100)
            assert process.returncode in (0, *EXIT_CODES[sign]), (sign, error)
            assert "Traceback" not in error
        again = finish(stopped, words)
        asked = len(server.requests) - begun
    print(f"{command}: {STOPS} stops, {needed} requests needed, {asked} asked for")
    assert (stopped / "run" / file).read_bytes() == (whole / "run" / file).read_bytes()
    assert command != "rescore" or again == told  # the others say what was spent now
    assert needed <= asked <= needed + STOPS * AT_ONCE
