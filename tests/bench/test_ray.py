"""A Ray cluster: a benchmark on it equals one process's, whoever is killed, and no key is sent to
it.
"""

import itertools
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from processes import ancestors

pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")

from rlver_gym.bench.folder import EPISODES, RESPONSE_CACHE_FILE, read_episodes
from rlver_gym.bench.verify import verify
from rlver_gym.core.library import library
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers

pytestmark = pytest.mark.slow
KEY = "sk-planted-ray-51c0"
PEOPLE = library().ids("demo")[:3]
AGENTS = ("listener", "openai:agent")
ANSWERS = EmbeddedAnswers(card="SAGE-Sentient-v0")
CONCURRENCY = 3
BENCH = [sys.executable, "-m", "rlver_gym", "bench", "--user", "openai:user", "--seeds", "2"]
BENCH += [word for agent in AGENTS for word in ("--agent", agent)]
BENCH += [word for persona in PEOPLE for word in ("--persona", persona)]
BENCH += ["--concurrency", str(CONCURRENCY), "--json"]
AUTH = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
"""The cluster of these tests has a token of its own."""
CLUSTER = """
import sys, ray
ray.init(num_cpus=3, include_dashboard=False, _temp_dir=sys.argv[1], log_to_driver=False)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


class Cluster(NamedTuple):
    address: str
    pid: int
    folder: Path

    def workers(self) -> list[int]:
        """The processes that hold dialogues now."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                is_worker = (path / "cmdline").read_bytes().startswith(b"ray::_Actor")
            except OSError:
                continue
            if is_worker and self.pid in ancestors(int(path.name)):
                found.append(int(path.name))
        return sorted(found)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    env = os.environ | AUTH | {"OPENAI_API_KEY": KEY, "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=env,
    ) as process:
        assert process.stdout
        yield Cluster(process.stdout.readline().strip(), process.pid, folder)
        process.communicate()
    shutil.rmtree(folder, ignore_errors=True)


def begin(server: ChatServer, folder: Path, *more: str) -> "subprocess.Popen[str]":
    env = os.environ | AUTH | {"OPENAI_API_KEY": KEY}
    command = [*BENCH, "--base-url", server.base_url, "--out", str(folder), *more]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def bench(server: ChatServer, folder: Path, *more: str) -> dict[str, Any]:
    """What a benchmark printed, without the name of its folder."""
    process = begin(server, folder, *more)
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    return {
        name: value
        for name, value in json.loads(stdout).items()
        if name not in ("run", "report", "spent")
    }


def on(cluster: Cluster, workers: int = 2) -> tuple[str, ...]:
    return "--ray", cluster.address, "--ray-workers", str(workers)


