"""A studio over a small run, shared or of one's own."""

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from chromium import CHROMIUM
from studios import Client, start_studio

from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run as hold


@pytest.fixture(scope="session")
def held(tmp_path_factory):
    """A run of two competitors and one who is told what no agent can know."""
    folder = tmp_path_factory.mktemp("held") / "first"
    list(hold(BenchPlan(agents=("echo", "listener", "oracle"), seeds=1, split="demo"), folder))
    return folder


@pytest.fixture(scope="session")
def shared(held):
    out = held.parent / "first-person"
    with start_studio([held], out) as server:
        yield Client(server, held, out)


@pytest.fixture
def open_studio(tmp_path):
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
def studio(open_studio, held):
    return open_studio(held)


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.fixture
def visit(browser):
    """Opens a studio or a report in a browser: no request leaves it, its console stays empty."""
    contexts, foreign, complaints = [], [], []

    def open_page(studio: Client | Path, **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        is_file = isinstance(studio, Path)
        here = studio.as_uri() if is_file else f"http://127.0.0.1:{studio.server.port}/"
        own = (here, "blob:", "data:")
        page.on("request", lambda one: one.url.startswith(own) or foreign.append(one.url))
        page.on("console", lambda said: complaints.append((said.type, said.text)))
        page.on("pageerror", lambda error: complaints.append(("error", str(error))))
        page.on("dialog", lambda dialog: complaints.append(("error", dialog.message)))
        page.set_default_timeout(10_000)
        page.goto(here if is_file else studio.server.url)
        page.get_by_role("navigation").wait_for()
        page.here = here
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert foreign == []
    assert [one for one in complaints if one[0] in ("error", "warning")] == []
