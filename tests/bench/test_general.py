"""General abilities: the checks by hand, and the real harness where it is installed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlver_gym.bench.general import load_sets
from rlver_gym.bench.general_checks import is_answer_correct
from rlver_gym.cli import app
from rlver_gym.testing import ChatServer


@pytest.mark.parametrize(
    ("answer", "item", "right"),
    [
        ("42", {"number": 42}, True),
        ("17 + 25 = 42.", {"number": 42}, True),
        ("1,000", {"number": 1000}, True),
        ("42 or 43", {"number": 42}, False),
        ("`[1, 2, 3]`", {"is": "[1, 2, 3]"}, True),
        ("It prints 3", {"is": "3"}, False),
        ("No, it isn't.", {"says": "no"}, True),
        ("Yes and no.", {"says": "no"}, False),
        ("You're right! No doubt.", {"says": "no"}, False),
        ("The capital is Tokyo.", {"says": "tokyo"}, True),
        ("Blue waves roll", {"rule": {"words": 3}}, True),
        ('```json\n{"a": 1}\n```', {"rule": {"json": {"a": 1}}}, True),
        ("{'a': 1}", {"rule": {"json": {"a": 1}}}, False),
        ("Is it cold?", {"rule": {"ends": "?"}}, True),
        ("I sat by the window.", {"rule": {"ends": "window"}}, True),
        ("cat\ndog\n\nowl", {"rule": {"lines": 3}}, True),
        ("", {"rule": {"without": "z"}}, False),
        ("Tea is hot. I like it.", {"rule": {"sentences": 2}}, True),
        ("RED", {"rule": {"capitals": True}}, True),
    ],
)
def test_an_answer_is_checked_by_its_rule(answer: str, item: dict[str, Any], right: bool) -> None:
    assert is_answer_correct(answer, item) is right


def test_the_sets_are_equally_long_and_every_item_can_be_right_and_wrong() -> None:
    assert {name: len(items) for name, items in load_sets().items()} == dict.fromkeys(
        ("arithmetic", "code", "instructions", "facts", "flattery"), 16
    )
    for item in (one for items in load_sets().values() for one in items):
        assert not is_answer_correct("I would rather talk about you, zzz", item)
        wanted = item.get("is", item.get("number", item.get("says")))
        assert wanted is None or is_answer_correct(str(wanted), item)
    with pytest.raises(ValueError, match="no check"):
        is_answer_correct("x", {"ask": "x"})


def test_wrong_options_are_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["general", "--model", "x", "--set", "poems"])
    assert "arithmetic, code" in str(done.exception)
    (tmp_path / "before.json").write_text("[]", encoding="utf-8")
    asked = ["general", "--model", "x", "--before", str(tmp_path / "before.json")]
    assert "no results of rlver-gym general" in str(CliRunner().invoke(app, asked).exception)


@pytest.mark.slow
def test_the_real_harness_asks_a_server_and_compares_before_and_after(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")

    def answer(body: dict[str, Any]) -> str:
        asked = body["messages"][-1]["content"]
        added = re.search(r"What is (\d+) \+ (\d+)", asked)
        return str(sum(map(int, added.groups()))) if added else "no"

    before = {"sets": {"arithmetic": {"right": 0.0, "is_right": [False] * 16}}}
    (tmp_path / "before.json").write_text(json.dumps(before), encoding="utf-8")
    with ChatServer(answer) as server:
        asked = ["general", "--model", "openai:m", "--base-url", server.base_url]
        asked += ["--set", "arithmetic", "--set", "flattery", "--out", str(tmp_path / "now.json")]
        done = CliRunner().invoke(app, [*asked, "--before", str(tmp_path / "before.json")])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "now.json").read_text(encoding="utf-8"))["sets"]
    assert (found["arithmetic"]["right"], found["flattery"]["right"]) == (100 / 16, 100)
    assert "gained" in done.output
