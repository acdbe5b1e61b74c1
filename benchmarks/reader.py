"""How fast the reader is: time to the first reply, replies a second of one dialogue and of many
beside each other, and memory.

python benchmarks/reader.py BASE [--user reader] [--envs 64] [--steps 8] [--threads 2]
    [--dtype bfloat16] [--device auto]

BASE is what its head was made for, a folder or a hub name. What is said are recorded replies of
recordings/en/train. `train` says what it costs as the reward of its own policy: `times.jsonl`.
"""

import argparse
import resource
from itertools import islice
from time import perf_counter, process_time
from typing import Any

import gymnasium as gym
import torch
from embedded import ENV, read_replies

import rlver_gym  # noqa: F401 (registers the environments)


def measure(num_envs: int, steps: int, options: dict[str, Any]) -> None:
    """Prints what the first reply of each dialogue costs, and each later one."""
    replies, env = read_replies(), gym.make_vec(ENV, num_envs=num_envs, **options)
    env.reset(seed=0)
    wall, processor = [perf_counter()], [process_time()]
    for _ in range(steps):
        env.step(tuple(islice(replies, num_envs)))
        wall.append(perf_counter())
        processor.append(process_time())
    for name, first, last in (("first replies", 0, 1), ("later replies", 1, steps)):
        if not (count := num_envs * (last - first)):
            continue
        seconds, work = wall[last] - wall[first], processor[last] - processor[first]
        print(
            f"{num_envs:4} dialogues, {name}: {count / seconds:6.2f} a second,"
            f" {work / count:6.3f} s of processor each"
        )


def main() -> None:
    """Print time to the first reply, then speed alone and in a vector, then memory."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("base")
    parser.add_argument("--user", default="reader")
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    options = {name: getattr(asked, name) for name in ("user", "base", "dtype", "device")}
    begin = perf_counter()
    env: Any = gym.make(ENV, **options)
    env.reset(seed=1)
    env.step("I see.")
    print(f"{perf_counter() - begin:.1f} s to the first reply, the base loaded")
    for num_envs in (1, asked.envs):
        measure(num_envs, asked.steps, options)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{most / 1024:,.0f} MiB at most")


if __name__ == "__main__":
    main()
