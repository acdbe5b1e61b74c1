"""What all tests share."""

import gc
import os
import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer.main
from hypothesis import settings

from rlver_gym import EmpathySession, env_card
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.library.personas import library
from rlver_gym.llm_client import connect as shared
from rlver_gym.users import EmbeddedUser

# As many processes as cores run the tests: one thread each, before torch starts its own.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
# "explore" looks for new examples.
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


# Typer makes all commands anew for every call, which takes longer than most of them. A process
# makes one call; the tests make hundreds.
typer.main.get_command = cache(typer.main.get_command)


HERE = Path(__file__).parent
NEEDS = {
    "policy": ("torch", "transformers"),
    "users/test_reader.py": ("torch", "transformers"),
    "bench/test_export_readers.py": ("datasets",),
    "integrations/test_trl_rollout.py": ("trl",),
    "integrations/test_trl_tool.py": ("trl",),
    "integrations/test_trl_trainer.py": ("trl",),
}
"""What a folder or a file of tests needs beyond the base install."""


class Skipped(pytest.Module):
    """A file of tests that is not imported, because something is missing, and says so."""

    missing = ""

    def collect(self):
        pytest.skip(f"needs {self.missing}", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    place = module_path.relative_to(HERE)
    for name in NEEDS.get(place.parts[0], ()) + NEEDS.get(place.as_posix(), ()):
        if find_spec(name) is None:
            module = Skipped.from_parent(parent, path=module_path)
            module.missing = name
            return module
    return None


def pytest_xdist_auto_num_workers(config):
    """As many processes as cores; one more for the fast tests, of which many wait for a clock."""
    return len(os.sched_getaffinity(0)) + ("not slow" in config.option.markexpr)


def pytest_collection_finish():
    """Let the garbage collector look seldom, and never at what was imported: that saves a sixth."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture
def close_shared_clients():
    """Close the shared clients and response caches that a test opened."""
    yield
    shared.close()


@pytest.fixture(scope="session")
def persona():
    """A demo persona: passive, wants praise."""
    return library().get(library().ids("demo")[-1])


@pytest.fixture(scope="session")
def card():
    return env_card("RLVER-Empathy-v0")


@pytest.fixture
def session(persona, card):
    session = EmpathySession(EmbeddedUser(), persona, card, seed=0)
    session.start()
    return session


@pytest.fixture(scope="session")
def plan():
    """A small benchmark: three agents, the demo personas, two seeds."""
    return BenchPlan(agents=("comfort", "listener", "oracle"), seeds=2, split="demo")


@pytest.fixture(scope="session")
def finished(plan, tmp_path_factory):
    """The folder of that benchmark, finished. Do not write to it: take `copy`."""
    folder = tmp_path_factory.mktemp("run")
    assert len(list(run(plan, folder))) == len(plan.cases())
    return folder


@pytest.fixture
def copy(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "copy"))


@pytest.fixture(scope="session")
def one_thread():
    """Torch on one thread: tiny models gain nothing from more, and lose much on busy cores."""
    pytest.importorskip("torch", reason="needs torch: pip install '.[train]'").set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_folder(one_thread, tmp_path_factory):
    """A tiny model and its tokenizer, on disk. Do not write to it."""
    from rlver_gym.policy.models.tiny_model import build_tiny_model

    folder = tmp_path_factory.mktemp("models") / "tiny"
    build_tiny_model(folder, seed=3, hidden=64, layers=2, vocab=600)
    return folder
