"""What the report says of runs that were edited or have several protocols, wherever it says it."""

import json
import shutil
from pathlib import Path

import pytest
from commands import invoke_well
from pages import alarms, read_page

from rlver_gym.bench.check import Finding, Problems
from rlver_gym.bench.compare import put_label, read_comparisons
from rlver_gym.bench.folder import EPISODES
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.studio.page import write_page
from rlver_gym.util.errors import RunError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    list(run(BenchPlan(agents=("comfort", "listener"), seeds=1, split="demo"), folder))
    return folder


def edited_copy(folder, to, lines):
    """A copy of a run, with a turn of each of these lines (from 1) given another emotion."""
    shutil.copytree(folder, to)
    records = (to / EPISODES).read_text(encoding="utf-8").splitlines()
    for line in lines:
        record = json.loads(records[line - 1])
        record["turns"][0]["emotion"] ^= 1
        records[line - 1] = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    (to / EPISODES).write_text("\n".join([*records, ""]), encoding="utf-8")
    return to


def test_lines_that_were_edited_are_named_on_the_terminal_the_page_and_in_json(folder, tmp_path):
    run_folder = edited_copy(folder, tmp_path / "<b>run", [12])
    says = "line 12 (1 of 16 lines): not as it was written"
    told = invoke_well("report", run_folder)
    assert f"{run_folder}: {says}" in told
    assert f"rlver-gym verify {run_folder} says what was changed." not in told
    said = invoke_well("report", run_folder, "--no-recompute")
    assert f"rlver-gym verify {run_folder} says what was changed." in said
    page = run_folder / "report.html"
    assert any(f"<b>run: {says}" in text for text in alarms(page))
    assert str(tmp_path) not in json.dumps(read_page(page))
    found = json.loads(invoke_well("report", run_folder, "--json"))
    assert found["verified"][str(run_folder)]["problems"]["edited"] == {"count": 1, "lines": [12]}
    several = edited_copy(folder, tmp_path / "several", range(3, 9))
    assert "lines 3, 4, 5, … (6 of 16 lines): not as it was written" in invoke_well(
        "report", folder, several, "--out", tmp_path / "both.html"
    )


def test_the_folder_where_one_stands_does_not_become_every_full_stop(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert describe_in(".", "demo").endswith(".")
    assert describe_in("runs/demo", "demo") == "demo is named."


def describe_in(folder, label):
    return put_label(f"{folder} is named.", folder, label)


def test_of_many_edited_lines_the_first_hundred_are_in_json():
    none = Problems(Path("run"), 2000, 2000, ())
    edits = none._replace(findings=tuple(Finding("edited", at) for at in range(1, 1001)))
    assert edits.to_dict() == {"edited": {"count": 1000, "lines": list(range(1, 101))}}
    assert "(1,000 of 2,000 lines)" in " ".join(edits.describe("run"))


def test_an_empty_run_says_so(tmp_path):
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    (tmp_path / "episodes.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="no episodes"):
        write_page([tmp_path])


def test_runs_of_another_protocol_get_a_table_of_their_own(folder, tmp_path):
    other, same = tmp_path / "other", tmp_path / "same"
    list(run(BenchPlan(agents=("comfort",), seeds=2, split="demo"), other))
    list(run(BenchPlan(agents=("comfort", "silent"), seeds=1, split="demo"), same))
    labels = [one.labels for one in read_comparisons([folder, other, same])]
    assert labels == [[folder.name, "same"], ["other"]]
    overview = read_page(write_page([folder, other, same]))["overview"]
    first, second = overview["tables"]
    assert "8 people x 2 seeds" in second["title"]
    assert "comfort (same)" in [score["agent"] for score in first["scores"]]
    assert "a rank across them would mean nothing" in invoke_well(
        "report", folder, other, "--no-recompute"
    )
    written = invoke_well("report", folder, other, same, "--no-recompute", "--markdown")
    assert "a rank across them would mean nothing" in written
    assert "between the runs" in written.lower()
    alike = read_page(write_page([folder, same], tmp_path / "both.html"))["overview"]
    assert len(alike["tables"]) == 1
    with pytest.raises(RunError, match="given twice"):
        write_page([folder, folder / "." / ".." / folder.name])


def test_a_comparison_is_written_into_the_first_run_and_runs_of_one_name_can_be_told_apart(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folders = [Path("one/run"), Path("two/run")]
    for each in folders:
        list(run(BenchPlan(agents=("comfort",), seeds=1, split="demo"), each))
    assert write_page(folders) == Path("one/run/compare.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    shown = read_page(Path("one/run/compare.html"))["dialogues"]
    assert {one["agent"] for one in shown} == {"comfort (one/run)", "comfort (two/run)"}
