"""The alarm: replies that are near-copies of each other are marked with evidence."""

import io
import json

import pytest
from commands import run_command
from pages import read_page
from rich.console import Console

from rlver_gym import Appraisal, Turn
from rlver_gym.agents import agent_maker
from rlver_gym.bench.flagged import format_alerts
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run_case
from rlver_gym.environment.alarms import check_episodes, find_alerts
from rlver_gym.environment.copies import find_near_copies
from rlver_gym.environment.episode import Episode
from rlver_gym.library.personas import library

MINE = "mine.agents:Mine"


@pytest.fixture(scope="module")
def field():
    """Four agents with half of the test personas, once each."""
    agents = ("comfort", "listener", "adaptive", "oracle")
    plan = BenchPlan(agents=agents, seeds=1, persona_ids=library().ids("test")[1::2])
    return [run_case(case, plan, agent_maker(case.agent)) for case in plan.cases()]


def of(field, agent, name=None):
    return [episode._replace(agent=name or agent) for episode in field if episode.agent == agent]


def told(*replies, persona="ada", opening=None, agent=MINE):
    turns = tuple(Turn(reply, Appraisal(0, "", ()), 50, 0.0, None, "Hm.") for reply in replies)
    story = opening or f"I am {persona}."
    return Episode(
        agent, "E-v0", "h", persona, "p", "praise", "passive", "some", "1", 0, 40, story, turns
    )


def printed(watched):
    console = Console(file=io.StringIO(), width=400, color_system=None)
    for line in format_alerts(watched):
        console.print(line)
    return console.file.getvalue()


def test_who_says_the_same_to_everybody_is_marked_with_the_two_most_alike_replies(field):
    (found,) = find_alerts(of(field, "comfort", MINE))
    assert (found.agent, found.expected) == (MINE, False)
    assert found.evidence.to_others == found.evidence.share
    # a turn that only one dialogue reaches has nothing beside it
    assert found.evidence.copies >= found.evidence.replies - 1
    assert (found.evidence.dialogues, found.evidence.alike) == (12, 1)
    first, second = found.evidence.pair or ()
    assert first.text == second.text
    assert first.persona != second.persona
    shown = printed(check_episodes(of(field, "comfort", MINE)))
    assert f"{MINE} says the same to everybody: {found.evidence.to_others:.0f} %" in shown
    assert f"to {first.persona}, seed 0, turn {first.turn}: “{first.text}”" in shown


def test_the_baselines_stock_phrases_are_one_quiet_line(field):
    (found,) = find_alerts(field)
    assert (found.agent, found.expected) == ("comfort", True)
    assert printed(check_episodes(field)).splitlines() == [
        "oracle was told everything: the theoretical top, not a competitor.",
        "Same words to everybody, as these baselines are meant to: comfort.",
    ]


SAID = "You carry that with you all day long, and nobody ever asks how you are."
OTHERWISE = "You carry that around with you all week long, and nobody really asks how you feel."
SORRY = "I am so sorry that you have to go through all of this, truly I am sorry."
TIRED = "听起来你最近真的很累，我能感受到你的委屈。"


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (SAID, SAID.replace(".", "!"), True),
        (SAID, SAID.replace("day", "week"), True),
        (SAID, OTHERWISE, False),
        (SORRY, SORRY.replace("truly", "really"), True),
        (TIRED, TIRED.replace("委屈", "难过"), True),
        (TIRED, "你为她守了整整一夜，这份心意很难得。", False),
        ("Мне очень жаль, что так вышло", "Мне очень жаль, что так вышло!", True),
        ("Go on.", "go on", True),
        ("Go on.", "Tell me more.", False),
        ("❤❤❤", "❤❤❤", True),
        ("", "", False),
    ],
)
def test_near_copies_are_found_in_any_script(one, other, alike):
    copies = find_near_copies([told(one, persona="ada"), told(other, persona="ben")])
    assert copies.copies == (2 if alike else 0)
    assert (copies.pair is not None) == alike


def test_only_people_with_other_stories_are_somebody_else():
    words = "That was unfair of him, and it is not on you at all."
    assert find_near_copies([told(words), told(words)]).copies == 0
    ada, ben = (told(words, persona=name, opening="Same.") for name in ("ada", "ben"))
    assert find_near_copies([ada, ben]).copies == 0
    assert find_near_copies([told(words), told(words, persona="ben")]).to_others == 100


def test_who_repeats_one_good_reply_to_each_is_marked():
    good = "Dear {0}, you did all that {0} could do that night."
    stuck = [told(*[good.format(name)] * 9, persona=name) for name in ("ada", "ben")]
    copies = find_near_copies(stuck)
    assert (copies.to_others, copies.copies) == (0, 16)
    (alarm,) = find_alerts(stuck)
    assert "repeats itself: 89 %" in alarm.says


def test_hostile_text_stays_text_on_the_terminal():
    hostile = "<script>alert('x')</script><img src=x> \x1b[31m\u202e [bold]x[/bold]"
    agent = "<i>mine</i>"
    said = [told(*[hostile] * 8, persona=f"<b>{name}</b>", agent=agent) for name in ("ada", "ben")]
    shown = printed(check_episodes(said))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[bold]x[/bold]" in shown


def test_bench_and_report_print_alarms_and_put_them_into_json(tmp_path):
    (tmp_path / "same_words.py").write_text(
        "class Same:\n    def reply(self, messages):\n        return 'I am so sorry that you are"
        " going through this.'\n"
    )

    def rlver(*words):
        done = run_command(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    bench = "bench --agent same_words:Same --split demo --seeds 1 --out run".split()
    assert "suspicious  same_words:Same says the same to everybody" in rlver(*bench)
    for words in ((*bench, "--json"), ("report", "run", "--json")):
        (alarm,) = json.loads(rlver(*words))["alarms"]
        assert {said["seed"] for said in alarm["evidence"]["pair"]} == {0}
    (table,) = read_page(tmp_path / "run/report.html")["overview"]["tables"]
    ((says, *evidence),) = table["scores"][0]["flags"]
    assert "says the same to everybody" in says
    assert "I am so sorry" in evidence[0]
