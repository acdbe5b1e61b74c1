"""What can go wrong around a run: each is one message that says what to do, and loses nothing."""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import run_command
from full_disk import files_of_at_most

from rlver_gym.agents import openai_chat
from rlver_gym.bench import plan as plans
from rlver_gym.bench.folder import EPISODES
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import open_run, read_episodes, run
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import RunError
from rlver_gym.util.terminal import format_count

RLVER = [sys.executable, "-m", "rlver_gym"]
PERSONA = library().ids("demo")[0]
SMALL = ("bench", "--persona", PERSONA, "--seeds", "3", "--agent", "comfort", "--agent", "listener")


def rlver(*words, code=0, **options):
    """What the command says; options are those of `run_command`."""
    return output_of(run_command(*map(str, words), **options), code)


def rlver_process(*words, code=0, **options):
    """What the command says in a process of its own; options are those of `subprocess.run`."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return output_of(subprocess.run([*RLVER, *map(str, words)], timeout=100, **options), code)


def output_of(done, code):
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return " ".join(f"{done.stdout or ''}{done.stderr}".split())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small") / "run"
    rlver(*SMALL, "--out", folder)
    return folder


def test_a_run_cut_anywhere_is_resumed_by_the_same_command(finished, tmp_path):
    whole = (finished / EPISODES).read_bytes()
    rng = random.Random(1)
    for number in range(5):
        folder = Path(shutil.copytree(finished, tmp_path / str(number)))
        cut = rng.randrange(len(whole))
        (folder / EPISODES).write_bytes(whole[:cut])
        there = whole[:cut].count(b"\n")
        assert f"({format_count(6 - there, 'dialogue')} held now, {there} from before" in rlver(
            *SMALL, "--out", folder
        )
        assert (folder / EPISODES).read_bytes() == whole


def test_two_runs_never_write_to_one_folder(tmp_path):
    plan = BenchPlan(agents=("comfort",), persona_ids=(PERSONA,), seeds=2)
    with open_run(plan, tmp_path) as under_way:
        rest = under_way.run_missing()
        next(rest)
        with pytest.raises(RunError, match="another process is writing here"):
            list(run(plan, tmp_path))
        next(rest)
    assert list(run(plan, tmp_path)) == []


def test_a_killed_run_gives_its_lock_back(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\nclass Slow:\n    def reply(self, messages):\n        time.sleep(60)\n",
        encoding="utf-8",
    )
    words = ("bench", "--persona", PERSONA, "--seeds", "1", "--agent", "slow:Slow", "--out", "run")
    process = subprocess.Popen([*RLVER, *words], cwd=tmp_path, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 200
    while not (tmp_path / "run" / "manifest.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "another process" in rlver(*words, code=2, cwd=tmp_path)
    process.kill()
    process.wait()
    plan = BenchPlan(agents=("comfort",), persona_ids=(PERSONA,), seeds=1)
    with pytest.raises(RunError, match="another plan"):
        list(run(plan, tmp_path / "run"))


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))


def test_a_full_disk_is_named_and_what_was_finished_is_kept(finished, tmp_path):
    folder = tmp_path / "run"
    told = rlver_process(*SMALL, "--out", folder, code=2, preexec_fn=small_files)
    assert EPISODES in told.replace(" ", "")
    assert "Free some space" in told
    assert "0 from before" not in rlver(*SMALL, "--out", folder)
    assert (folder / EPISODES).read_bytes() == (finished / EPISODES).read_bytes()
    assert "Free some space" in rlver_process("report", folder, code=2, preexec_fn=small_files)
    assert not (folder / "report.html.part").exists()


def test_a_disk_that_is_full_at_any_moment_of_a_run_loses_and_doubles_nothing(finished, tmp_path):
    plan = BenchPlan(agents=("comfort", "listener"), persona_ids=(PERSONA,), seeds=3)
    whole = (finished / EPISODES).read_bytes()
    for number, size in enumerate(range(100, len(whole), len(whole) // 20)):
        folder, told = tmp_path / str(number), 0
        with files_of_at_most(size), pytest.raises(RunError, match="Free some space"):
            for told, _ in enumerate(run(plan, folder), 1):  # noqa: B007
                pass
        there = (folder / EPISODES).read_bytes()
        assert whole.startswith(there)
        assert there.count(b"\n") == told
        assert there == b"" or there.endswith(b"\n")
        assert len(list(run(plan, folder))) == 6 - told
        assert (folder / EPISODES).read_bytes() == whole


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_cannot_be_written_is_named(finished):
    with open("/dev/full", "w") as full:
        told = rlver_process("verify", finished, "--json", code=2, stdout=full)
    assert "output cannot be written" in told


def test_places_that_cannot_be_written_are_named(finished, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine", encoding="utf-8")
    for out in (file, file / "below", Path("/proc/nowhere")):
        told = rlver(*SMALL, "--out", out, code=2).replace(" ", "")  # a long path is folded
        assert "--out" in told
        assert out.name in told
        assert "--out" in rlver("report", finished, "--out", out / "page.html", code=2)
    assert "It is a folder" in rlver("report", finished, "--out", tmp_path, code=2)
    assert file.read_text(encoding="utf-8") == "mine"
    odd = tmp_path / "odd"
    (odd / EPISODES).mkdir(parents=True)
    shutil.copy(finished / "manifest.json", odd)
    assert "cannot be read" in rlver("verify", odd, code=2)


OWN = """
class Good:
    def reply(self, messages): return "What happened then?"
class Breaks:
    def reply(self, messages):
        if len(messages) > 3: raise KeyError("lost")
        return "What happened?"
class Greedy(Good):
    def __init__(self, model): pass
class Mute: pass
class Numbers:
    def reply(self, messages): return 5
class Exits:
    def __init__(self): raise SystemExit(0)
