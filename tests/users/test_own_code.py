"""Agents and users of one's own may block, exit, raise anything or never return.

It is named, nothing is lost, and nobody else waits.
"""

import asyncio
import os
import subprocess
import sys
import threading
import time

import pytest
from commands import run_command

from rlver_gym import make_user
from rlver_gym.bench.folder import read_episodes
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import open_run
from rlver_gym.bench.verify import verify
from rlver_gym.cli.servers import parse_seconds
from rlver_gym.core.emotion import Outcome
from rlver_gym.library.personas import library
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.users import PLAIN_USERS, EmbeddedUser, is_shipped_user
from rlver_gym.util.errors import AgentError, CardError, UnknownName, UserError
from rlver_gym.util.user_code import CodeFailed, CodeRunner, CodeTimeout, describe_error

RLVER = [sys.executable, "-m", "rlver_gym"]
PERSONA = library().ids("demo")[0]

AGENTS = """
import asyncio, sys, time
class Base:
    def reply(self, messages): return "What happened then?"
class Exits(Base):
    def reply(self, messages): sys.exit(0)
class Cancels(Base):
    def reply(self, messages): raise asyncio.CancelledError
class Stops(Base):
    def reply(self, messages): raise StopIteration("over")
class Quits(Base):
    def reply(self, messages): raise GeneratorExit
class Odd(Exception):
    def __str__(self): raise ValueError("no words")
class Unprintable(Base):
    def reply(self, messages): raise Odd
class Escapes(Base):
    def reply(self, messages): raise KeyError("\\x1b[2Jgone")
class Liar(str):
    def __len__(self): return 3
class Long(Base):
    def reply(self, messages): return Liar("word " * 100_000)
class Slow(Base):
    def reply(self, messages):
        if len(messages) == 1: time.sleep(1.5)
        return "I see."
class Hangs(Base):
    def reply(self, messages):
        if len(messages) > 1: time.sleep(1e6)
        return "What happened then?"
class Asynchronous:
    def reply(self, messages): raise AssertionError
class AExits(Asynchronous):
    async def areply(self, messages): sys.exit(0)
class ACancels(Asynchronous):
    async def areply(self, messages): raise asyncio.CancelledError
class AStops(Asynchronous):
    async def areply(self, messages): raise StopIteration
class AHangs(Asynchronous):
    async def areply(self, messages): await asyncio.sleep(1e6)
class ABlocks(Asynchronous):
    async def areply(self, messages): time.sleep(1e6)
"""

