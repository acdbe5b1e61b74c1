"""How soon the studio is there, and how soon a filter has acted, in a real browser.

    rlver-gym bench --split train --seeds 9 --out /tmp/run    # 5,184 dialogues, some minutes
    python benchmarks/studio.py /tmp/run

Prints milliseconds, best and median, of the studio that is served and of the run's report. A
filter takes from the event to the first frame that shows the new list. What else the machine does
only ever slows it down. Needs playwright and a Chromium.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright  # pyright: ignore[reportMissingImports]

from rlver_gym.studio.server import StudioServer

PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
FRAME = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
ACT = f"""async ([label, value, type]) => {{
  const list = document.getElementById("dialogues");
  const labels = [...list.querySelectorAll(".filters label")];
  const field = labels.find((one) => one.textContent.startsWith(label)).lastElementChild;
  const begin = performance.now();
  const isThere = new Promise((done) => {{
    const look = () => list.querySelector(".waiting") || done();
    const all = {{ childList: true, subtree: true, attributes: true, characterData: true }};
    new MutationObserver(look).observe(list, all);
  }});
  field.value = value;
  field.dispatchEvent(new Event(type, {{ bubbles: true }}));
  await isThere;
  await {FRAME};
  return performance.now() - begin;
}}"""
ACTIONS = {
    "choose an agent": [("agent", one, "change") for one in ("echo", "oracle", "adaptive")],
    "show all agents": [("agent", "", "change")],
    "choose a need": [("need", one, "change") for one in ("deep_empathy", "reflection")],
    "show all needs": [("need", "", "change")],
    "search": [("search", one, "input") for one in ("mother", "accident", "alone at night")],
}


def measure(browser: Browser, url: str) -> dict[str, list[float]]:
    """Milliseconds of everything, on a page without a cache."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.goto(url)
    page.locator("table.list").wait_for()
    found: dict[str, list[float]] = {
        "first contentful paint": [page.evaluate(PAINT)],
        "the list is there": [page.evaluate(f"{FRAME}.then(() => performance.now())")],
    }
    for name, steps in ACTIONS.items():
        found[name] = [page.evaluate(ACT, list(step)) for step in steps]
    context.close()
    return found


def show(title: str, browser: Browser, url: str, rounds: int) -> None:
    """The figures of one address, over all rounds."""
    measured = [measure(browser, url) for _ in range(rounds)]
    print(title)
    for name in measured[0]:
        values: list[Any] = [one for each in measured for one in each[name]]
        print(f"  {name:24}{min(values):7.0f}{statistics.median(values):7.0f}")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=asked.chromium, args=["--no-sandbox"])
        with StudioServer([asked.run], Path(folder)) as server:
            show("served", browser, server.url, asked.rounds)
        file = asked.run / "report.html"
        show(
            f"file of {file.stat().st_size / 1e6:.1f} MB",
            browser,
            file.resolve().as_uri(),
            asked.rounds,
        )
        browser.close()


if __name__ == "__main__":
    main()
