"""A studio over a small run, shared or of one's own."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from studios import Client, start_studio

from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run as hold


@pytest.fixture(scope="session")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two competitors and one who is told what no agent can know."""
    folder = tmp_path_factory.mktemp("held") / "first"
    list(hold(BenchPlan(agents=("echo", "listener", "oracle"), seeds=1, split="demo"), folder))
    return folder


@pytest.fixture(scope="session")
def shared(held: Path) -> Iterator[Client]:
    """A studio over that run, for tests that keep nothing."""
    out = held.parent / "first-person"
    with start_studio([held], out) as server:
        yield Client(server, held, out)


@pytest.fixture
def open_studio(tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Opens a studio over a copy of a run, until the end of the test."""
    with ExitStack() as stack:

        def start(run: Path | None, personas: str | None = None) -> Client:
            folder = tmp_path / "runs" / (run.name if run else "none")
            if run:
                shutil.copytree(run, folder)
            out = tmp_path / "first-person"
            server = start_studio([folder] if run else [], out, personas)
            return Client(stack.enter_context(server), folder, out)

        yield start


@pytest.fixture
def studio(open_studio: Callable[..., Client], held: Path) -> Client:
    """A studio over a copy of that run."""
    return open_studio(held)
