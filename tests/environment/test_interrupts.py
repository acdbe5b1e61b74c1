"""A stop is a stop: Ctrl-C while a slow server is waited for leaves all where it was."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import data_equivalence
from interrupts import heeding_ctrl_c
from machine import slack

from rlver_gym import EmpathySession, Message, env_card, make_agent, make_user
from rlver_gym.bench.judge.ask import Judge, JudgeInput
from rlver_gym.environment.rollout import rollout
from rlver_gym.library.personas import library
from rlver_gym.llm_client.connect import connect
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.users.llm import LLMOptions

SAY = ("What happened?", "That must hurt.", "Tell me slowly.")
QUIET_S = 0.3
"""A server that was asked nothing new for so long is waited for."""


class SlowServer:
    """The embedded user's answers; while it is slow, from some request on none is answered."""

    def __init__(self):
        self.answers_left = float("inf")
        self.server = ChatServer(EmbeddedAnswers(), latency_s=self._latency_s)
        self.options = {"user": "openai:m", "base_url": self.server.base_url, "timeout_s": 60}

    def _latency_s(self, body):
        self.answers_left -= 1
        return 0.0 if self.answers_left >= 0 else 60.0

    @contextmanager
    def interrupted_after(self, answers):
        """A block in which Ctrl-C comes once so many answers were given and no more are."""
        self.answers_left = answers

        def interrupt():
            known, since = len(self.server.requests), time.monotonic()
            while time.monotonic() - since < QUIET_S * slack() or self.answers_left >= 0:
                time.sleep(0.02)
                if len(self.server.requests) != known:
                    known, since = len(self.server.requests), time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)

        waiting = threading.Thread(target=interrupt)
        waiting.start()
        begun = time.monotonic()
        with heeding_ctrl_c(), pytest.raises(KeyboardInterrupt):
            yield
        assert time.monotonic() - begun < 20 * slack(), "it waited for the server"
        waiting.join()
        asked = len(self.server.requests)
        time.sleep(0.1)
        assert len(self.server.requests) == asked, "something of it goes on"
        self.answers_left = float("inf")


@pytest.fixture
def slow():
    found = SlowServer()
    with found.server:
        yield found


@pytest.fixture(autouse=True)
def nothing_is_left_unseen(caplog):
    yield
    assert not [record.getMessage() for record in caplog.records if record.name == "asyncio"]


def make(slow, kind):
    if kind == "single":
        return gym.make("RLVER-Empathy-v0", **slow.options)
    return gym.make_vec("RLVER-Empathy-v0", num_envs=3, **slow.options)


def step(env, kind):
    return env.step(SAY[0] if kind == "single" else SAY)


CALLS = {
    "step": step,
    "reset": lambda env, kind: env.reset(),
    "reset with a seed": lambda env, kind: env.reset(seed=8),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("kind", "answers"), [("single", 0), ("single", 1), ("vector", 4)])
def test_an_interrupt_moves_no_dialogue_and_draws_no_number(kind, answers, call, slow):
    env, twin = make(slow, kind), make(slow, kind)
    for one in (env, twin):
        one.reset(seed=3)
        step(one, kind)
    if call != "step":
        answers //= 2  # an opening takes one request, a turn two
    with slow.interrupted_after(answers):
        CALLS[call](env, kind)
    for _ in range(2):
        assert data_equivalence(step(env, kind), step(twin, kind))
    assert data_equivalence(env.reset(), twin.reset())


def test_an_interrupted_first_reset_has_begun_nothing(slow):
    env, twin = make(slow, "vector"), make(slow, "vector")
    with slow.interrupted_after(2):
        env.reset(seed=3)
    assert [one.has_begun for one in env.envs] == [False] * 3
    assert data_equivalence(env.reset(seed=4), twin.reset(seed=4))


def test_an_interrupt_of_a_program_on_an_event_loop_moves_no_dialogue(slow):
    env = make(slow, "single").unwrapped
    env.reset(seed=3)
    before = env.session.snapshot()
    with slow.interrupted_after(1):
        asyncio.run(env.astep(SAY[0]))
    assert env.session.snapshot() == before


def test_an_interrupted_rollout_asks_nothing_more(slow):
    user = make_user(**slow.options)
    personas = [library().get(name) for name in library().ids("train")[:4]]
    sessions = [EmpathySession(user, one, env_card("RLVER-Empathy-v0"), 1) for one in personas]
    with slow.interrupted_after(9):
        list(rollout((one, make_agent("listener", one.scene.persona, 0)) for one in sessions))
    before = [one.snapshot() for one in sessions]
    time.sleep(0.2)
    assert [one.snapshot() for one in sessions] == before


def test_an_interrupted_judge_asks_nothing_more(slow):
    said = (Message("user", "I lost my job."), Message("agent", "I hear you."))
    judge = Judge(connect(ChatSettings(base_url=slow.server.base_url)), "m", LLMOptions())
    dialogues = [JudgeInput(str(number), "a", "p", 50.0, said) for number in range(40)]
    with slow.interrupted_after(0):
        list(judge.judge(dialogues, at_once=4))
    assert len(slow.server.requests) == 4


PROGRAM = """
import sys, gymnasium, rlver_gym
env = gymnasium.make_vec("RLVER-Empathy-v0", num_envs=2, vectorization_mode=sys.argv[2],
                         user="openai:m", base_url=sys.argv[1], timeout_s=60)
env.reset(seed=3)
print("reset", flush=True)
try:
    env.step(("What happened?", "Tell me more."))
except KeyboardInterrupt:
    print("interrupted", flush=True)
env.close(**({"terminate": True} if sys.argv[2] == "async" else {}))
"""


@pytest.mark.parametrize("mode", ["sync", "async", "vector_entry_point"])
def test_every_vector_mode_of_gymnasium_comes_to_an_end(mode, slow):
    slow.answers_left = 3
    command = [sys.executable, "-c", PROGRAM, slow.server.base_url, mode]
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with heeding_ctrl_c(), subprocess.Popen(command, start_new_session=True, **how) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "reset\n"
        while slow.answers_left >= 0:
            time.sleep(0.02)
        time.sleep(QUIET_S * slack())
        os.killpg(program.pid, signal.SIGINT)  # as a terminal does, to its workers too
        output, errors = program.communicate(timeout=30 * slack())
    assert (output, program.returncode) == ("interrupted\n", 0), errors
    assert "never retrieved" not in errors
    assert "Context" not in errors


FORGOTTEN = """
import asyncio, sys
from rlver_gym.util.event_loop import BackgroundWork
def waiting():
    work = BackgroundWork(asyncio.sleep(100))
    try:
        yield
    finally:
        assert sys.is_finalizing()
        work.stop()
        print("closed")
begun = waiting()
next(begun)
"""


def test_a_rollout_that_nobody_closes_does_not_keep_the_interpreter_from_ending():
    command = [sys.executable, "-c", FORGOTTEN]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30 * slack())
    assert (ended.stdout, ended.stderr) == ("closed\n", "")
