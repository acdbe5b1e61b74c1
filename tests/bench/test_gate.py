"""Whether what a suite asks for holds: three verdicts, what they can see, and second readings."""

import json
import re
from xml.etree import ElementTree

import pytest
from commands import run_command

from rlver_gym.bench.check import read_run
from rlver_gym.bench.folder import EPISODES
from rlver_gym.bench.gate import Evidence, Gate, Ruling, decide
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.bench.suite import Suite
from rlver_gym.environment.episode import Episode
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.util.interval import Interval

PEOPLE = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("gate") / "run"
    list(run(PLAN, place))
    return place


PLAN = BenchPlan(agents=("echo", "listener"), seeds=1, user_seeds=2, split="demo")


def end_at(episode, final):
    *others, last = episode.turns
    return episode._replace(turns=(*others, last._replace(emotion=round(final))))


def rule(folder, threshold, finals, marks=None, baseline=None):
    """On echo, whose dialogues with each person end so under each seed of the user, and those of
    the baseline there, or as they do now.
    """
    records = read_run(folder)
    echo = [one for one in records.episodes if one.agent == "echo"]
    people = sorted({one.persona for one in echo})
    ended = [end_at(one, finals[one.seed][people.index(one.persona)]) for one in echo]
    there = ended if isinstance(baseline, str) else [end_at(one, baseline or 0) for one in echo]
    earlier = None if baseline is None else (there, [])
    suite = Suite.model_validate({"agents": ["echo"], "thresholds": [threshold]})
    of = {"echo": {"core_insight": marks}} if marks else {}
    plan = PLAN.model_copy(update={"agents": ("echo",)})
    judged = {"echo": len(people)}
    evidence = Evidence(plan, records, (ended, []), earlier, marks=of, num_judged=judged)
    return decide(suite, evidence).rulings[1]


def gather(plan, folder):
    records = read_run(folder)
    return Evidence(plan, records, (records.episodes, []))


EVEN = [[50] * PEOPLE, [50] * PEOPLE]
WIDE = [[40, 60] * 4, [40, 60] * 4]
NOISY = [[45] * PEOPLE, [55] * PEOPLE]
"""Means of 45 and 55: a floor of 1.96 * sqrt(2) * 7.07 = 19.6 for two replicates, so 13.9 for two
runs of both, and 9.8 for one of them beside a bound."""


@pytest.mark.parametrize(
    ("measure", "bound", "finals", "decision"),
    [
        ("mean", 50, EVEN, "pass"),
        ("mean", 51, EVEN, "fail"),
        ("mean", 42, WIDE, "pass"),
        ("mean", 48, WIDE, "undecided"),
        ("mean", 52, WIDE, "undecided"),
        ("mean", 58, WIDE, "fail"),
        ("lower", 42, WIDE, "pass"),
        ("lower", 48, WIDE, "fail"),
        ("mean", 40, NOISY, "pass"),
        ("mean", 41, NOISY, "undecided"),
        ("mean", 59, NOISY, "undecided"),
        ("mean", 60, NOISY, "fail"),
        ("lower", 41, NOISY, "undecided"),
        ("difference", -14, NOISY, "pass"),
        ("difference", -13, NOISY, "undecided"),
        ("difference", 14, NOISY, "fail"),
    ],
)
def test_a_threshold_is_undecided_within_the_interval_and_the_noise(
    folder, measure, bound, finals, decision
):
    threshold = {"measure": measure, "at_least": bound}
    assert rule(folder, threshold, finals, baseline=50).decision == decision


@pytest.mark.parametrize(
    ("measure", "bound", "finals", "loss"),
    [
        ("mean", 50, EVEN, 0.0),
        ("mean", 45, EVEN, 5.0),
        ("mean", 50, NOISY, 9.8 * (1 + 0.8416 / 1.96)),
        ("mean", 45, NOISY, 5 + 9.8 * (1 + 0.8416 / 1.96)),
        ("lower", 45, NOISY, 5 + 9.8 * (1 + 0.8416 / 1.96)),
        ("difference", 0, NOISY, 13.86 * (1 + 0.8416 / 1.96)),
        ("difference", -1, EVEN, 1.0),
        ("mean", 70, NOISY, 9.8 * (1 + 0.8416 / 1.96)),
    ],
)
def test_the_smallest_visible_loss_by_hand(folder, measure, bound, finals, loss):
    found = rule(folder, {"measure": measure, "at_least": bound}, finals, baseline=50)
    assert found.visible_loss == pytest.approx(loss, abs=0.01)


def test_who_is_compared_with_themselves_is_told_what_emotions_of_people_can_show(folder):
    same = rule(folder, {"measure": "difference", "at_least": -1}, WIDE, baseline="itself")
    assert (same.value.low, same.value.high) == (0, 0)
    assert same.visible_loss is not None
    assert 1 + 6 < same.visible_loss < 1 + 12


