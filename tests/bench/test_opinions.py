"""Second opinions beside the score, and the table that holds all of it."""

import csv
import json

import pytest
from commands import invoke, invoke_well
from json_files import write_lines

from rlver_gym.bench.opinions import gather_opinions
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.recompute import Sources
from rlver_gym.bench.rescore import read_dialogues
from rlver_gym.bench.run import run
from rlver_gym.core.user import Scene
from rlver_gym.library.personas import library
from rlver_gym.util.errors import RunError

AGENTS = ("oracle", "listener", "comfort")
PEOPLE = ("theo-by-thirty", "bea-three-dates")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    list(run(BenchPlan(agents=AGENTS, seeds=1, persona_ids=PEOPLE), folder))
    return folder


@pytest.fixture
def folder(made, tmp_path):
    for name in ("manifest.json", "episodes.jsonl"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    return tmp_path


def dialogues(folder):
    return read_dialogues(folder, Sources())[0]


def judgement(key, mark):
    return {"dialogue": key, "agent": key.partition("/")[0], "scores": {"core_insight": mark}}


def rated(key, turns, change, rater="a"):
    one = {"dialogue": key, "rater": rater, "change": change}
    return [one | {"turn": turn} for turn in range(1, turns + 1)]


def test_every_opinion_of_a_run_stands_in_one_table(folder):
    marks = [judgement(f"{one}/{PEOPLE[0]}/0", 4 - 1.5 * at) for at, one in enumerate(AGENTS)]
    write_lines(folder / "judgements.jsonl", marks)
    of_file = json.loads(invoke_well("rescore", folder, "--json"))
    assert (of_file["users"], list(of_file["opinions"]["emotions"])) == ([], ["score"])
    again = ("rescore", folder, "--user", "embedded")
    opinions = json.loads(invoke_well(*again, "--json"))["opinions"]
    assert opinions == json.loads((folder / "opinions.json").read_text(encoding="utf-8"))
    assert opinions["emotions"]["embedded"] == opinions["emotions"]["score"]
    means = {"oracle": 4, "listener": 2.5, "comfort": 1}
    assert opinions["capabilities"] == {"core_insight": means}
    assert opinions["taus"]["core_insight"] == 1
    assert opinions["only_score"] == []
    assert "tau with the score" in invoke_well(*again)
    (folder / "judgements.jsonl").unlink()
    assert "The score is alone" in invoke_well("rescore", folder)


def test_who_is_liked_by_the_score_alone_is_marked(folder):
    held = [one for one in dialogues(folder) if one.agent == "oracle"]
    keys = {f"oracle/{one.scene.persona.id}/0": len(one.dialogue.turns) for one in held}
    lines = [line for key, turns in keys.items() for line in rated(key, turns, -3)]
    write_lines(folder / "ratings.jsonl", lines)
    found = gather_opinions(folder, dialogues(folder), {})
    assert found.emotions["rated"]["oracle"] < 40
    assert found.only_score == ("oracle",)
    write_lines(folder / "ratings.jsonl", [{**line, "change": 3} for line in lines])
    assert gather_opinions(folder, dialogues(folder), {}).only_score == ()


def test_raters_of_one_dialogue_count_alike_and_half_a_dialogue_for_nothing(folder):
    one = next(one for one in dialogues(folder) if one.agent == "listener")
    key, turns = f"listener/{one.scene.persona.id}/0", len(one.dialogue.turns)
    lines = [*rated(key, turns, 1), *rated(key, turns, 2, "b"), *rated(key, turns - 1, 9, "c")]
    write_lines(folder / "ratings.jsonl", lines)
    assert gather_opinions(folder, dialogues(folder), {}).emotions["rated"] == {
        "listener": 40 + 1.5 * turns
    }


@pytest.mark.parametrize(
    ("name", "line", "problem"),
    [
        ("ratings.jsonl", '{"dialogue": "a"}', "line 1: must name dialogue, rater and turn"),
        ("ratings.jsonl", "{", "line 1: is no JSON"),
        ("judgements.jsonl", '{"scores": {"creativity": "5"}, "dialogue": "a"}', "be a number"),
        ("judgements.jsonl", '{"scores": 5}', "must name dialogue and scores"),
    ],
)
def test_a_file_of_opinions_that_is_damaged_is_named(folder, name, line, problem):
    (folder / name).write_text(line + "\n", encoding="utf-8")
    with pytest.raises(RunError, match=problem):
        gather_opinions(folder, dialogues(folder), {})


def test_marks_of_a_person_with_another_need_are_of_the_agent(folder):
    first = dialogues(folder)[0]
    person = library().get(f"{PEOPLE[0]}/listening")
    other = first._replace(scene=Scene(person, first.scene.card, first.scene.seed))
    write_lines(folder / "judgements.jsonl", [judgement(other.key, 4)])
    marks = gather_opinions(folder, [other], {}).capabilities
    assert {agent for by_agent in marks.values() for agent in by_agent} == {first.agent}


def test_the_table_has_a_row_a_turn_with_strategies_and_marks(folder):
    write_lines(folder / "judgements.jsonl", [judgement(f"oracle/{PEOPLE[0]}/0", 4)])
    invoke_well("export", folder, "--to", "table")
    with (folder / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(one.dialogue.turns) for one in dialogues(folder))
    judged = {row["core_insight"] for row in rows if row["agent"] == "oracle"}
    assert judged == {"4.0", ""}
    first = rows[0]
    assert (first["turn"], first["start"], first["uses_question"]) == ("1", "40", "False")
    assert int(first["emotion"]) == 40 + int(first["change"])


def test_the_table_as_parquet_reads_as_it_was(folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    out = folder / "t.parquet"
    invoke_well("export", folder, "--to", "table", "--out", out)
    table = parquet.read_table(out)
    assert table.num_rows == sum(len(one.dialogue.turns) for one in dialogues(folder))
    assert table["uses_question"].type == "bool"


def test_all_that_is_known_of_a_run_is_in_its_report(folder):
    scores = {"core_insight": 4, "creativity": 2}
    write_lines(
        folder / "judgements.jsonl", [{"dialogue": f"listener/{PEOPLE[0]}/0", "scores": scores}]
    )
    invoke_well("rescore", folder)
    report = ("report", folder, "--no-recompute")
    told = json.loads(invoke_well(*report, "--json"))
    assert told["capabilities"]["listener"]["core_insight"] == {"mean": 4, "low": 4, "high": 4}
    assert list(told["opinions"]) == [folder.name]
    assert set(told["strategies"]) == set(AGENTS)
    text = invoke_well(*report, "--markdown")
    assert "| listener | – | 4.0 \\[4.0, 4.0\\] | – | – | – | 2.0 \\[2.0, 2.0\\] | – |" in text
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert [one.split()[1] for one in titles] == [
        *("Final", "By", "Support", "Change", "Capabilities,", "Opinions", "What")
    ]
    for damaged in ("[]", "{", '{"emotions": {}, "capabilities": {}}', "null"):
        (folder / "opinions.json").write_text(damaged, encoding="utf-8")
        assert "holds no opinions" in str(invoke(*report, "--json").exception)
