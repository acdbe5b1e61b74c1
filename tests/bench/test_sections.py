"""The report as JSON and Markdown: what it has beside the scores."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.cli import app

PEOPLE = ("theo-by-thirty", "bea-three-dates")
KEY = f"listener/{PEOPLE[0]}/0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    list(run(BenchPlan(agents=("listener", "comfort"), seeds=1, persona_ids=PEOPLE), folder))
    line = {"dialogue": KEY, "scores": {"core_insight": 4, "creativity": 2}}
    (folder / "judgements.jsonl").write_text(f"{json.dumps(line)}\n", encoding="utf-8")
    assert CliRunner().invoke(app, ["rescore", str(folder)]).exit_code == 0
    return folder


def report(folder: Path, *options: str) -> str:
    asked = ["report", str(folder), "--no-recompute", *options]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_all_that_is_known_of_a_run_is_in_its_report(folder: Path) -> None:
    found = json.loads(report(folder, "--json"))
    assert found["capabilities"]["listener"]["core_insight"] == {"mean": 4, "low": 4, "high": 4}
    assert list(found["opinions"]) == [folder.name]
    assert set(found["strategies"]) == {"listener", "comfort"}
    text = report(folder, "--markdown")
    assert "| listener | – | 4.0 \\[4.0, 4.0\\] | – | – | – | 2.0 \\[2.0, 2.0\\] | – |" in text
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert [one.split()[1] for one in titles] == [
        *("Final", "By", "Support", "Capabilities,", "Opinions", "What")
    ]


@pytest.mark.parametrize("text", ["[]", "{", '{"emotions": {}, "capabilities": {}}', "null"])
def test_kept_opinions_that_are_damaged_are_named(folder: Path, text: str) -> None:
    kept = (folder / "opinions.json").read_bytes()
    (folder / "opinions.json").write_text(text, encoding="utf-8")
    asked = ["report", str(folder), "--no-recompute", "--json"]
    done = CliRunner().invoke(app, asked)
    (folder / "opinions.json").write_bytes(kept)
    assert "holds no opinions" in str(done.exception)
