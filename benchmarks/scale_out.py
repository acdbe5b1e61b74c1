"""A benchmark on workers of a Ray cluster beside the same in one process, and what limits a hundred
of them.

python benchmarks/scale_out.py served | embedded | many [--workers N] [--in-flight N] [--latency S]

served: a served user whose every call takes 200 ms; the same number of dialogues is under way in
the one process and in each of two workers. embedded: the embedded user, at growing numbers of
dialogues. many: so many workers against one server, with calls so slow that the cores of this
machine are not what limits; from the processor time of each part follows what does at full speed.
Needs: pip install '.[ray]'
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from concurrency import answer

from rlver_gym.bench.folder import EPISODES
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.ray_bench import execute_on_ray
from rlver_gym.bench.run import open_run
from rlver_gym.io.ray_workers import LOCAL, open_cluster
from rlver_gym.llm_client import connect
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.testing import ChatServer

FULL_IN_FLIGHT, FULL_LATENCY_S, MACHINES = 64, 0.2, 100
"""What `many` reckons with: the default of --concurrency, and the test server's usual latency."""


def serve(latency_s: float) -> None:
    """Serve until standard input ends; says where, and at the end the most calls at once."""
    _raise_file_limit()
    with ChatServer(answer, latency_s=latency_s) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()
        print(server.max_concurrent_calls, len(server.requests), flush=True)


def _raise_file_limit() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Server(NamedTuple):
    """A server in another process."""

    base_url: str
    pid: int


def read_cpu_s(pid: int) -> float:
    """Processor time of a process so far. Linux only."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def server(latency_s: float) -> Iterator[Server]:
    """A server in another process, with any number of calls at once."""
    command = [sys.executable, __file__, "serve", "--latency", str(latency_s)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        yield Server(process.stdout.readline().strip(), process.pid)
        busiest, calls = process.communicate()[0].split()
        print(f"  server: {int(calls):,} calls, at most {busiest} at once")


class Measured(NamedTuple):
    """A run of a plan."""

    seconds: float
    """From the first moment with the cluster there, the start of workers included."""
    first_s: float
    """Until the first result."""
    driver_cpu_s: float
    """Processor time of the process that writes the run down."""
    records: bytes


def measure(plan: BenchPlan, workers: int | None, address: str) -> Measured:
    """Hold all dialogues of a plan in a new folder; `workers`: None for this process alone."""
    connect.close()
    execute = partial(execute_on_ray, address=address, workers=workers) if workers else None
    with TemporaryDirectory() as folder, open_run(plan, Path(folder)) as run:
        began, cpu_s, first_s = time.perf_counter(), time.process_time(), 0.0
        for _ in run.run_missing(execute):
            first_s = first_s or time.perf_counter() - began
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
        return Measured(seconds, first_s, cpu_s, (Path(folder) / EPISODES).read_bytes())


def served_plan(base_url: str, seeds: int, in_flight: int, **options: str | int) -> BenchPlan:
    """Dialogues with each of the 24 test personas, so many seeds."""
    chat = ChatSettings(base_url=base_url, concurrency=in_flight, timeout_s=600)
    return BenchPlan(
        agents=("listener",), user="openai:m", user_options={**options}, seeds=seeds, chat=chat
    )


def compare_served(arguments: argparse.Namespace) -> None:
    """One process, two workers, and one process with as many dialogues under way as both."""
    in_flight, seeds = arguments.in_flight, arguments.seeds
    with server(arguments.latency) as served, open_cluster(arguments.ray, 2):
        plan = served_plan(served.base_url, seeds, in_flight)
        one = measure(plan, None, arguments.ray)
        two = measure(plan, 2, arguments.ray)
        wide = measure(served_plan(served.base_url, seeds, 2 * in_flight), None, arguments.ray)
    print(f"{24 * seeds} dialogues, {1000 * arguments.latency:.0f} ms a call")
    print(f"one process, {in_flight} dialogues under way:       {one.seconds:7.1f} s")
    print(f"two workers, {in_flight} under way in each:         {two.seconds:7.1f} s, the first")
    print(f"  result after {two.first_s:.1f} s; {one.seconds / two.seconds:.2f} times as fast")
    print(f"one process, {2 * in_flight} dialogues under way:       {wide.seconds:7.1f} s")
    print(f"records equal: {one.records == two.records == wide.records}")


def measure_apart(plan: BenchPlan) -> Measured:
    """A run in a new process, which knows no card yet, as a worker that has just begun."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure, plan, None, LOCAL).result()


