"""`rlver-gym serve`, and the container files."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import pytest
import yaml
from commands import run_command
from typer.main import get_command

import rlver_gym  # noqa: F401 (registers the environments)
from rlver_gym.cli import app
from rlver_gym.serve.operation import check_host, read_token
from rlver_gym.util.errors import CardError

ROOT = Path(__file__).parent.parent.parent
TOKEN = "a-token-of-some-length"
SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]


@contextmanager
def running(command, **env):
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | env,
        # what a shell starts in the background ignores Ctrl-C, and so would its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdout
            line = process.stdout.readline()
            found = re.fullmatch(r"(?:serving|studio) at http://\S+?:(\d+)\S*\n", line)
            assert found, line + process.stdout.read()
            yield process, int(found[1])
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)]
)
def test_it_serves_until_it_is_stopped(caller, tmp_path, stop, code):
    pytest.importorskip("fastapi", reason="needs rlver-gym[serve]")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    command = [sys.executable, "-m", "rlver_gym", "serve", "--port", "0"]
    command += ["--token-file", str(tmp_path / "token"), "--env", "RLVER-Sparse-v0"]
    with running(command) as (process, port):
        call = caller(SimpleNamespace(port=port), TOKEN)
        envs = call("GET", "/v1/envs").body["envs"]
        assert [one["id"] for one in envs] == ["RLVER-Sparse-v0"]
        with socket.create_connection(("127.0.0.1", port)) as half:
            half.sendall(
                b"POST /v1/episodes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n"
                + f"authorization: Bearer {TOKEN}\r\n\r\n{{".encode()
            )
            time.sleep(0.2)
            began = time.monotonic()
            process.send_signal(stop)
            assert b"urn:rlver-gym:stopped" in b"".join(iter(lambda: half.recv(4_096), b""))
        shown = process.communicate(timeout=120)[0]
        assert process.returncode == code
        assert time.monotonic() - began < 9, "it gives requests 3 s"
        assert "Traceback" not in shown
        assert TOKEN not in shown


@pytest.mark.parametrize("command", ["serve", "studio"])
def test_half_a_head_on_more_connections_than_files_keeps_nobody_out(caller, command):
    pytest.importorskip("fastapi", reason="needs rlver-gym[serve]")
    words = f"ulimit -n 256; exec {sys.executable} -m rlver_gym {command} --port 0"
    with running(["bash", "-c", words]) as (_, port), ExitStack() as stack:
        for _ in range(260):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            with suppress(OSError):  # it had to make room for another one
                half.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ")
        call = caller(SimpleNamespace(port=port))
        call.connection.timeout = 5
        assert call("GET", "/healthz").status == (200 if command == "serve" else 401)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--host", "0.0.0.0"], "RLVER_GYM_TOKEN"),
        (["--env", "RLVER-Empathy-v9"], "there is no environment"),
        (["--user", "nobody"], "there is no user"),
        (["--user-option", "samples=3"], "takes no options"),
        (["--personas", "nowhere"], "nowhere"),
        (["--token-file", "nowhere"], "nowhere"),
        (["--host", "no.such.host.invalid", "--insecure"], "(serve: --host)"),
    ],
)
def test_what_cannot_be_served_is_named(words, match):
    pytest.importorskip("fastapi", reason="needs rlver-gym[serve]")
    done = run_command("serve", *words)
    assert done.returncode == 2
    assert match in " ".join(done.stderr.split())


def test_a_port_that_is_taken_is_named():
    pytest.importorskip("fastapi", reason="needs rlver-gym[serve]")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_command("serve", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "--port" in done.stderr


def test_the_token_is_read_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("RLVER_GYM_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("RLVER_GYM_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    file = tmp_path / "token"
    file.write_text("another-token-of-some-length\n")
    assert read_token(file) == "another-token-of-some-length"
    for bad in ("short", "with blanks in between", "with-ümlaut-in-between", ""):
        file.write_text(bad, encoding="utf-8")
        with pytest.raises(CardError, match="openssl") as caught:
            read_token(file)
        assert not bad or bad not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_this_machine_is_served_without_a_token(host):
    check_host(host, None, insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.2", "localhost.example.org"])
def test_other_machines_are_served_with_a_token_only(host):
    check_host(host, TOKEN, insecure=False)
    check_host(host, None, insecure=True)
    with pytest.raises(CardError, match="--token-file"):
        check_host(host, None, insecure=False)


def test_the_containers_start_commands_that_there_are():
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE)
    assert all((ROOT / name).exists() for names in copied for name in names.split())
    params = get_command(app).commands["serve"].params
    known = {option for parameter in params for option in parameter.opts}
    words = SERVICES["server"]["command"]
    assert words[0] == "serve"
    assert {word.partition("=")[0] for word in words[1:]} <= known
    assert re.findall(r'^CMD \["serve", "(--host)"', text, re.MULTILINE) == ["--host"]
    assert SERVICES["model"]["image"] == SERVICES["server"]["image"]


@pytest.mark.slow
def test_the_commands_of_the_containers_work_together(monkeypatch):
    pytest.importorskip("fastapi", reason="needs rlver-gym[serve]")
    monkeypatch.setenv("RLVER_GYM_TOKEN", TOKEN)
    program = SERVICES["model"]["entrypoint"][2].replace("port=8765", "port=0")
    with running([sys.executable, "-c", program]) as (_, model_port):
        words = SERVICES["server"]["command"]
        words = [word.replace(":8765", f":{model_port}") for word in words]
        command = [sys.executable, "-m", "rlver_gym", *words, "--port=0"]
        with running(command, RLVER_GYM_TOKEN=TOKEN) as (_, port):
            rewards = {}
            for user in ("embedded", "openai:stand-in"):
                env = gym.make("RLVER-Empathy-v0", url=f"http://127.0.0.1:{port}", user=user)
                env.reset(seed=0)
                rewards[user] = env.step("That sounds hard. What happened then?")[1]
                env.close()
    assert rewards["embedded"] == rewards["openai:stand-in"]
