"""The report as JSON and Markdown: what it has beside the scores."""

import json
from pathlib import Path
from urllib.parse import urlencode

import pytest
from typer.testing import CliRunner

from rlver_gym.bench.archetypes import find_archetypes, render_archetypes_as_markdown
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.cli import app
from rlver_gym.core.dialogue import Appraisal, Reason, Turn
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.episode import Episode

PEOPLE = ("theo-by-thirty", "bea-three-dates")
KEY = f"listener/{PEOPLE[0]}/0"


def episode(
    persona: str, *changes: int, agent: str = "a", outcome: str = "out_of_turns"
) -> Episode:
    turns, emotion = [], 40
    for number, change in enumerate(changes, 1):
        emotion += change
        reasons = (
            Reason("rounding", 9.0, "rounded"),
            Reason("x", 1.0, "light"),
            Reason("x", 2.0, "heavy"),
            Reason("x", -2.0, "cold"),
        )
        end = Outcome(outcome) if number == len(changes) else None
        appraisal = Appraisal(change, "", reasons)
        turns.append(Turn(f"said {number}", appraisal, emotion, 0.0, end, f"answer {number}"))
    told = (persona, "", "praise", "passive", "embedded", "11", 0, 40, "opening")
    return Episode(agent, "env", "", *told, tuple(turns))


def test_the_best_and_the_worst_dialogue_are_told_by_the_turns_that_moved_them() -> None:
    best, worst = find_archetypes(
        [
            episode("even", 0, 0),
            episode("good", 1, 5, -3, 0),
            episode("good-and-longer", 1, 1, 1, 0, 0),
            episode("bad", 1, -8),
            episode("failed", -40, outcome="failed"),
        ]
    )
    assert (best.which, best.key, best.final) == ("best", "a/good/0", 43)
    assert (worst.which, worst.key, worst.final) == ("worst", "a/bad/0", 33)
    assert [(one.turn, one.change, one.reasons) for one in best.moments] == [
        (2, 5, ("heavy", "light")),
        (3, -3, ("cold",)),
    ]
    assert (best.moments[0].after, best.moments[0].utterance) == ("answer 1", "said 2")
    assert [one.which for one in find_archetypes([episode("alone", 1)])] == ["best"]


def test_a_hostile_agent_stays_a_word_of_one_item() -> None:
    name = "](javascript:alert(1))\n# <img src=x>"
    item, *_ = render_archetypes_as_markdown(
        find_archetypes([episode("p", 1, agent=name)]), "report.html", "run"
    )
    assert "\n" not in item
    assert "](javascript" not in item.replace("\\](", "")
    assert "<img" not in item.replace("\\<", "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    list(run(BenchPlan(agents=("listener", "comfort"), seeds=1, persona_ids=PEOPLE), folder))
    line = {"dialogue": KEY, "scores": {"core_insight": 4, "creativity": 2}}
    (folder / "judgements.jsonl").write_text(f"{json.dumps(line)}\n", encoding="utf-8")
    assert CliRunner().invoke(app, ["opinions", str(folder)]).exit_code == 0
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
    assert [one["which"] for one in found["archetypes"]] == ["best", "worst"] * 2
    text = report(folder, "--markdown")
    assert "| listener | – | 4.0 \\[4.0, 4.0\\] | – | – | – | 2.0 \\[2.0, 2.0\\] | – |" in text
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert [one.split()[1] for one in titles] == [
        *("Final", "By", "Support", "Capabilities,", "Opinions", "Best")
    ]
    place = urlencode({"run": folder.name, "id": KEY})
    assert f"(report.html#/dialogue?{place})" in text


@pytest.mark.parametrize("text", ["[]", "{", '{"emotions": {}, "capabilities": {}}', "null"])
def test_kept_opinions_that_are_damaged_are_named(folder: Path, text: str) -> None:
    kept = (folder / "opinions.json").read_bytes()
    (folder / "opinions.json").write_text(text, encoding="utf-8")
    asked = ["report", str(folder), "--no-recompute", "--json"]
    done = CliRunner().invoke(app, asked)
    (folder / "opinions.json").write_bytes(kept)
    assert "holds no opinions" in str(done.exception)