def compare_embedded(arguments: argparse.Namespace) -> None:
    """One process and two workers, at growing sizes; the start of the cluster counts."""
    print(f"{len(os.sched_getaffinity(0))} cores; seconds; two workers with their own start")
    print("dialogues  one process  cluster starts  two workers  together")
    for seeds in (3, 10, 30, 60)[: arguments.sizes]:
        plan = BenchPlan(agents=("listener", "oracle", "comfort"), seeds=seeds)
        one = measure_apart(plan)
        began = time.perf_counter()
        with open_cluster(arguments.ray, 2):
            start_s = time.perf_counter() - began
            two = measure(plan, 2, arguments.ray)
        assert one.records == two.records
        print(
            f"{72 * seeds:9,} {one.seconds:12.1f} {start_s:15.1f} {two.seconds:12.1f}"
            f" {start_s + two.seconds:9.1f}",
            flush=True,
        )


def simulate_many(arguments: argparse.Namespace) -> None:
    """So many workers against one server: whether the speed grows with them, and what each part
    would need at full speed.
    """
    workers, in_flight, latency_s = arguments.workers, arguments.in_flight, arguments.latency
    _raise_file_limit()
    with server(latency_s) as served:
        plan = served_plan(
            served.base_url, arguments.seeds, in_flight, calls=1, opening="card", timeout_s=600
        )
        dialogues = len(plan.cases())
        began = time.perf_counter()
        with open_cluster(arguments.ray, workers):
            print(f"  cluster for {workers} workers: {time.perf_counter() - began:.0f} s")
            many = measure(plan, workers, arguments.ray)
        server_cpu_s = read_cpu_s(served.pid)
    turns = plan.card.turns
    calls = dialogues * turns
    ideal = workers * in_flight / (turns * latency_s)
    rate = dialogues / (many.seconds - many.first_s + turns * latency_s)
    print(f"{workers} workers x {in_flight} dialogues under way, {latency_s:g} s a call")
    print(f"first result after      {many.first_s:8.1f} s, with the start of all workers")
    print(f"dialogues a second      {rate:8.2f} of {ideal:.2f} that the latency allows")
    print(f"driver                  {1000 * many.driver_cpu_s / dialogues:8.1f} ms a dialogue")
    print(f"server                  {1000 * server_cpu_s / calls:8.2f} ms a call")
    full = MACHINES * FULL_IN_FLIGHT / FULL_LATENCY_S
    print(f"{MACHINES} machines x {FULL_IN_FLIGHT} under way at {1000 * FULL_LATENCY_S:.0f} ms:")
    print(f"  connections           {MACHINES * FULL_IN_FLIGHT:8,}")
    print(f"  calls a second        {full:8,.0f}: {full * server_cpu_s / calls:.1f} such servers")
    per_s = full / turns
    print(
        f"  dialogues a second    {per_s:8,.0f}: {per_s * many.driver_cpu_s / dialogues:.1f} cores"
    )
    print(
        f"    of the driver, which has one; it takes {dialogues / many.driver_cpu_s:,.0f} a second"
    )


def main() -> None:
    """Print one of the three, or be the server."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("served", "embedded", "many", "serve"))
    parser.add_argument("--ray", default=LOCAL, metavar="ADDRESS")
    parser.add_argument("--workers", type=int, default=20, help="many: how many")
    parser.add_argument("--in-flight", type=int, default=16, help="dialogues of each worker")
    parser.add_argument("--latency", type=float, default=0.2, metavar="S")
    parser.add_argument("--seeds", type=int, default=16, help="dialogues with each persona")
    parser.add_argument("--sizes", type=int, default=4, help="embedded: how many sizes")
    arguments = parser.parse_args()
    if arguments.what == "serve":
        serve(arguments.latency)
        return
    print(f"Python {platform.python_version()}, {platform.machine()}")
    steps = {"served": compare_served, "embedded": compare_embedded, "many": simulate_many}
    steps[arguments.what](arguments)


if __name__ == "__main__":
    main()