def wait_until(is_so: Callable[[], object], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def read_records(folder: Path) -> bytes:
    return (folder / EPISODES).read_bytes()


def answers(folder: Path) -> dict[str, str | None]:
    return {row.key: row.answer for row in ResponseCache(folder / RESPONSE_CACHE_FILE).rows()}


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run in one process, and its table."""
    folder = tmp_path_factory.mktemp("one")
    with ChatServer(ANSWERS) as server:
        table = bench(server, folder)
    return folder, table


def test_a_worker_killed_in_the_middle_costs_its_dialogues_in_flight_and_the_table_is_the_same(
    cluster: Cluster, one_process: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, table = one_process
    asked_once = len(answers(folder))
    with ChatServer(ANSWERS, latency_s=0.1) as server:
        process = begin(server, tmp_path, *on(cluster))
        wait_until(lambda: len(server.requests) > asked_once // 3, process)
        victim = cluster.workers()[0]
        os.kill(victim, signal.SIGKILL)
        stdout, stderr = process.communicate()
        asked = len(server.requests)
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["scores"] == table["scores"]
    assert read_records(tmp_path) == read_records(folder)
    assert answers(tmp_path) == answers(folder)
    longest = max(2 + 3 * len(episode.turns) for episode in read_episodes(folder))
    assert asked_once <= asked <= asked_once + CONCURRENCY * longest


def test_answers_that_are_never_the_same_twice_are_shared_as_in_one_process_also_after_a_kill(
    cluster: Cluster, tmp_path: Path
) -> None:
    numbers = itertools.count()

    def answer(body: dict[str, Any]) -> str:
        text = ANSWERS(body)
        if "response_format" not in body:
            return f"{text} ({next(numbers)})"
        fields = json.loads(text)
        return json.dumps({**fields, "reply": f"{fields.get('reply')} ({next(numbers)})"})

    with ChatServer(answer, latency_s=0.1) as server:
        process = begin(server, tmp_path, *on(cluster))
        wait_until(lambda: (tmp_path / EPISODES).exists() and read_lines(tmp_path), process)
        os.kill(cluster.workers()[-1], signal.SIGKILL)
        _, stderr = process.communicate()
    assert process.returncode == 0, stderr
    openings: dict[tuple[str, int], set[str]] = {}
    for episode in read_episodes(tmp_path):
        openings.setdefault((episode.persona, episode.seed), set()).add(episode.opening)
    assert {len(texts) for texts in openings.values()} == {1}
    assert set(verify(tmp_path)) == {None}


def read_lines(folder: Path) -> list[bytes]:
    return (folder / EPISODES).read_bytes().splitlines()


def test_a_killed_command_goes_on_with_or_without_ray_and_keeps_what_was_answered(
    cluster: Cluster, one_process: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, table = one_process
    with ChatServer(ANSWERS, latency_s=0.1) as server:
        process = begin(server, tmp_path, *on(cluster))
        wait_until(lambda: (tmp_path / EPISODES).exists() and read_lines(tmp_path), process)
        process.kill()
        process.communicate()
        num_kept = len(read_lines(tmp_path))
        bench(server, tmp_path, "--budget", "calls=10000")
        shutil.copytree(tmp_path, tmp_path / "again")
        lines = read_lines(tmp_path / "again")
        (tmp_path / "again" / EPISODES).write_bytes(b"".join(b"%s\n" % one for one in lines[:2]))
        before = len(server.requests)
        again = bench(server, tmp_path / "again", *on(cluster))
        asked_again = len(server.requests) - before
    assert 0 < num_kept < 12
    assert asked_again == 0
    assert again["scores"] == table["scores"]
    for one in (tmp_path, tmp_path / "again"):
        assert read_records(one) == read_records(folder)


def test_a_budget_counts_what_all_workers_spend(cluster: Cluster, tmp_path: Path) -> None:
    with ChatServer(ANSWERS) as server:
        process = begin(server, tmp_path, "--budget", "calls=60", *on(cluster))
        _, stderr = process.communicate()
        asked = len(server.requests)
    assert process.returncode == 2
    assert "the budget of 60 calls is used up" in " ".join(stderr.split())
    assert 60 <= asked <= 60 + 2 * CONCURRENCY * 30
    assert json.loads((tmp_path / "spent.json").read_text())["calls"] == asked


def test_the_key_is_in_no_argument_and_no_log_of_the_cluster(
    cluster: Cluster, tmp_path: Path
) -> None:
    with ChatServer(ANSWERS, api_key=KEY) as server:
        process = begin(server, tmp_path, *on(cluster))
        wait_until(cluster.workers, process)
        arguments = [
            (Path("/proc") / str(pid) / "cmdline").read_bytes() for pid in cluster.workers()
        ]
        _, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert not [one for one in arguments if KEY.encode() in one]
    files = [path for path in cluster.folder.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_a_worker_without_the_key_says_where_it_is_looked_for(
    cluster: Cluster, tmp_path: Path
) -> None:
    with ChatServer(ANSWERS) as server:
        address = server.base_url.replace("http://", f"http://me:{KEY}@")
        process = begin(server, tmp_path, "--base-url", address, *on(cluster))
        _, stderr = process.communicate()
    assert process.returncode == 2
    assert "OPENAI_BASE_URL" in stderr
    assert KEY not in stderr


def test_where_nobody_answers_the_address_is_named(tmp_path: Path) -> None:
    with ChatServer(ANSWERS) as server:
        process = begin(server, tmp_path, "--ray", "127.0.0.1:9")
        _, stderr = process.communicate()
        wrong = begin(server, tmp_path, "--ray", "ray://127.0.0.1:10001")
        _, said = wrong.communicate()
    assert (process.returncode, wrong.returncode) == (2, 2)
    assert "nobody answers at 127.0.0.1:9" in " ".join(stderr.split())
    assert "is no address of a Ray cluster" in " ".join(said.split())


def test_without_ray_the_extra_is_named(tmp_path: Path) -> None:
    code = "import sys; sys.modules['ray'] = None; from rlver_gym.cli import main; main()"
    words = ["bench", "--agent", "listener", "--persona", PEOPLE[0], "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--ray", "local"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "pip install '.[ray]'" in " ".join(done.stderr.split())


ROLLOUTS = """
import sys
from rlver_gym.agents import make_agent
from rlver_gym.core.cards import env_card
from rlver_gym.core.library import library
from rlver_gym.environment.ray_rollout import rollout_on_ray
from rlver_gym.environment.rollout import rollout
from rlver_gym.environment.session import EmpathySession
from rlver_gym.users import make_user

def dialogues():
    user, card, people = make_user("embedded"), env_card("RLVER-Empathy-v0"), library()
    for seed in range(12):
        person = people.get(people.ids("train")[seed % 4])
        yield EmpathySession(user, person, card, seed), make_agent("listener", person, seed)

here = [session.snapshot() for session in rollout(dialogues())]
there = rollout_on_ray(dialogues(), address=sys.argv[1], workers=2)
print(here == [session.snapshot() for session in there], len(here))
"""


def test_rollouts_on_a_cluster_are_those_of_one_process_in_the_same_order(
    cluster: Cluster,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ROLLOUTS, cluster.address],
        capture_output=True,
        text=True,
        env=os.environ | AUTH,
    )
    assert done.stdout.split() == ["True", "12"], done.stderr