@pytest.mark.parametrize(
    ("bound", "marks", "decision"),
    [
        (2.9, Interval(3.2, 3.0, 3.4), "pass"),
        (3.1, Interval(3.2, 3.0, 3.4), "undecided"),
        (3.5, Interval(3.2, 3.0, 3.4), "fail"),
        (1.0, None, "fail"),
    ],
)
def test_a_judge_s_marks_are_bound_too(folder, bound, marks, decision):
    threshold = {"measure": "core_insight", "at_least": bound}
    assert rule(folder, threshold, EVEN, marks).decision == decision


def test_few_people_decide_nothing_and_counts_are_exact(tmp_path):
    ids = ("theo-by-thirty", "bea-three-dates")
    plan = BenchPlan(agents=("echo",), seeds=1, persona_ids=ids)
    list(run(plan, tmp_path))
    asked = [{"measure": "mean", "at_least": 90}, {"measure": "failed", "at_most": 0}]
    suite = Suite.model_validate({"agents": ["echo"], "thresholds": asked})
    mean, failed = decide(suite, gather(plan, tmp_path)).rulings[1:]
    assert (mean.decision, mean.why) == ("undecided", "fewer than 5 people")
    assert failed.decision == "pass"


def test_a_difference_over_the_few_people_whom_both_finished_decides_nothing(folder):
    records = read_run(folder)
    echo = [end_at(one, 20) for one in records.episodes if one.agent == "echo"]
    threshold = {"measure": "difference", "at_least": 5}
    suite = Suite.model_validate({"agents": ["echo"], "thresholds": [threshold]})
    plan = PLAN.model_copy(update={"agents": ("echo",)})
    baseline = [end_at(one, 10) for one in echo if one.persona == echo[0].persona]
    evidence = Evidence(plan, records, (echo, []), (baseline, []))
    found = decide(suite, evidence).rulings[1]
    assert (found.decision, found.why) == ("undecided", "fewer than 5 people")


@pytest.mark.parametrize("fault", ["missing", "doubled", "edited", "unplanned"])
def test_a_record_that_is_not_the_run_s_fails_the_gate(folder, tmp_path, fault):
    for file in folder.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    lines = (tmp_path / EPISODES).read_text(encoding="utf-8").splitlines(keepends=True)
    changed = {
        "missing": lines[1:],
        "doubled": [*lines, lines[0]],
        "edited": [lines[0].replace('"seed":0', '"seed": 0'), *lines[1:]],
        "unplanned": [*lines, Episode.from_json(lines[0])._replace(seed=99).to_json() + "\n"],
    }[fault]
    assert changed != lines
    (tmp_path / EPISODES).write_text("".join(changed), encoding="utf-8")
    suite = Suite.model_validate({"agents": ["echo"]})
    (found,) = decide(suite, gather(PLAN, tmp_path)).rulings
    assert (found.decision, found.why) == ("fail", fault)


def test_an_agent_is_compared_with_others_and_not_with_itself(tmp_path):
    list(run(PLAN, tmp_path))
    asked = [{"measure": "difference", "to": "echo", "at_least": 0}]
    suite = Suite.model_validate({"agents": PLAN.agents, "thresholds": asked})
    assert [one.agent for one in decide(suite, gather(PLAN, tmp_path)).rulings[1:]] == ["listener"]


def test_hostile_words_stay_text_in_every_form():
    name = 'a|<b>&"\u202e\x1b[31m\ufffe]]>\n**x**'
    rulings = [Ruling(name, "mean at least 3", Interval(1, 1, 1), "fail", 1.0, name)] * 7
    gate = Gate(tuple(rulings))
    root = ElementTree.fromstring(gate.to_junit(name))
    assert (root.attrib["tests"], root.attrib["failures"]) == ("7", "7")
    assert all(one.attrib["message"] == one.text for one in root.iter("failure"))
    text, xml = gate.to_markdown(name, name), gate.to_junit(name)
    assert not re.search("[\x00-\x09\x1b\u202e]", xml + text + gate.rulings[0].describe())
    assert "<b>" not in text


@pytest.mark.parametrize(
    ("rulings", "note", "rows", "more"),
    [(5, "note", 6, 0), (6, "", 6, 0), (6, "note", 6, 2), (7, "", 6, 2), (7, "note", 6, 3)],
)
def test_a_pull_request_gets_ten_lines_and_no_row_stands_for_a_single_one(
    rulings, note, rows, more
):
    passed = Ruling("a", "mean at least 3", Interval(5, 5, 5), "pass", 1.0)
    failed = passed._replace(agent="b", decision="fail")
    gate = Gate((*[passed] * (rulings - 1), failed))
    head, *_, first = (text := gate.to_markdown("suite.yaml, runs/a", note)).splitlines()[:5]
    counts = f"(1 fail, 0 undecided, {rulings - 1} pass)"
    assert head == f"**rlver-gym: fail** {counts}: suite.yaml, runs/a"
    assert first.startswith("| fail | b: ")
    assert len(text.splitlines()) == 4 + rows
    assert (f"and {more} more, in gate.xml" in text) == bool(more)


