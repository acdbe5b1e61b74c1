"""Speed and memory of the environments on the embedded user, each beside a yardstick taken in the
same run.

python benchmarks/speed.py [--steps 8000]
"""

import argparse
import cProfile
import io
import platform
import pstats
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import gymnasium as gym

from rlver_gym.core.cards import env_card
from rlver_gym.environment.session import EmpathySession
from rlver_gym.environment.spaces import Utterance
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser

STRETCH = 500
"""Steps that are timed together. What else the machine does only ever slows them down, so the best
stretch tells most about the code.
"""


class Parrot(gym.Env[str, str]):
    """The yardstick: an environment of the same shape that feels nothing."""

    def __init__(self) -> None:
        """Eight turns."""
        self.action_space, self.observation_space, self.turn = Utterance(4000), Utterance(16_000), 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[str, dict[str, object]]:
        """Begin."""
        super().reset(seed=seed)
        self.turn = 0
        return "Hello.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        """Give it back."""
        self.turn += 1
        return action, 0.0, self.turn >= 8, False, {}


def utterances(count: int) -> list[str]:
    """Utterances of sixty words: what good supporters might say, but one word in six is another's,
    so that hardly a sentence is ever said twice.
    """
    shelf, rng = library(), random.Random(0)
    said = [
        anchor.text.split()
        for persona_id in shelf.ids("train")
        for _, anchor in shelf.get(persona_id).situation.anchors.each()
    ]
    others = [word for sentence in said for word in sentence if word.isalpha() and word.islower()]
    made = []
    while len(made) < count:
        words: list[str] = []
        while len(words) < 60:
            words += (
                rng.choice(others) if rng.random() < 1 / 6 else word for word in rng.choice(said)
            )
        made.append(" ".join(words[:60]))
    return made


def load_everybody() -> float:
    """Seconds to read the train personas' cards and to compile their situations, which happens
    once, when each is first met.
    """
    started = time.perf_counter()
    for persona_id in library().ids("train"):
        env = gym.make("RLVER-Empathy-v0", persona=persona_id)
        env.reset(seed=0)
        env.step("Hello, how are you?")
    return time.perf_counter() - started


def steps_per_second(env: gym.Env[str, str], spoken: list[str]) -> list[float]:
    """Steps a second of wall time in each stretch of `STRETCH` utterances, resets counted."""
    env.reset(seed=0)
    rates = []
    for start in range(0, len(spoken), STRETCH):
        started = time.perf_counter()
        for words in spoken[start : start + STRETCH]:
            if env.step(words)[2]:
                env.reset()
        rates.append(STRETCH / (time.perf_counter() - started))
    return rates


def vector_steps_per_second(num_envs: int, spoken: list[str]) -> float:
    """Dialogue turns a second of the vector environment."""
    env = gym.make_vec("RLVER-Empathy-v0", num_envs=num_envs)
    env.reset(seed=0)
    batches = [
        tuple(spoken[at : at + num_envs]) for at in range(0, len(spoken) - num_envs + 1, num_envs)
    ]
    started = time.perf_counter()
    for batch in batches:
        env.step(batch)
    return len(batches) * num_envs / (time.perf_counter() - started)


def live_dialogues(count: int, spoken: list[str]) -> tuple[float, float]:
    """KiB of resident memory for each of `count` dialogues after four turns, and turns a second
    while they advance side by side.
    """
    shelf, user, card = library(), EmbeddedUser(), env_card("RLVER-Empathy-v0")
    personas = [shelf.get(persona_id) for persona_id in shelf.ids("train")]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sessions = [
        EmpathySession(user, personas[number % len(personas)], card, number)
        for number in range(count)
    ]
    for session in sessions:
        session.start()
    rng, started, turns = random.Random(1), time.perf_counter(), 0
    for _ in range(4):
        for session in sessions:
            if session.outcome is None:
                session.reply(" ".join((rng.choice(spoken)[:180], rng.choice(spoken)[:180])))
                turns += 1
    seconds = time.perf_counter() - started
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / count, turns / seconds


def import_seconds(module: str) -> float:
    """The best of five fresh interpreters, less the interpreter itself."""

    def once(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - started

    return min(once(f"import {module}") for _ in range(5)) - min(once("pass") for _ in range(5))


def where_time_goes(work: Callable[[], object]) -> str:
    """The ten functions that take the most time of their own."""
    profile, text = cProfile.Profile(), io.StringIO()
    profile.runcall(work)
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(10)
    return "\n".join(line for line in text.getvalue().splitlines()[6:] if line.strip())


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=8000, help=f"a multiple of {STRETCH}")
    parser.add_argument("--dialogues", type=int, default=10_000)
    arguments = parser.parse_args()
    spoken = utterances(2 * arguments.steps)
    half = spoken[: arguments.steps]
    gym.register("Parrot-v0", entry_point=Parrot)  # pyright: ignore[reportArgumentType]
    print(
        f"Python {platform.python_version()}, gymnasium {gym.__version__}, {platform.machine()},"
        " one core"
    )
    loading = load_everybody()
    yardstick = median(steps_per_second(gym.make("Parrot-v0"), half))
    rates = steps_per_second(gym.make("RLVER-Empathy-v0"), half)
    one = median(rates)
    print(
        f"one environment through gym.make:  {one:8,.0f} steps/s  (median of {len(rates)}"
        f" stretches; the best {max(rates):,.0f}; {one / yardstick:.4f} of an environment that"
        " feels nothing)"
    )
    print(f"reading and compiling 64 personas: {loading:8.2f} s        (once; not counted above)")
    many = vector_steps_per_second(64, spoken[arguments.steps :])
    print(
        f"vector environment, 64 dialogues:  {many:8,.0f} turns/s  ({many / one:.2f} of the single"
        " one)"
    )
    ours, theirs = import_seconds("rlver_gym"), import_seconds("gymnasium")
    print(
        f"import rlver_gym:                  {ours:8.3f} s        ({ours / theirs:.2f} of import"
        " gymnasium)"
    )
    kib, rate = live_dialogues(arguments.dialogues, half)
    print(
        f"{arguments.dialogues:,} live dialogues, 4 turns:   {kib:8.1f} KiB each, {rate:,.0f}"
        " turns/s side by side"
    )
    print("\nwhere the time goes:")
    profiled = utterances(2000)
    print(where_time_goes(lambda: steps_per_second(gym.make("RLVER-Empathy-v0"), profiled)))


if __name__ == "__main__":
    main()
