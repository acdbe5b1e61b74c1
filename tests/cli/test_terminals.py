"""Every command on every terminal: it says something, whatever is closed, narrow or lacks signs."""

import json
import os
import subprocess
import sys

import pytest
from command_uses import COMMANDS, PERSONA, USES
from commands import run_command

from rlver_gym import EmpathyEnv
from rlver_gym.cli.options import print_json
from rlver_gym.util.terminal import SafeConsole

TERMINALS = {
    "no input": {"input": None},
    "ascii": {"encoding": "ascii"},
    "cp1252": {"encoding": "cp1252"},
    "latin-1": {"encoding": "latin-1"},
    "no columns": {"env": {"COLUMNS": "0"}},
    "columns that are no number": {"env": {"COLUMNS": "²"}},
    "40 columns": {"env": {"COLUMNS": "40"}},
    "80 columns": {"env": {"COLUMNS": "80"}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a run in it."""
    place = tmp_path_factory.mktemp("terminals")
    agents = ["--agent", "listener", "--agent", "strategy:listen"]
    done = run_command("bench", "--persona", PERSONA, *agents, "--out", "run", cwd=place)
    assert done.returncode == 0, done.stderr
    return place


def check_all(folder, terminal, more=None):
    options = TERMINALS[terminal]
    env = {**os.environ, **options.get("env", {})}
    for name in COMMANDS:
        words = [*name.split(), *(more or USES[name])]
        done = run_command(*words, cwd=folder, **{**options, "env": env})
        said = done.stdout + done.stderr
        assert said.strip(), name
        assert done.returncode in (0, 1, 2), (name, said)
        assert "Traceback" not in said, name


def test_every_command_has_a_use():
    assert USES.keys() == set(COMMANDS)


@pytest.mark.parametrize("terminal", TERMINALS)
def test_every_command_says_something_on_every_terminal(folder, terminal):
    check_all(folder, terminal)


@pytest.mark.slow
@pytest.mark.parametrize("terminal", TERMINALS)
def test_every_command_shows_its_help_on_every_terminal(folder, terminal):
    check_all(folder, terminal, ["--help"])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_path_that_is_no_text_is_refused_in_words_before_anything_is_made(tmp_path, name):
    words = [*name.split(), *USES[name], os.fsdecode(b"caf\xe9/x")]
    done = run_command(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert r"caf\xe9/x: not UTF-8 text" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("closing", "env"),
    [
        ("<&-", {}),
        ("<&- >&- 2>&-", {}),
        ("</dev/null", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
        ("</dev/null", {"LC_ALL": "C"}),
        ("</dev/null", {"PYTHONIOENCODING": "cp1252", "COLUMNS": "0"}),
    ],
)
def test_a_shell_may_close_streams_and_know_few_signs(folder, closing, env):
    for words in (f"talk --persona {PERSONA}", "bench --agent human --out held"):
        done = subprocess.run(
            f"{sys.executable} -m rlver_gym {words} {closing}",
            shell=True,
            cwd=folder,
            env={**os.environ, **env},
            capture_output=True,
            timeout=100,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
        assert (done.stdout + done.stderr != b"") == (">" not in closing)
        assert done.returncode in (0, 2)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_an_environment_shows_itself_on_any_terminal(encoding, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "0")
    with (tmp_path / "shown").open("w", encoding=encoding) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        env = EmpathyEnv(render_mode="human", persona=PERSONA)
        env.reset(seed=0)
        env.step("That sounds hard. “What” happened…?")
        monkeypatch.undo()
    shown = (tmp_path / "shown").read_text(encoding=encoding)
    mark = "━━━━━" if encoding == "utf-8" else "-----"
    assert mark in shown
    assert ("“What” happened…?" if encoding != "ascii" else '"What" happened.?') in shown


def test_json_is_the_same_json_on_every_terminal(monkeypatch, tmp_path):
    value = {"said": "“é” 🙂…", "zh": "嗯"}
    for encoding in ("ascii", "cp1252", "utf-8"):
        with (tmp_path / "shown").open("w", encoding=encoding) as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            print_json(value)
            monkeypatch.undo()
        assert json.loads((tmp_path / "shown").read_text(encoding=encoding)) == value


@pytest.mark.parametrize("width", [40, 80])
def test_no_table_breaks_a_word(width, tmp_path):
    words = "elias-unfinished-thesis practical_advice a-model-of-somebody 12.3 [10.1, 14.5]".split()
    rows = [
        ["agent", "final emotion [95 %]", "hidden need", "why"],
        [words[0], "12.3 [10.1, 14.5]", words[1], "because of what was said to them all along"],
        [words[2], "9.0 [8.0, 10.0]", words[1], "for nothing"],
    ]
    with (tmp_path / "shown").open("w+", encoding="utf-8") as stream:
        SafeConsole(file=stream, width=width).print_table(rows, "a title")
        stream.seek(0)
        shown = stream.read()
    assert max(map(len, shown.splitlines())) <= width
    for piece in [*words[:3], "9.0 [8.0, 10.0]", "because", "nothing"]:
        assert piece in shown
