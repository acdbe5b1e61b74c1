"""A server under load: a thousand episodes open at once, fifty turns in flight, and clients that
die in the middle of a request. Then the server's own counts are compared with what the clients saw,
and every episode is played again on this machine.

python benchmarks/server_load.py [--sessions N] [--in-flight N] [--steps N] [--kills SHARE]

The server is `rlver-gym serve` in a process of its own, with the embedded user. A client that dies
breaks its connection off before, in the middle of, or after its request, and comes back with the
same request id. Needs: pip install '.[serve]'
"""

import argparse
import asyncio
import json
import os
import platform
import random
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.library.personas import library

UTTERANCES = (
    "What happened then?",
    "That sounds exhausting, and you carried it alone.",
    "You should just move on.",
    "It matters to you how this ends. What would be a good end?",
    "You kept going all that time, and nobody saw it. Who should have seen it?",
    "I'm not sure I understood. Can you tell me more about that evening?",
    "Part of you may be angry, and part of you just tired. Which one is here today?",
    "",
)


@contextmanager
def serve(sessions: int) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its port, and the process's id."""
    command = [sys.executable, "-m", "rlver_gym", "serve", "--port", "0"]
    command += ["--max-episodes", str(sessions + 1_000), "--max-in-flight", "1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        line = process.stdout.readline()
        yield int(line.rpartition(":")[2]), process.pid
        process.terminate()


class Client:
    """Speaks HTTP on one connection, and dies at random."""

    def __init__(self, port: int, kills: float, rng: random.Random) -> None:
        """`kills`: the share of its requests in which it dies."""
        self.port = port
        self.kills = kills
        self.rng = rng
        self.deaths: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer, after as many deaths as fate wants."""
        while True:
            answer = await self._try(path, json.dumps(body).encode())
            if answer is not None:
                return answer

    async def _try(self, path: str, content: bytes) -> dict[str, Any] | None:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self._streams
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        request = f"{head}content-length: {len(content)}\r\n\r\n".encode() + content
        dies = self.rng.random() < self.kills and self.rng.choice(("cut", "at once", "later"))
        writer.write(request[: self.rng.randrange(len(request))] if dies == "cut" else request)
        if dies:
            if dies == "later":
                await asyncio.sleep(self.rng.random() * 0.02)
            self.deaths[dies] += 1
            writer.transport.abort()
            self._streams = None
            return None
        status = int((await reader.readline()).split()[1])
        length = 0
        while (line := await reader.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        answer = json.loads(await reader.readexactly(length))
        self.statuses[status] += 1
        if status == 503:
            await asyncio.sleep(0.05)
            return None
        if status >= 300:
            raise SystemExit(f"{path}: {status} {answer}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        if self._streams:
            self._streams[1].close()


@dataclass
class Played:
    """An episode as the client saw it."""

    id: str
    persona: str
    seed: int
    opening: str
    utterances: list[str] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    over: bool = False


@dataclass
class Load:
    """What all clients share."""

    steps_left: int
    latencies_s: list[float] = field(default_factory=list)
    undisturbed_s: list[float] = field(default_factory=list)
    """Latencies of the turns in which no client died."""
    episodes: list[Played] = field(default_factory=list)


async def begin(client: Client, load: Load, seed: int, purpose: str = "begin") -> Played:
    """Begin an episode with somebody."""
    people = library().ids("train")
    persona = people[seed % len(people)]
    body = {"request_id": f"{purpose}-{seed}", "persona": persona, "seed": seed}
    answer = await client.post("/v1/episodes", body)
    episode = Played(answer["episode_id"], persona, seed, answer["opening"])
    load.episodes.append(episode)
    return episode


async def step(client: Client, load: Load, episode: Played) -> None:
    """Take a turn; its latency counts from the first attempt."""
    words, turn = client.rng.choice(UTTERANCES), len(episode.rewards) + 1
    body = {"request_id": f"turn-{turn}", "turn": turn, "utterance": words}
    began, deaths = time.perf_counter(), client.deaths.total()
    answer = await client.post(f"/v1/episodes/{episode.id}/steps", body)
    load.latencies_s.append(time.perf_counter() - began)
    if client.deaths.total() == deaths:
        load.undisturbed_s.append(load.latencies_s[-1])
    assert answer["turn"] == turn, (answer, turn)
    episode.utterances.append(words)
    episode.replies.append(answer["reply"])
    episode.rewards.append(answer["reward"])
    episode.over = answer["terminated"]


async def work(
    client: Client, load: Load, episodes: list[Played], next_seed: Iterator[int]
) -> None:
    """One turn after the other, each of another of its episodes; a new one for each that ends."""
    place = 0
    while load.steps_left > 0:
        load.steps_left -= 1
        place = (place + 1) % len(episodes)
        if episodes[place].over:
            episodes[place] = await begin(client, load, next(next_seed))
        await step(client, load, episodes[place])


async def meet_everybody(port: int) -> float:
    """Take a turn with each person, whose cards are compiled then: how many seconds that took."""
    client, load, began = Client(port, 0.0, random.Random(0)), Load(0), time.perf_counter()
    for number, _ in enumerate(library().ids("train")):
        await step(client, load, await begin(client, load, number, "meet"))
    client.close()
    return time.perf_counter() - began


class Snapshot(NamedTuple):
    """A server at one moment."""

    cpu_s: float
    memory_MiB: float
    peak_MiB: float
    counts: dict[str, int]
    """The counts and gauges of /metrics, by name."""


def observe(port: int, pid: int) -> Snapshot:
    """The server now. Linux only."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    memory_MiB, peak_MiB = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    cpu_s = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        page = answer.read().decode().splitlines()
    pairs = (line.split() for line in page if line[0] != "#" and "{" not in line)
    counts = {name.removeprefix("rlver_gym_"): int(float(value)) for name, value in pairs}
    return Snapshot(cpu_s, memory_MiB, peak_MiB, counts)


class Run(NamedTuple):
    """What came of all turns."""

    load: Load
    clients: list[Client]
    opened: Snapshot
    """Before the first turn, with all sessions open."""
    seconds: float
    """Those of the turns."""


async def run(port: int, pid: int, asked: argparse.Namespace) -> Run:
    """Open all sessions, then take all turns."""
    load, seeds = Load(asked.steps), iter(range(10**9))
    clients = [Client(port, asked.kills, random.Random(n)) for n in range(asked.in_flight)]
    share = asked.sessions // asked.in_flight

    async def open_share(client: Client) -> list[Played]:
        return [await begin(client, load, next(seeds)) for _ in range(share)]

    opened = await asyncio.gather(*map(open_share, clients))
    for client in clients:
        client.statuses.clear()
    snapshot = observe(port, pid)
    began = time.perf_counter()
    works = zip(clients, opened, strict=True)
    await asyncio.gather(*(work(client, load, mine, seeds) for client, mine in works))
    seconds = time.perf_counter() - began
    for client in clients:
        client.close()
    return Run(load, clients, snapshot, seconds)


def count_differences(episodes: Sequence[Played]) -> int:
    """Episodes whose opening, replies or rewards are other than on this machine."""
    env, different = EmpathyEnv(), 0
    for played in episodes:
        env = EmpathyEnv(persona=played.persona, user=env.user)
        opening, _ = env.reset(seed=played.seed)
        turns = [env.step(words)[:2] for words in played.utterances]
        seen = list(zip(played.replies, played.rewards, strict=True))
        different += (opening, turns) != (played.opening, seen)
    return different


def quantiles_ms(latencies_s: list[float]) -> str:
    """Median, 99th percentile and longest."""
    ranked = sorted(latencies_s)
    chosen = ranked[len(ranked) // 2], ranked[int(len(ranked) * 0.99)], ranked[-1]
    return ", ".join(f"{1000 * latency_s:8.1f}" for latency_s in chosen)


def report(asked: argparse.Namespace) -> int:
    """Run it and print everything. How many episodes differ, and turns and episodes of the server
    that no client knows.
    """
    with serve(asked.sessions) as (port, pid):
        before = observe(port, pid)
        met_s = asyncio.run(meet_everybody(port))
        met = observe(port, pid)
        load, clients, opened, seconds = asyncio.run(run(port, pid, asked))
        after = observe(port, pid)
    deaths, statuses = Counter[str](), Counter[int]()
    for client in clients:
        deaths.update(client.deaths)
        statuses.update(client.statuses)
    taken = len(load.latencies_s)
    died = ", ".join(f"{n} {how}" for how, n in sorted(deaths.items()))
    num_open = opened.counts["open_episodes"] - met.counts["open_episodes"]
    session_KiB = 1024 * (opened.memory_MiB - met.memory_MiB) / num_open
    turn_KiB = 1024 * (after.memory_MiB - opened.memory_MiB) / taken
    cpu_ms = 1000 * (after.cpu_s - opened.cpu_s) / taken
    unknown = abs(after.counts["steps_total"] - met.counts["steps_total"] - taken)
    unknown += abs(
        after.counts["episodes_total"] - met.counts["episodes_total"] - len(load.episodes)
    )
    print(f"Python {platform.python_version()}, {platform.machine()}, embedded user")
    print(f"first turn with each person, one after the other: {met_s:.0f} s; they stay open")
    print(f"sessions open at once  {num_open:8,}   as the server counts them")
    print(f"turns in flight        {asked.in_flight:8,}")
    print(f"episodes               {len(load.episodes):8,}")
    print(f"turns                  {taken:8,}   answers {dict(statuses)}")
    print(f"clients that died      {deaths.total():8,}   ({died})")
    print(f"turns a second         {taken / seconds:8,.0f}   server and clients share their cores")
    print(f"processor time         {cpu_ms:8.1f} ms of the server a turn, new episodes included")
    print(f"latency p50, p99, max  {quantiles_ms(load.latencies_s)} ms, deaths included")
    print(f"  where nobody died    {quantiles_ms(load.undisturbed_s)} ms")
    print(
        f"memory of the server   {after.peak_MiB:8.0f} MiB at most; {before.memory_MiB:.0f} at the"
        f" start, {met.memory_MiB:.0f} when everybody was met"
    )
    print(f"memory of a session    {session_KiB:8.1f} KiB as it opens, {turn_KiB:.1f} more a turn")
    different = count_differences(load.episodes)
    print(f"turns and episodes that the server counts and no client saw: {unknown}")
    print(f"episodes that differ from this machine's: {different} of {len(load.episodes):,}")
    return different + unknown


def main() -> None:
    """Fails when an episode differs, or something was done twice or not at all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--in-flight", type=int, default=50)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--kills", type=float, default=0.05, help="share of requests")
    sys.exit(bool(report(parser.parse_args())))


if __name__ == "__main__":
    main()
