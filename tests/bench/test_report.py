"""The report: whole, escaped, and without the network."""

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlver_gym.bench.check import Finding, Problems, problems_to_json
from rlver_gym.bench.compare import read_comparisons
from rlver_gym.bench.folder import EPISODES
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.report import build_viewer, page_html, write_report
from rlver_gym.bench.run import read_episodes, run
from rlver_gym.bench.score import score_agents
from rlver_gym.cli.root import app
from rlver_gym.environment.episode import Episode
from rlver_gym.io.errors import RunError
from rlver_gym.io.terminal import printable

HOSTILE = (
    "\x1b]0;owned\x07\u202e</script><script>alert('x')</script><img src=x"
    " onerror=alert(1)>&lt;\u2028\"'"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    list(run(BenchPlan(agents=("comfort", "listener"), seeds=1, split="demo"), folder))
    return folder


def embedded(page: str) -> list[dict[str, Any]]:
    """The dialogues of a page, its numbers turned back into the texts that they point to."""
    found = re.search(
        r'<script type="application/json" id="episodes">(.*?)</script>', page, re.DOTALL
    )
    assert found
    value = json.loads(found.group(1))
    texts = value["texts"]
    assert len(set(texts)) == len(texts)
    named = ("agent", "persona", "need", "disposition", "opening")
    return [
        one
        | {name: texts[one[name]] for name in named}
        | {
            "turns": [
                [
                    texts[said],
                    change,
                    emotion,
                    texts[thought],
                    [[points, texts[note]] for points, note in why],
                    texts[reply],
                ]
                for said, change, emotion, thought, why, reply in one["turns"]
            ]
        }
        for one in value["episodes"]
    ]


def test_the_page_holds_every_dialogue(folder: Path) -> None:
    page = write_report([folder]).read_text(encoding="utf-8")
    shown = embedded(page)
    episodes = read_episodes(folder)
    assert len(shown) == len(episodes) == 16
    assert {json.dumps(one["turns"]) for one in shown} == {
        json.dumps(
            [
                [
                    turn.utterance,
                    turn.appraisal.change,
                    turn.emotion,
                    turn.appraisal.thought,
                    [list(reason[1:]) for reason in turn.appraisal.reasons],
                    turn.reply,
                ]
                for turn in episode.turns
            ]
        )
        for episode in episodes
    }


def test_the_page_needs_no_network(folder: Path) -> None:
    page = write_report([folder]).read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href|action)\s*=|url\(|@import|https?://""", page)
    assert "default-src 'none'" in page


def test_hostile_text_stays_text(folder: Path) -> None:
    episodes = read_episodes(folder)
    first = episodes[0]
    turn = first.turns[0]._replace(utterance=HOSTILE, reply=HOSTILE)
    hostile: Episode = first._replace(
        agent=HOSTILE,
        persona=HOSTILE,
        need=HOSTILE,
        env=HOSTILE,
        opening=HOSTILE,
        turns=(turn, *first.turns[1:]),
    )
    (one,) = read_comparisons([folder])
    told = {
        "command": (HOSTILE,),
        "python": HOSTILE,
        "packages": {HOSTILE: HOSTILE},
        "fingerprint": HOSTILE,
        "created": HOSTILE,
    }
    manifest = one.manifests[0].model_copy(update=told)
    page = page_html([one._replace(manifests=(manifest,), episodes=[hostile, *episodes[1:]])])
    assert printable(page) == page
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<img" not in page
    shown = next(one for one in embedded(page) if one["agent"] == printable(HOSTILE))
    assert shown["opening"] == printable(HOSTILE)


def test_one_of_each_is_told_in_the_singular(tmp_path: Path) -> None:
    plan = BenchPlan(agents=("comfort",), persona_ids=("noor-missed-evening",), seeds=1)
    list(run(plan, tmp_path))
    page = write_report([tmp_path]).read_text(encoding="utf-8")
    assert "1 dialogue of 1 agent with 1 simulated person (" in page


def edited_copy(folder: Path, to: Path, lines: Iterable[int]) -> Path:
    """A copy of a run, with a turn of each of these lines (from 1) given another emotion."""
    shutil.copytree(folder, to)
    records = (to / EPISODES).read_text(encoding="utf-8").splitlines()
    for line in lines:
        record = json.loads(records[line - 1])
        record["turns"][0]["emotion"] ^= 1
        records[line - 1] = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    (to / EPISODES).write_text("\n".join([*records, ""]), encoding="utf-8")
    return to


def report_on(*words: object) -> str:
    result = CliRunner().invoke(app, ["report", *map(str, words)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_lines_that_were_edited_are_named_on_the_terminal_the_page_and_in_json(
    folder: Path, tmp_path: Path
) -> None:
    run_folder = edited_copy(folder, tmp_path / "<b>run", [12])
    says = "line 12 (1 of 16 lines): not as it was written"
    told = report_on(run_folder)
    assert f"{run_folder}: {says}" in told
    assert f"rlver-gym verify {run_folder} says what was changed." in told
    page = (run_folder / "report.html").read_text(encoding="utf-8")
    assert f"&lt;b&gt;run: {says}" in page
    assert str(tmp_path) not in page.partition("<footer>")[0]
    problems = json.loads(report_on(run_folder, "--json"))["problems"]
    assert problems[str(run_folder)]["edited"]["lines"] == [12]
    several = edited_copy(folder, tmp_path / "several", range(3, 9))
    assert "line 3, 4, 5, … (6 of 16 lines): not as it was written" in report_on(
        folder, several, "--out", tmp_path / "both.html"
    )


def test_a_run_without_edits_has_no_warning(folder: Path) -> None:
    assert "not as" not in report_on(folder)
    assert "problems" not in json.loads(report_on(folder, "--json"))
    assert 'class="alarm"' not in (folder / "report.html").read_text(encoding="utf-8")


def test_of_many_edited_lines_the_first_hundred_are_in_json() -> None:
    none = Problems(Path("run"), 2000, 2000, ())
    edits = none._replace(findings=tuple(Finding("edited", at) for at in range(1, 1001)))
    (found,) = problems_to_json([none, edits])["problems"].values()
    assert found == {"edited": {"count": 1000, "lines": list(range(1, 101)), "first": ""}}
    assert "(1,000 of 2,000 lines)" in " ".join(edits.describe("run"))
    assert problems_to_json([none]) == problems_to_json([]) == {}


def test_an_empty_run_says_so(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    (tmp_path / "episodes.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="no episodes"):
        write_report([tmp_path])


def test_runs_of_another_protocol_get_a_table_of_their_own(folder: Path, tmp_path: Path) -> None:
    other, same = tmp_path / "other", tmp_path / "same"
    list(run(BenchPlan(agents=("comfort",), seeds=2, split="demo"), other))
    list(run(BenchPlan(agents=("comfort", "silent"), seeds=1, split="demo"), same))
    assert [one.runs for one in read_comparisons([folder, other, same])] == [
        (folder.name, "same"),
        ("other",),
    ]
    page = write_report([folder, other, same]).read_text(encoding="utf-8")
    assert page.count('<table class="board">') == 2
    assert "a rank across them would mean nothing" in page
    assert "8 people x 2 seeds" in page
    assert "comfort (same)" in page
    alike = write_report([folder, same], tmp_path / "both.html").read_text(encoding="utf-8")
    assert alike.count('<table class="board">') == 1
    with pytest.raises(RunError, match="given twice"):
        write_report([folder, folder / "." / ".." / folder.name])


def test_a_comparison_is_written_into_the_first_run_and_runs_of_one_name_can_be_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [Path("one/run"), Path("two/run")]
    for each in folders:
        list(run(BenchPlan(agents=("comfort",), seeds=1, split="demo"), each))
    assert write_report(folders) == Path("one/run/compare.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    page = Path("one/run/compare.html").read_text(encoding="utf-8")
    assert {one["agent"] for one in embedded(page)} == {"comfort (one/run)", "comfort (two/run)"}


def test_of_more_dialogues_than_a_page_holds_the_lower_seeds_are_there(tmp_path: Path) -> None:
    list(run(BenchPlan(agents=("comfort", "listener"), seeds=3, split="demo"), tmp_path))
    episodes = read_episodes(tmp_path)
    ranked = score_agents(episodes)
    whole = build_viewer(episodes, ranked)
    assert whole.shown == len(episodes) == 48
    some = build_viewer(episodes, ranked, max_chars=len(whole.json) // 2)
    assert len(some.json) < len(whole.json) * 0.55
    assert 8 < some.shown < 40
    seeds = [one["seed"] for one in json.loads(some.json)["episodes"]]
    assert seeds.count(0) == 16
    assert build_viewer(episodes, ranked, max_chars=0).shown == 0