USERS = """
import sys, time
from rlver_gym.users import EmbeddedUser
from rlver_gym.core.dialogue import Appraisal
class Good(EmbeddedUser):
    kind = "mine"
class Exits(Good):
    def appraise(self, scene, emotion, dialogue): sys.exit(0)
class Hangs(Good):
    def speak(self, scene, emotion, dialogue, appraisal): time.sleep(1e6)
class Raises(Good):
    def open(self, scene, emotion): raise KeyError("lost")
class Far(Good):
    def appraise(self, scene, emotion, dialogue): return Appraisal(99, "", ())
class Odd(Good):
    def appraise(self, scene, emotion, dialogue): return Appraisal(1, "", (object(),))
class Mute(Good):
    def speak(self, scene, emotion, dialogue, appraisal): return None
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A folder with two modules of one's own, from which they can be imported."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_agents.py").write_text(AGENTS, encoding="utf-8")
    (folder / "own_users.py").write_text(USERS, encoding="utf-8")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


def hold(folder, *agents, user="embedded", timeout_s=30.0):
    plan = BenchPlan(agents=agents, user=user, persona_ids=(PERSONA,), seeds=1)
    with open_run(plan, folder, agent_timeout_s=timeout_s) as under_way:
        return list(under_way.run_missing())


def bench(folder, out, *words, in_process=True):
    """The command, started in the folder; `in_process`: in this process, not in one of its own."""
    command = ["bench", "--persona", PERSONA, "--seeds", "1", "--out", str(out), *words]
    env = os.environ | {"COLUMNS": "300"}
    if in_process:
        done = run_command(*command, cwd=folder, env=env)
    else:
        done = subprocess.run(
            [*RLVER, *command], capture_output=True, text=True, timeout=60, cwd=folder, env=env
        )
    for stream in (done.stdout, done.stderr):
        assert "Traceback" not in stream, stream
        assert "\x1b[2J" not in stream
    return done


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Exits", "SystemExit: 0"),
        ("Cancels", "CancelledError"),
        ("Stops", "StopIteration: over"),
        ("Quits", "GeneratorExit"),
        ("Unprintable", "Odd: its message cannot be printed"),
        ("Escapes", "KeyError: '\\x1b[2Jgone'"),
        ("AExits", "SystemExit: 0"),
        ("ACancels", "CancelledError"),
        ("AStops", "StopIteration"),
    ],
)
def test_whatever_an_agent_raises_is_named_with_whom_and_when(own, tmp_path, name, says):
    with pytest.raises(AgentError) as error:
        hold(tmp_path, "comfort", f"own_agents:{name}")
    assert type(error.value) is AgentError
    assert f"agent 'own_agents:{name}' with {PERSONA}, seed 0, turn 1: {says}" in str(error.value)
    assert "own_agents.py, line" in str(error.value)
    assert "what was finished is kept" in str(error.value)
    assert [one.agent for one in read_episodes(tmp_path)] == ["comfort"]


def test_an_agent_that_exits_does_not_end_the_command_with_0(own, tmp_path):
    done = bench(own, tmp_path, "--agent", "own_agents:Exits", in_process=False)
    assert done.returncode == 2
    assert "turn 1: SystemExit: 0" in done.stderr


@pytest.mark.parametrize("name", ["Hangs", "AHangs", "ABlocks"])
def test_an_agent_that_never_answers_fails_its_dialogues_and_no_other(own, tmp_path, name):
    began = time.monotonic()
    failed, kept = hold(tmp_path, f"own_agents:{name}", "comfort", timeout_s=0.7)
    assert time.monotonic() - began < 100, "it sleeps for a million seconds"
    assert failed.outcome is Outcome.FAILED
    turn = 2 if name == "Hangs" else 1
    note = failed.turns[-1].appraisal.reasons[0].note
    assert f"turn {turn}: no answer within 0.7 s (--agent-timeout)" in note
    assert kept.outcome not in (None, Outcome.FAILED)
    assert read_episodes(tmp_path) == [failed, kept]
    assert set(verify(tmp_path)) == {None}


@pytest.mark.slow
def test_the_command_goes_on_and_ends_with_4_when_an_agent_never_answers(own, tmp_path):
    words = ("--agent", "own_agents:ABlocks", "--agent", "comfort", "--agent-timeout", "2")
    done = bench(
        own, tmp_path, *words, in_process=False
    )  # the process ends though a thread of it does not
    assert done.returncode == 4, done.stderr
    assert "no answer within 2 s" in done.stdout
    assert bench(own, tmp_path, *words, "--allow-failures").returncode == 0


@pytest.mark.parametrize("wrong", ["0", "-1", "soon", "nan", "inf"])
def test_a_wrong_time_is_named(wrong):
    with pytest.raises(CardError, match="--agent-timeout"):
        parse_seconds(wrong, "--agent-timeout")
    assert parse_seconds("none", "--agent-timeout") is None


def test_a_text_that_lies_about_its_length_is_cut_like_any_other(own, tmp_path):
    (episode,) = hold(tmp_path, "own_agents:Long")
    assert {len(turn.utterance) for turn in episode.turns} == {4000}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Exits", "turn 1: SystemExit: 0"),
        ("Raises", "turn 0: KeyError: 'lost'"),
        ("Far", "turn 1: the change must be an int from -10 to 10"),
        ("Odd", "turn 1: an Appraisal has a thought"),
        ("Mute", "turn 1: it must give text, not NoneType"),
    ],
)
def test_whatever_a_user_of_ones_own_does_wrong_is_named(own, tmp_path, name, says):
    with pytest.raises(UserError) as error:
        hold(tmp_path, "comfort", user=f"own_users:{name}")
    assert f"user 'own_users:{name}' with {PERSONA}, seed 0, {says}" in str(error.value)
    assert "Mend the user" in str(error.value)


def test_a_user_to_ship_is_one_entry(monkeypatch):
    monkeypatch.setitem(PLAIN_USERS, "calm", type("Calm", (EmbeddedUser,), {"kind": "calm"}))
    assert make_user("calm").kind == "calm"
    assert is_shipped_user("calm")
    with pytest.raises(UnknownName, match="'calm' takes no options"):
        make_user("calm", samples=3)
    with pytest.raises(UnknownName, match="calm"):
        make_user("clam")


def test_a_user_that_never_answers_fails_the_dialogue(own, tmp_path):
    (failed,) = hold(tmp_path, "comfort", user="own_users:Hangs", timeout_s=0.7)
    assert failed.outcome is Outcome.FAILED
    assert "no answer within 0.7 s" in failed.turns[-1].appraisal.reasons[0].note


def test_a_user_of_ones_own_that_is_well_is_what_it_is_without_a_guard(own, tmp_path):
    mine = hold(tmp_path / "mine", "comfort", user="own_users:Good")
    shipped = hold(tmp_path / "shipped", "comfort")
    assert mine == [one._replace(user="mine") for one in shipped]


def test_an_agent_that_blocks_keeps_no_other_dialogue_from_beginning(own, tmp_path):
    came = []
    answers = EmbeddedAnswers(card="SAGE-Sentient-v0")

    def note_and_answer(body):
        came.append((time.monotonic(), str(body["messages"])))
        return answers(body)

    with ChatServer(note_and_answer) as server:
        chat = ChatSettings(base_url=server.base_url)
        plan = BenchPlan(
            agents=("own_agents:Slow", "comfort"),
            user="openai:m",
            persona_ids=(PERSONA,),
            seeds=1,
            chat=chat,
        )
        with open_run(plan, tmp_path) as under_way:
            list(under_way.run_missing())
    first_of_slow = min(at for at, text in came if "I see." in text)
    first_of_comfort = min(at for at, text in came if "I see." not in text)
    assert first_of_comfort < first_of_slow, (
        "comfort's dialogue had begun before Slow had said a word"
    )


def test_code_is_called_in_one_thread_of_its_own_until_it_is_abandoned():
    code = CodeRunner(0.5)
    names = {code.call(threading.get_ident) for _ in range(3)}
    assert len(names) == 1
    assert threading.get_ident() not in names
    with pytest.raises(CodeTimeout, match=r"no answer within 0\.5 s"):
        code.call(time.sleep, 60)
    assert code.call(threading.get_ident) not in names
    with pytest.raises(CodeFailed, match="ZeroDivisionError"):
        code.call(lambda: 1 / 0)


def test_a_loop_that_is_only_slow_is_not_abandoned_and_one_that_is_blocked_is():
    async def block():
        time.sleep(60)

    async def both():
        code = CodeRunner(0.5)
        with pytest.raises(CodeTimeout):
            await code.acall(asyncio.sleep, 60)
        first = code._loop
        assert await code.acall(asyncio.sleep, 0, "well") == "well"
        assert code._loop is first
        with pytest.raises(CodeTimeout):
            await code.acall(block)
        assert await code.acall(asyncio.sleep, 0, "well") == "well"
        assert code._loop is not first

    asyncio.run(both())


def test_an_error_is_described_whatever_it_does_when_printed():
    class Wild(BaseException):
        def __str__(self):
            raise SystemExit

    assert describe_error(Wild()) == "Wild: its message cannot be printed"
    assert describe_error(ValueError("a\nb \x1b[2J")) == "ValueError: a b \ufffd[2J"
    assert len(describe_error(ValueError("x" * 10_000))) < 400
