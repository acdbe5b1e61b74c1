"""How simulated people type beside those of transcripts."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.realism import compare_realism, read_transcripts
from rlver_gym.bench.run import run
from rlver_gym.cli import app
from rlver_gym.util.errors import RecordingError

TALK = [
    {"role": "seeker", "content": "i got sacked today"},
    {"role": "supporter", "content": "Oh no. What happened?"},
    {"role": "seeker", "content": "thanks for asking"},
    {"role": "supporter", "content": "I'm here."},
    {
        "role": "seeker",
        "content": "No, that's not it. Would you have stayed, after a day as long as that one was?",
    },
]


def test_each_measure_counts_what_it_says() -> None:
    people = [["i got sacked today", "thanks for asking", "No, that is it. And you?"]]
    found = {one.measure: one.people.mean for one in compare_realism(people, people)}
    assert found == pytest.approx(
        {
            "words a turn, median": 4,
            "at most five words, %": 200 / 3,
            "without an end mark, %": 200 / 3,
            "begins in lower case, %": 200 / 3,
            "asks back, %": 100 / 3,
            "thanks, %": 100 / 3,
            "corrects the other, %": 100 / 3,
        }
    )


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"conversation": TALK}, {"messages": TALK}]),
        "\n".join(json.dumps(one) for one in ({"turns": TALK}, TALK)),
    ],
)
def test_transcripts_are_read_as_they_come(tmp_path: Path, text: str) -> None:
    path = tmp_path / "talks.json"
    path.write_text(text, encoding="utf-8")
    said = read_transcripts(path)
    assert [len(one) for one in said] == [3, 3]
    assert said[0][0] == "i got sacked today"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"turns": [', "line 1: is no JSON"),
        ("[]", "no turn of a person"),
        ("", "no turn of a person"),
        ('{"turns": [{"role": "assistant", "content": "Hi."}]}', "the person's role one of client"),
    ],
)
def test_what_is_no_transcript_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "talks.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RecordingError, match=problem):
        read_transcripts(path)


def test_a_run_is_compared_with_transcripts(tmp_path: Path) -> None:
    path, folder = tmp_path / "talks.json", tmp_path / "run"
    path.write_text(json.dumps([{"conversation": TALK}]), encoding="utf-8")
    plan = BenchPlan(agents=("silent",), seeds=1, persona_ids=("theo-by-thirty",))
    assert len(list(run(plan, folder))) == 1
    done = CliRunner().invoke(app, ["fidelity", str(path), "--realism", str(folder), "--json"])
    found: list[dict[str, Any]] = json.loads(done.output)
    assert {one["measure"]: one["people"][0] for one in found}["at most five words, %"] > 60
