"""Support strategies: labels, their measured precision, and figures worked out by hand."""

import json
import subprocess
import sys
from math import isnan
from pathlib import Path

import pytest
from commands import run_command
from pages import read_page

from rlver_gym import Appraisal, Turn
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.bench.strategies import (
    FEWEST,
    STRATEGIES,
    LabelledTurn,
    analyse_strategies,
    estimate_stickiness,
    label_turn,
)
from rlver_gym.environment.episode import Episode
from rlver_gym.studio.page import write_page

ROOT = Path(__file__).parents[2]
ASK, ADVISE = "What happened then?", "You should ring your sister and ask her to come."
HUM, SILENT = "Hm.", "Nobody opened their mouth."


@pytest.mark.parametrize(
    ("utterance", "lines", "used"),
    [
        (ASK, [], {"question"}),
        (ADVISE, [], {"suggestion"}),
        ("You did nothing wrong.", [], {"affirmation"}),
        ("Nobody opened their mouth for you, then.", [SILENT], {"restatement"}),
        ("", [SILENT], set()),
        (HUM, [], set()),
        ("你当时是什么感受呢?", ["我很难过。"], None),
    ],
)
def test_a_turn_is_labelled_by_what_its_sentences_do(utterance, lines, used):
    assert label_turn(utterance, lines) == used


@pytest.mark.slow
def test_precision_and_recall_are_those_of_the_labelled_turns():
    program = ROOT / "research" / "strategies" / "measure.py"
    command = [sys.executable, program]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = {words[0]: words for words in map(str.split, printed.splitlines())}
    measured = {name: (float(rows[name][4]), float(rows[name][-1])) for name in STRATEGIES}
    assert measured == {name: tuple(one) for name, one in STRATEGIES.items()}
    assert all(float(rows[name][4]) < 0.6 for name in rows if name not in (*STRATEGIES, "label"))


@pytest.mark.xfail(strict=True, reason="a suggestion is told at 0.59 by version 12's hearing")
def test_no_label_below_three_in_five_is_offered():
    assert min(label.precision for label in STRATEGIES.values()) >= 0.6


def labelled(*used, persona="a"):
    sets = [frozenset(words.split()) for words in used]
    pairs = zip(sets, [None, *sets], strict=False)
    return [LabelledTurn(persona, "praise", now, 0, before) for now, before in pairs]


def test_stickiness_is_the_mean_over_strategies_of_how_often_one_returns():
    ask, affirm = "question", "affirmation"
    turns = [
        *labelled(*[ask] * 7, ""),  # seven with a turn after them, six of them asked again
        *labelled(ask, "", persona="b"),
        *labelled(*[affirm, ""] * 8, persona="c"),  # eight, none of them again
        *labelled(*["suggestion"] * 8, persona="d"),  # seven with a turn after them: too few
    ]
    assert estimate_stickiness(turns).mean == pytest.approx((6 / 8 + 0) / 2)
    assert isnan(estimate_stickiness(labelled(ask, ask)).mean)


def episode(persona, said):
    turns = tuple(Turn(text, Appraisal(by, "", ()), 40, 0.0, None, HUM) for text, by in said)
    told = (persona, "", "praise", "passive", "embedded", "11", 0, 40, HUM)
    return Episode("agent", "env", "", *told, turns)


def test_the_difference_is_within_personas_and_needs_eight_of_them():
    """Everybody gains 3 by a question and loses 1 without; one who is asked alone counts not."""
    people = [episode(f"p{number}", [(ASK, 3), (HUM, -1)]) for number in range(FEWEST)]
    (found,) = analyse_strategies([*people, episode("asked", [(ASK, 9)])])
    use = found.uses["question"]
    assert (use.difference.mean, use.difference.low, use.difference.high) == (4, 4, 4)
    assert use.change_with.mean == pytest.approx((8 * 3 + 9) / 9)
    assert use.share.mean == pytest.approx((8 * 50 + 100) / 9)
    assert use.needs == {"praise": pytest.approx(100 * 9 / 17)}
    assert found.per_turn.mean == pytest.approx((8 * 0.5 + 1) / 9)
    (fewer,) = analyse_strategies(people[1:])
    assert isnan(fewer.uses["question"].difference.mean)


def test_a_run_is_told_on_the_terminal_in_json_and_on_the_page(tmp_path):
    list(run(BenchPlan(agents=("comfort", "listener"), seeds=1, split="demo"), tmp_path / "run"))
    found = json.loads(run_command("strategies", "run", "--json", cwd=tmp_path).stdout)
    assert found["labels"]["question"] == {"precision": 0.95, "recall": 0.96}
    comfort, listener = sorted(found["agents"], key=lambda one: one["agent"])
    assert listener["uses"]["question"]["share"]["mean"] > 90
    assert comfort["uses"]["question"]["change_with"]["mean"] is None
    table = run_command("strategies", "run", cwd=tmp_path).stdout
    assert f"{comfort['stickiness']['mean']:.2f} [" in table
    ((variety, change),) = read_page(write_page([tmp_path / "run"]))["strategies"]
    assert [row[0] for row in variety["rows"]] == ["agent", "comfort", "listener"]
    assert [row[0] for row in change["rows"] if row[1] == "question"] == ["listener"]