@pytest.mark.parametrize(
    ("ruling", "line"),
    [
        (
            Ruling("a", "lower at least 10", Interval(12, 12, 12), "pass", 2.0),
            "a: lower at least 10: 12.0; detects a loss of 2.0 or more (in 4 of 5 runs)",
        ),
        (
            Ruling("a", "mean at least 10", Interval(7, 6, 8), "fail", 1.4),
            "a: mean at least 10: 7.0 [6.0, 8.0]; detects a loss of 1.4 or more below the bound (in"
            " 4 of 5 runs)",
        ),
        (
            Ruling("a", "lower at least 10", Interval(7, 7, 7), "fail", 0.0),
            "a: lower at least 10: 7.0",
        ),
        (
            Ruling("", "8 dialogues complete", Interval(0, 0, 0), "pass"),
            "records: 8 dialogues complete: 0 faults",
        ),
        (
            Ruling("a", "failed dialogues at most 1", Interval(2, 2, 2), "fail", why="x"),
            "a: failed dialogues at most 1: 2 (x)",
        ),
    ],
)
def test_a_ruling_says_in_a_line_what_it_is_of(ruling, line):
    assert ruling.describe() == line


class Reader(EmbeddedAnswers):
    """Reads dialogues whole and dislikes whoever was told the need; some it cannot read."""

    def __init__(self, unreadable="nobody"):
        super().__init__(card="SAGE-Sentient-v0")
        self.unreadable = unreadable

    def _answer(self, persona, state):
        assert state["step"] == "whole"
        lines = [line["text"] for line in state["conversation"]]
        change = {True: -3, False: 4}[self.unreadable == "all" or len(lines) > 11]
        felt = self._judge(persona, tuple(lines[:2])) | {"change": change}
        numbers = {str(at // 2 + 1): felt for at in range(1, len(lines), 2)}
        return {} if persona.id == self.unreadable else numbers


SUITE = """
agents: [oracle, comfort]
split: demo
seeds: 1
reference: openai:reader
thresholds:
- {measure: mean, at_least: 45, by_reference: true}
- {measure: mean, at_least: 0}
"""


def bench(place, server, text, *words):
    (place / "suite.yaml").write_text(text, encoding="utf-8")
    env = {"OPENAI_BASE_URL": server.base_url, "COLUMNS": "250"}
    return run_command("bench", "suite.yaml", *words, cwd=place, env=env)


def test_a_reference_reads_each_dialogue_once_ranks_and_marks_whom_the_user_alone_likes(tmp_path):
    with ChatServer(Reader()) as server:
        done = bench(tmp_path, server, SUITE)
        assert len(server.requests) == 16
        again = bench(tmp_path, server, SUITE, "--json")
        assert len(server.requests) == 16
    assert done.returncode == 5
    assert "openai:reader reads each dialogue once: at most 16 requests" in done.stderr
    heading, first, second = done.stdout.splitlines()[1:4]
    assert "by openai:reader [95 %]" in heading
    assert (first.split()[0], second.split()[0]) == ("comfort", "oracle")
    assert "] *" in second
    assert "] *" not in first
    assert "* Ends above the start by the user's own score, and by nobody else's: oracle." in (
        done.stdout
    )
    assert "Ranked by openai:reader" in done.stdout
    told = json.loads(again.stdout)
    assert [one["agent"] for one in told["scores"]] == ["comfort", "oracle"]
    rulings = {(one["agent"], one["demand"]): one["decision"] for one in told["gate"]["thresholds"]}
    assert rulings["oracle", "mean by the reference at least 45"] == "fail"
    assert rulings["oracle", "mean at least 0"] == "pass"
    emotions = told["opinions"]["emotions"]
    assert told["scores"][1]["read"][0] == pytest.approx(emotions["openai:reader"]["oracle"])


def test_a_dialogue_that_the_reference_did_not_read_fails_the_gate(tmp_path):
    suite = SUITE.replace("at_least: 45", "at_least: 0")
    with ChatServer(Reader(unreadable="gus-the-flatmate")) as server:
        done = bench(tmp_path, server, suite)
    assert done.returncode == 5
    assert re.search(r"fail +records: 16 dialogues complete: 2 faults \(not read\)", done.stdout)


def test_what_a_reference_did_not_read_counts_with_0_and_is_told(tmp_path):
    words = "bench --agent oracle --agent comfort --split demo --seeds 1 --reference openai:reader"
    with ChatServer(Reader(unreadable="gus-the-flatmate")) as server:
        env = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k", "COLUMNS": "250"}
        done = run_command(*words.split(), "--out", "run", cwd=tmp_path, env=env)
        plain = run_command(*words.split(), "--out", "run", "--json", cwd=tmp_path, env=env)
    assert (done.returncode, plain.returncode) == (4, 4)
    assert "openai:reader: 2 readings failed, which count with 0 at worst. The same" in done.stdout
    told = json.loads(plain.stdout)
    assert told["unread"] == {"openai:reader": 2}
    read = {one["agent"]: one["read"][0] for one in told["scores"]}
    emotions = told["opinions"]["emotions"]["openai:reader"]
    assert read["oracle"] == pytest.approx(emotions["oracle"] * 7 / 8)
    with ChatServer(Reader()) as server:
        env["OPENAI_BASE_URL"] = server.base_url
        done = run_command(*words.split(), "--out", "run", cwd=tmp_path, env=env)
        assert len(server.requests) == 2
    assert done.returncode == 0


def test_readings_stay_within_the_budget_and_go_on_from_what_was_read(tmp_path):
    with ChatServer(Reader()) as server:
        stopped = bench(tmp_path, server, SUITE, "--budget", "calls=16", "--out", "run")
        assert stopped.returncode == 5
        (tmp_path / "run" / "rescore_cache.sqlite").unlink()
        stopped = bench(tmp_path, server, SUITE, "--budget", "calls=9", "--out", "run")
        assert stopped.returncode == 2
        assert "the same command goes on" in stopped.stderr
        assert len(server.requests) == 25
        assert bench(tmp_path, server, SUITE, "--out", "run").returncode == 5
        assert len(server.requests) == 32


def test_a_reference_that_does_not_answer_stops_the_run_as_an_outage(tmp_path):
    with ChatServer(Reader()) as server:
        pass
    stopped = bench(tmp_path, server, SUITE)
    assert stopped.returncode == 3
    assert "the same command goes on" in stopped.stderr


def test_a_score_that_stands_alone_says_what_it_cannot_tell(tmp_path):
    words = "bench --agent echo --split demo --seeds 1".split()
    alone = run_command(*words, cwd=tmp_path, env={"COLUMNS": "250"}).stdout
    assert "cannot tell fluent replies from fitting ones" in alone
    assert "beside it: --reference openai:MODEL (8 requests)" in alone
    (tmp_path / "suite.yaml").write_text("agents: [echo]\nsplit: demo\nseeds: 1\n")
    words = ["bench", "suite.yaml"]
    suite = run_command(*words, cwd=tmp_path, env={"COLUMNS": "250"}).stdout
    assert "beside it: in the suite, reference: openai:MODEL (8 requests)" in suite
    words = "bench --agent echo --split demo --seeds 1".split()
    read = run_command(*words, "--reference", "embedded", cwd=tmp_path, env={"COLUMNS": "250"})
    assert "cannot tell fluent" not in read.stdout
    assert "by embedded [95 %]" in read.stdout


def test_a_difference_by_the_reference_has_it_read_the_baseline_too(tmp_path):
    words = "bench --agent oracle --agent comfort --split demo --seeds 1 --out base"
    run_command(*words.split(), cwd=tmp_path)
    text = SUITE + "- {measure: difference, at_least: -1, by_reference: true}\n"
    with ChatServer(Reader()) as server:
        done = bench(tmp_path, server, f"{text}baseline: base\n")
        assert len(server.requests) == 16  # the same dialogues: answers are kept
    assert "oracle: difference to the baseline by the reference at least -1: +0.0" in done.stdout
    assert "spent    16 calls" in done.stdout
    assert not (tmp_path / "base" / "rescore_cache.sqlite").exists()


def test_a_judge_of_the_suite_gives_the_marks_that_are_bound(tmp_path):
    def judge(body):
        names = body["response_format"]["json_schema"]["schema"]["required"]
        return json.dumps({one: 4 if at % 2 else [] for at, one in enumerate(names)})

    text = SUITE.replace("reference: openai:reader", "judge: openai:j").partition("- {")[0]
    text += "- {measure: core_insight, at_least: 4}\n- {measure: empathic_depth, at_least: 4.5}\n"
    with ChatServer(judge) as server:
        done = bench(tmp_path, server, text)
        assert len(server.requests) == 16
    assert done.returncode == 5
    assert "oracle: core insight at least 4: 4.0 [4.0, 4.0]" in done.stdout
    decisions = [line.split()[0] for line in done.stdout.splitlines() if " at least " in line]
    assert decisions == ["pass", "pass", "fail", "fail"]
