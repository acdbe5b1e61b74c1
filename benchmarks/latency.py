"""How long a request takes on a connection that is kept: of the server of episodes, of the studio,
and a step of `gym.make(..., url=...)`. Prints medians in milliseconds.

python benchmarks/latency.py [--requests N]

Both servers are processes of their own. Needs: pip install '.[serve,studio]'
"""

import argparse
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import gymnasium as gym

import rlver_gym  # noqa: F401 (registers the environments)


@contextmanager
def start(command: str) -> Iterator[tuple[int, str]]:
    """A server: its port, and the token in its address."""
    words = [sys.executable, "-m", "rlver_gym", command, "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        address = re.search(r"http://\S+?:(\d+)(?:/\?token=(\S+))?", process.stdout.readline())
        assert address
        yield int(address[1]), address[2]
        process.terminate()


def time_requests(port: int, path: str, headers: dict[str, str], times: int) -> float:
    """Requests one after the other, on one connection."""
    connection = HTTPConnection("127.0.0.1", port)

    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        response.read()
        seconds.append(time.perf_counter() - began)
        assert response.status == 200, response.status
    connection.close()
    return 1_000 * statistics.median(seconds)


def time_steps(port: int, times: int) -> float:
    """Steps of episodes with one person, whose card is compiled in a first one."""
    env = gym.make("RLVER-Empathy-v0", url=f"http://127.0.0.1:{port}", persona="noor-the-old-dog")

    def play() -> list[float]:
        env.reset(seed=0)
        seconds, is_over = [], False
        while not is_over:
            began = time.perf_counter()
            is_over = env.step("That sounds hard. What happened then?")[2]
            seconds.append(time.perf_counter() - began)
        return seconds

    play()
    seconds: list[float] = []
    while len(seconds) < times:
        seconds += play()
    env.close()
    return 1_000 * statistics.median(seconds)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200)
    times = parser.parse_args().requests
    with start("serve") as (port, _):
        print(f"serve   {time_requests(port, '/healthz', {}, times):6.2f} ms  GET /healthz")
        print(f"client  {time_steps(port, times):6.2f} ms  a step, embedded user")
    with start("studio") as (port, token):
        cookie = {"cookie": f"studio_{port}={token}"}
        print(f"studio  {time_requests(port, '/', cookie, times):6.2f} ms  GET /")


if __name__ == "__main__":
    main()
