"""`rlver-gym studio` from the outside, and the curves of training runs."""

import importlib
import json
import signal
import socket
import subprocess
import sys
from http.cookiejar import CookieJar
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from commands import invoke_well, run_command
from studios import KIND, Client, start_studio

from rlver_gym.studio.trainings import MOST_POINTS


def test_the_printed_address_opens_it_until_ctrl_c(shared):
    command = [sys.executable, "-m", "rlver_gym", "studio", str(shared.folder), "--port", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        # what a shell starts in the background ignores Ctrl-C, and so would its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout
        address = process.stdout.readline().split()[-1]
        opener = build_opener(HTTPCookieProcessor(CookieJar()))
        with opener.open(address) as page:
            assert b'<div id="studio">' in page.read()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130


def fail_to_start(*words):
    done = run_command("studio", *map(str, words))
    assert done.returncode == 2
    return " ".join(done.stderr.split())


def test_what_keeps_it_from_starting_is_named(tmp_path):
    pytest.importorskip("uvicorn")
    (tmp_path / "empty").mkdir()
    for name in ("nothing", "empty"):
        assert "the folder of a run?" in fail_to_start(tmp_path / name, "--port", "0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "--port" in fail_to_start("--port", taken.getsockname()[1])


def test_agents_of_a_suite_reply_where_its_code_is_allowed(tmp_path, monkeypatch):
    pytest.importorskip("uvicorn")
    suite, made = tmp_path / "suite.yaml", []
    suite.write_text(f"agents: ['{KIND}', 'openai:m']\nagent_options: {{top_p: 0.5}}\n")
    assert f"{KIND} would start code" in fail_to_start("--suite", suite)
    server_module = importlib.import_module("rlver_gym.studio.server")
    monkeypatch.setattr(server_module.StudioServer, "run", lambda server: made.append(server))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    words = ("--agent", "echo", "--suite", suite, "--allow-code", "--port", "0", "--out", tmp_path)
    invoke_well("studio", *words)
    with made[0] as server:
        overview = Client(server, tmp_path, tmp_path).get("overview")
    assert overview["named"] == ["echo", KIND, "openai:m"]
    assert overview["helpers"] == [KIND, "openai:m"]


def test_the_extra_that_it_needs_is_named(monkeypatch):
    for module in ("rlver_gym.studio.server", "rlver_gym.serve.connections"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "[studio]" in fail_to_start()


def test_curves_are_those_of_the_metrics_thinned_evenly(shared, tmp_path):
    lines = [{"iteration": at, "emotion": at / 10, "kl": None} for at in range(3 * MOST_POINTS)]
    for name, text in (
        ("long", "".join(json.dumps(one) + "\n" for one in lines)),
        ("edited", '{"iteration": 1, "emotion": "high"}\n'),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text(text)
    with start_studio([tmp_path / "long", tmp_path / "edited"], tmp_path) as server:
        whole, edited = Client(server, tmp_path, tmp_path).get("curves")
    assert whole["iteration"] == list(range(0, 3 * MOST_POINTS, 3))
    assert whole["columns"]["emotion"] == [at / 10 for at in whole["iteration"]]
    assert set(whole["columns"]["kl"]) == {None}
    assert "line 1" in edited["problem"]
    assert edited["iteration"] == []
