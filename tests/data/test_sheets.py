"""Blind sheets of several policies, and what readers made of them."""

import json
import sys
from pathlib import Path

import pytest
from paths import ROOT

from rlver_gym.library.personas import library

sys.path.append(str(ROOT))  # research is not installed
from research.real_qwen import levels, sheets

PEOPLE = list(library().ids("test"))[:3]
SECRET = ("sft", "grpo", "single", "pessimistic")


def write_lines(path: Path, lines: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    talks, states = [], []
    for who in PEOPLE:
        for policy in ("sft", "grpo"):
            said = [f"{who} heard {number} from here" for number in range(2)]
            talk = {"policy": policy, "persona": who, "seed": 1, "users": ["a", "b", "c"]}
            talks.append({**talk, "replies": said, "rewards": [5.0, 5.0], "reader": [1.0, 1.0]})
        samples = [
            {"policy": "sft", "text": f"reply {k}", "embedded": -k, "reader": k, "pessimistic": k}
            for k in range(16)
        ]
        state = {"state": who, "persona": who, "users": ["a"], "replies": []}
        states.append({**state, "samples": samples})
    write_lines(tmp_path / "dialogues.jsonl", talks)
    write_lines(tmp_path / "samples.jsonl", states)
    sheets.main(tmp_path, tmp_path / "out", 160, 0.5)
    return tmp_path / "out"


def rate(out: Path, changes: dict[str, int]) -> None:
    """By policy in dialogues, by the number in the text at states."""
    lines = []
    for name, one in json.loads((out / "key.json").read_text()).items():
        is_talk = one["kind"] == "dialogue"
        change = changes[one["policy"]] if is_talk else int(one["text"].split()[-1]) // 2
        rating = dict.fromkeys(("understood", "about", "gives", "human", "pressure", "false"), 0)
        lines.append({"id": name, "thought": "I hear it.", **rating, "words": "", "change": change})
    write_lines(out / "ratings" / "r1.jsonl", lines)


def test_a_sheet_names_every_reply_of_the_key_once_and_no_policy(out: Path) -> None:
    told = "".join(path.read_text() for path in out.glob("*.md") if "second" not in path.name)
    key = json.loads((out / "key.json").read_text())
    assert len(key) == 3 * (
        2 * 2 + 5
    )  # draws 0 and 1, which is the best of 2, and the best of 4, 8 and 16
    assert all(told.count(name) == 1 for name in key)
    assert not any(word in told for word in SECRET)


def test_levels_gains_and_choices_are_what_readers_said(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rate(out, {"sft": -2, "grpo": 3})
    capsys.readouterr()
    levels.main(out)
    told = capsys.readouterr().out.splitlines()
    assert "sft: final +36.0 [+36.0, +36.0] of 3 people" in "\n".join(told)
    assert "  over sft: +10.0 [+10.0, +10.0]" in told
    assert "  embedded overpays by +4.0 [+4.0, +4.0]" in told
    assert "reader-16: over one draw +7.0 [+7.0, +7.0]" in told
    assert "embedded-16: over one draw +0.0 [+0.0, +0.0]" in told


def test_a_person_who_leaves_hears_no_more() -> None:
    assert levels.final_emotion([-10.0, -10.0, -10.0, -1.0, 10.0]) == 9.0


def test_lines_of_nobody_are_named_and_nothing_is_printed(out: Path) -> None:
    rate(out, {"sft": 0, "grpo": 0})
    path = out / "ratings" / "r1.jsonl"
    path.write_text(path.read_text().replace('"id": "x', '"id": "y', 1))
    with pytest.raises(SystemExit, match=r"r1\.jsonl:1: nobody said y"):
        levels.main(out)
