"""How far one has to go to read what runs: a step, a dialogue of bench, an iteration of GRPO.

python tools/visits.py      counts files and functions of the package, and how often control passes
from one file to another (calls and returns), by sys.setprofile; what is prepared once comes before
"""

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium as gym

import rlver_gym
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.policy.config import make_config
from rlver_gym.policy.iteration import train
from rlver_gym.policy.learner import make_learner
from rlver_gym.policy.models.tiny_model import build_tiny_model

PACKAGE = f"{Path(rlver_gym.__file__).parent}/"


def count(work: Callable[[], object]) -> str:
    """What the work visits, in this thread and in those that it starts."""
    visited: list[str] = []
    functions: set[tuple[str, int]] = set()

    def see(frame: FrameType | None, event: str, _: Any) -> None:
        at = frame.f_back if frame and event == "return" else frame
        if at and event in ("call", "return") and at.f_code.co_filename.startswith(PACKAGE):
            place = at.f_code
            functions.add((place.co_filename, place.co_firstlineno))
            if visited[-1:] != [place.co_filename]:
                visited.append(place.co_filename)

    threading.setprofile(see)
    sys.setprofile(see)
    work()
    sys.setprofile(None)
    return f"{len(set(visited))} files, {len(functions)} functions, {len(visited):,} changes"


if __name__ == "__main__":
    env = gym.make("RLVER-Empathy-v0")
    env.reset(seed=0)
    env.step("What was that like for you?")
    print("a step:", count(lambda: env.step("It sounds lonely to carry all of that.")))
    with tempfile.TemporaryDirectory() as place:
        plan = BenchPlan(agents=("listener",), persona_ids=("noor-the-old-dog",), seeds=1)
        print("a dialogue of bench:", count(lambda: [*run(plan, Path(place, "run"))]))
        build_tiny_model(Path(place, "model"), hidden=32, layers=1, vocab=400)
        options = {"algo": "grpo", "model": f"{place}/model", "dialogues": 8, "group_size": 4}
        learner = make_learner(make_config(options, "the tool"))
        print("an iteration of GRPO:", count(lambda: next(train(learner))))
