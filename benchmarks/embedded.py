"""How fast the embedded user is, in processor time, and what dialogues weigh: the first pass over
all train people, one environment, a vector of 64, and 10,000 dialogues kept.

python benchmarks/embedded.py

What is said are the recorded replies of recordings/en/train, none twice in a measurement. It runs
on earlier versions too.
"""

import json
import resource
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import process_time

import gymnasium as gym

import rlver_gym  # noqa: F401 (registers the environments)
from rlver_gym.core.cards import env_card
from rlver_gym.environment.session import EmpathySession
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser

ENV = "RLVER-Empathy-v0"
DIALOGUES = Path(__file__).parents[1] / "recordings" / "en" / "train" / "dialogues.jsonl"
VECTOR, KEPT = 64, 10_000
STRETCHES, STEPS = 16, 256


def read_replies() -> Iterator[str]:
    """What agents said, dialogue by dialogue, then again with a word more, without an end."""
    lines = DIALOGUES.read_text(encoding="utf-8").splitlines()
    texts = [turn["agent"] for line in lines for turn in json.loads(line)["turns"]]
    yield from texts
    for number in range(1_000):
        yield from (f"{text} That is the {number + 2}th thing." for text in texts)


def measure_first_pass(replies: Iterator[str]) -> None:
    """A dialogue with each of the train people, of whom nothing is known yet."""
    user, shelf, card = EmbeddedUser(), library(), env_card(ENV)
    play(EmpathySession(user, shelf.get(shelf.ids("demo")[0]), card), replies)  # loads the tables
    steps, first_steps, ids = 0, 0.0, shelf.ids("train")
    begin = process_time()
    for seed, name in enumerate(ids):
        before = process_time()
        session = EmpathySession(user, shelf.get(name), card, seed)
        session.start()
        session.reply(next(replies))
        first_steps += process_time() - before
        steps += 1 + play(session, replies)
    report("first pass over the train people", steps, [process_time() - begin])
    print(f"{'':34}{1_000 * first_steps / len(ids):8.1f} ms to a person's first answer")


def play(session: EmpathySession, replies: Iterator[str]) -> int:
    """To the end; the number of steps."""
    if not session.has_begun:
        session.start()
    steps = 0
    while session.outcome is None:
        session.reply(next(replies))
        steps += 1
    return steps


def measure_one(replies: Iterator[str]) -> None:
    """Dialogue after dialogue, resets among them."""
    env = gym.make(ENV).unwrapped
    env.reset(seed=1)
    times = []
    for _ in range(STRETCHES):
        begin = process_time()
        for text in islice(replies, STEPS):
            *_, is_over, is_cut, _ = env.step(text)
            if is_over or is_cut:
                env.reset()
        times.append(process_time() - begin)
    report("one environment", STEPS, times)


def measure_vector(replies: Iterator[str]) -> None:
    """The same side by side."""
    envs = gym.make_vec(ENV, num_envs=VECTOR)
    envs.reset(seed=1)
    times = []
    for _ in range(STRETCHES):
        begin = process_time()
        for _ in range(STEPS // VECTOR):
            envs.step(tuple(islice(replies, VECTOR)))
        times.append(process_time() - begin)
    report(f"a vector of {VECTOR}", STEPS // VECTOR * VECTOR, times)


def measure_memory(replies: Iterator[str]) -> None:
    """How much the process grows by dialogues under way, each after two turns."""
    user, shelf, card = EmbeddedUser(), library(), env_card(ENV)
    ids, kept = shelf.ids("train"), []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(KEPT):
        session = EmpathySession(user, shelf.get(ids[seed % len(ids)]), card, seed)
        session.start()
        for text in islice(replies, 2):
            session.reply(text)
        kept.append(session.snapshot())
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{f'{KEPT:,} dialogues under way':34}{grown / 1024:8.0f} MiB")


def report(what: str, steps: int, times: Sequence[float]) -> None:
    """What else the machine does only slows: the best stretch tells most about the code."""
    for name, seconds in (("best", min(times)), ("mean", sum(times) / len(times))):
        if name == "best" or len(times) > 1:
            print(
                f"{what:34}{steps / seconds:8.0f} replies a second{1_000 * seconds / steps:9.3f} ms"
                f" each{f', {name} of {len(times)}' if len(times) > 1 else ''}"
            )


def main() -> None:
    """In this order, so that the first pass comes first."""
    replies = read_replies()
    print(f"the embedded user, version {EmbeddedUser().version}")
    measure_first_pass(replies)
    measure_one(replies)
    measure_vector(replies)
    measure_memory(replies)


if __name__ == "__main__":
    main()