class Alone:
    def reply(self): return "Hm."
class Reads:
    def reply(self, messages):
        import json
        return json.loads("{")
class Waits:
    async def reply(self, messages): return "Hm."
class AsyncNothing(Good):
    async def areply(self, messages): pass
class AsyncAlone(Good):
    async def areply(self): return "Hm."
"""
HOLD = ("Breaks", "Numbers", "Reads", "AsyncNothing")
"""Those that can be made, and fail only in a dialogue."""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Breaks", ["turn 3: KeyError: 'lost'", "own.py, line 6"]),
        ("Greedy", ["cannot be made", "argument: 'model'", "needs no arguments"]),
        ("Exits", ["cannot be made", "SystemExit", "own.py, line 14"]),
        ("Mute", ["has no reply", "reply(messages) -> str"]),
        ("Numbers", ["turn 1", "must give text, not int", "Return a str"]),
        ("Missing", ["own.py has no class or function of that name"]),
        ("Alone", ["its reply cannot be called", "alone", "def reply(self, messages)"]),
        ("Reads", ["turn 1: JSONDecodeError", "own.py, line 20", "Mend the agent"]),
        ("Waits", ["is async. Call it areply"]),
        ("AsyncNothing", ["its areply must give text, not None"]),
        ("AsyncAlone", ["its areply", "def areply(self, messages)"]),
    ],
)
def test_an_agent_of_ones_own_that_fails_is_named(tmp_path, name, says):
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    words = f"bench --persona {PERSONA} --seeds 1 --agent comfort --agent own:{name}".split()
    told = rlver(*words, "--out", "run", code=2, cwd=tmp_path)
    for part in (f"own:{name}", *says):
        assert part.replace(" ", "") in told.replace(" ", "")  # a long path is folded
    assert (tmp_path / "run").exists() is (name in HOLD)
    if name in HOLD:
        assert PERSONA in told
        assert [episode.agent for episode in read_episodes(tmp_path / "run")] == ["comfort"]


@pytest.mark.parametrize(
    ("agent", "text", "says"),
    [
        ("own:Mine", "\n1 / 0", ["ZeroDivisionError", "own.py, line 2", "Mend its module"]),
        ("own:Mine", "\n\ndef x(:", ["SyntaxError: invalid syntax", "own.py, line 3"]),
        ("own:Mine", "import lost", ["No module named 'lost'", "own.py, line 1", "install"]),
        ("lost.own:Mine", "", ["there is no module 'lost'", "add that folder to PYTHONPATH"]),
        ("json:loads", "", ["An agent is a class that needs no arguments"]),
    ],
)
def test_a_module_that_cannot_be_used_is_named(tmp_path, agent, text, says):
    (tmp_path / "own.py").write_text(text, encoding="utf-8")
    told = rlver("bench", "--agent", agent, "--out", "run", code=2, cwd=tmp_path)
    for part in says:
        assert part.replace(" ", "") in told.replace(" ", "")  # a long path is folded
    assert "frozen" not in told
    assert not (tmp_path / "run").exists()


def test_a_changed_agent_gets_another_folder(tmp_path):
    words = ("bench", "--persona", PERSONA, "--seeds", "1", "--agent", "own:Good")
    for text in (OWN, OWN, OWN.replace("What happened then?", "And then?")):
        (tmp_path / "own.py").write_text(text, encoding="utf-8")
        rlver(*words, cwd=tmp_path)
    runs = sorted((tmp_path / "runs").iterdir())
    assert len(runs) == 2
    (tmp_path / "own.py").unlink()
    assert "1 episode recomputed" in rlver("verify", runs[0], cwd=tmp_path)


def test_a_fingerprint_holds_the_version_the_server_and_the_prompt(monkeypatch):
    def plan():
        return BenchPlan(agents=("openai:m",), persona_ids=(PERSONA,))

    monkeypatch.setattr(sys, "argv", ["rlver-gym", "bench"])
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret@127.0.0.1:1/v1?key=secret")
    assert plan().pins["agents"]["openai:m"]["base_url"] == "http://127.0.0.1:1/v1"
    assert "secret" not in json.dumps(plan().manifest())
    fingerprints = [plan().fingerprint]
    monkeypatch.setattr(openai_chat, "SYSTEM", "Be brief.")
    fingerprints.append(plan().fingerprint)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:2/v1")
    fingerprints.append(plan().fingerprint)
    monkeypatch.setattr(plans, "__version__", "99")
    assert len({*fingerprints, plan().fingerprint}) == 4


def test_the_end_of_input_is_no_silence(tmp_path):
    words = (*f"bench --persona {PERSONA} --seeds 1 --agent human --out".split(), f"{tmp_path}/run")
    assert "the input ended" in rlver(*words, code=2, input="What happened?\n")
    assert read_episodes(tmp_path / "run") == []


def test_a_fault_of_the_user_is_not_put_on_the_agent(tmp_path, monkeypatch):
    monkeypatch.setattr(EmbeddedUser, "appraise", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        list(run(BenchPlan(agents=("comfort",), persona_ids=(PERSONA,)), tmp_path))


def test_a_server_that_is_not_there_is_named_once(tmp_path):
    env = os.environ | {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "x"}
    told = rlver(*SMALL, "--agent", "openai:m", "--out", tmp_path / "run", code=3, env=env)
    assert "nothing answers at http://127.0.0.1:9/v1" in told
    assert "6 of 9 dialogues are kept: the same command goes on" in told


def test_ctrl_c_while_the_commands_are_imported_is_heard_too(tmp_path):
    (tmp_path / "typer.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n", encoding="utf-8"
    )
    told = rlver_process("bench", code=130, env=os.environ | {"PYTHONPATH": tmp_path})
    assert "stopped." in told
