"""How close many dialogues with a served user come to the speed of the server, and what one call
costs on our side.

python benchmarks/concurrency.py [--whole]

The server is `rlver_gym.testing.ChatServer` in a process of its own: every call takes 200 ms, and
64 are worked on at once. It always answers the same, so nothing is measured but the way to it.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym

import rlver_gym  # noqa: F401 (registers the environments)
from rlver_gym.agents import make_agent
from rlver_gym.core.agent import Agent
from rlver_gym.core.cards import env_card
from rlver_gym.core.user import SentientUser
from rlver_gym.environment.rollout import rollout
from rlver_gym.environment.session import EmpathySession
from rlver_gym.library.personas import library
from rlver_gym.testing import ChatServer
from rlver_gym.users import make_user

LATENCY_S, CAPACITY, DIALOGUES, TURNS, CALLS = 0.2, 64, 64, 8, 2
IDEAL_S = DIALOGUES * TURNS * CALLS * LATENCY_S / CAPACITY


def answer(body: dict[str, Any]) -> str:
    """Something for every field that the schema asks for: a change of one point, so that every
    dialogue takes all its turns.
    """
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    words = "I had not seen it that way, but yes, that is how it was for me back then."
    return json.dumps(
        {
            name: 1 if kind["type"] == "integer" else kind["enum"][0] if "enum" in kind else words
            for name, kind in fields.items()
        }
    )


def serve(capacity: int) -> None:
    """Serve until standard input ends; says where on standard output."""
    with ChatServer(answer, latency_s=LATENCY_S, capacity=capacity, retry_after_s=None) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


@contextmanager
def server(capacity: int) -> Iterator[str]:
    """The address of a server in another process."""
    command = [sys.executable, __file__, "--serve", str(capacity)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.communicate()


def pairs(user: SentientUser, count: int) -> Iterator[tuple[EmpathySession, Agent]]:
    """So many dialogues of eight turns, each with an agent that asks."""
    card, shelf = env_card("RLVER-Empathy-v0"), library()
    people = [shelf.get(persona_id) for persona_id in shelf.ids("train")]
    for number in range(count):
        person = people[number % len(people)]
        yield EmpathySession(user, person, card, number), make_agent("listener", person, number)


def rollout_s(user: SentientUser, count: int, concurrency: int) -> float:
    """Seconds for so many dialogues, each at its own pace."""
    began = time.perf_counter()
    turns = sum(
        len(session.dialogue.turns)
        for session in rollout(pairs(user, count), concurrency=concurrency)
    )
    assert turns == count * TURNS
    return time.perf_counter() - began


def vector_s(base_url: str) -> float:
    """Seconds for 64 dialogues that go on turn by turn together."""
    env = gym.make_vec(
        "RLVER-Empathy-v0",
        num_envs=DIALOGUES,
        user="openai:m",
        base_url=base_url,
        concurrency=CAPACITY,
    )
    began = time.perf_counter()
    env.reset(seed=0)
    for turn in range(TURNS):
        env.step(
            tuple(f"What happened then, on day {number + turn}?" for number in range(DIALOGUES))
        )
    return time.perf_counter() - began


def one_at_a_time_s(base_url: str, dialogues: int) -> float:
    """Seconds for 64 dialogues one call after the other, scaled up from the first so many."""
    user = make_user("openai:m", base_url=base_url, concurrency=1)
    began = time.perf_counter()
    for session, agent in pairs(user, dialogues):
        session.start()
        while session.outcome is None:
            session.reply(agent.reply(tuple(session.dialogue.messages())))
    return (time.perf_counter() - began) * DIALOGUES / dialogues


def peak_mib() -> float:
    """The most memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(whole: bool) -> None:
    """Print everything."""
    print(
        f"Python {platform.python_version()}, {platform.machine()}; {LATENCY_S * 1000:.0f} ms a"
        f" call, capacity {CAPACITY}"
    )
    with server(CAPACITY) as base_url:
        user = make_user("openai:m", base_url=base_url, concurrency=CAPACITY)
        rollout_s(user, 1, 1)
        ours_s, together_s = rollout_s(user, DIALOGUES, DIALOGUES), vector_s(base_url)
        slow_s = one_at_a_time_s(base_url, DIALOGUES if whole else 2)
    how = "measured whole" if whole else "scaled up from 2 dialogues"
    print(f"{DIALOGUES} dialogues x {TURNS} turns x {CALLS} calls, ideal:  {IDEAL_S:8.2f} s")
    print(
        f"each at its own pace (rollout):      {ours_s:8.2f} s  ({ours_s / IDEAL_S:.2f} of the"
        " ideal)"
    )
    print(
        f"turn by turn (EmpathyVectorEnv):     {together_s:8.2f} s  ({together_s / IDEAL_S:.2f} of"
        " the ideal)"
    )
    print(
        f"one call at a time:                  {slow_s:8.2f} s  ({slow_s / ours_s:.1f} times as"
        f" long; {how})"
    )
    many = 1_000
    with server(many) as base_url:
        user = make_user("openai:m", base_url=base_url, concurrency=many)
        before_mib, cpu_s = peak_mib(), time.process_time()
        wall_s = rollout_s(user, many, many)
        cpu_s, mib = time.process_time() - cpu_s, peak_mib() - before_mib
    calls = many * TURNS * CALLS
    print(
        f"{many:,} dialogues at once:              {wall_s:8.2f} s  ({calls / wall_s:,.0f} calls/s)"
    )
    print(
        f"  processor time of ours:            {1000 * cpu_s / calls:8.2f} ms a call, the agent's"
        " and the prompts' included"
    )
    print(
        f"  memory:                            {1024 * mib / many:8.1f} KiB a dialogue, its"
        " connection included"
    )


def main() -> None:
    """Print everything, or be the server."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--whole", action="store_true", help="hold all 64 dialogues one call at a time (205 s)"
    )
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
    else:
        report(arguments.whole)


if __name__ == "__main__":
    main()
