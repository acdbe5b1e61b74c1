"""Replies to many moments, judged side by side by a server that takes its time (in a process of its
own): requests, how many at once, and the time against that of the slowest dialogue alone.

python benchmarks/side_by_side.py [--dialogues 64] [--replies 6] [--turns 2] [--latency 0.3]
"""

import argparse
import json
import time
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection

import gymnasium as gym

import rlver_gym  # noqa: F401
from rlver_gym.environment.vector_env import EmpathyVectorEnv
from rlver_gym.testing import ChatServer


def answer(body: dict) -> str:
    """Something that can be used, at once: what is measured is the asking."""
    state = json.loads(next(x for x in body["messages"][1]["content"].split("\n") if x[:1] == "{"))
    if "replies" not in state:
        return json.dumps({"reply": "It was a long day.", "told": []})
    return json.dumps({key: {"thought": "Hm.", "change": 1} for key in state["replies"]})


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    for name, default in (("dialogues", 64), ("replies", 6), ("turns", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--latency", type=float, default=0.3)
    asked = parser.parse_args()
    replies = [f"What happened then? I am listening ({number})." for number in range(asked.replies)]
    here, there = Pipe()
    server = Process(target=serve, args=(there, asked.latency), daemon=True)
    server.start()
    options = {"user": "openai:any", "base_url": here.recv(), "opening": "card"}
    many = gym.make_vec("RLVER-Empathy-v0", num_envs=asked.dialogues, **options)
    assert isinstance(many, EmpathyVectorEnv)
    many.reset(seed=0)
    many.appraise_replies([replies[:2]] * asked.dialogues)  # opens the connections
    here.send(None)
    before, _ = here.recv()
    began = time.perf_counter()
    for _ in range(asked.turns):
        many.step_from(many.appraise_replies([replies] * asked.dialogues), [0] * asked.dialogues)
    took = time.perf_counter() - began
    here.send(None)
    requests, at_once = here.recv()
    moments, chain = asked.dialogues * asked.turns, 2 * asked.turns * asked.latency
    print(
        f"{asked.dialogues} dialogues, {asked.replies} replies a moment, {asked.turns} turns:"
        f" {(requests - before) / moments:.2f} requests a moment, {at_once} at once,"
        f" {took:.2f} s, {took / chain:.2f} of the slowest chain ({chain:.2f} s)"
    )


def serve(pipe: Connection, latency_s: float) -> None:
    """A server that says where it is, and whenever it is sent anything, what it was asked."""
    with ChatServer(answer, latency_s=latency_s) as server:
        pipe.send(server.base_url)
        while True:
            pipe.recv()
            pipe.send((len(server.requests), server.max_concurrent_calls))


if __name__ == "__main__":
    main()
