"""Whom to train on: spread, groups without signal and regret of a run's dialogues."""

import json

import pytest
from commands import invoke_well

from rlver_gym import Appraisal, Turn
from rlver_gym.bench.by_persona import measure_training_signal
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.episode import Episode


def finals(*values, agent="a", persona="p", outcome=Outcome.OUT_OF_TURNS):
    """Episodes that end there, by one turn of that size."""
    return [
        Episode(
            *(agent, "E", "h", persona, "h", "praise", "passive", "u", "1", seed, 40, "o"),
            turns=(Turn("x", Appraisal(0, "", ()), end, 0.0, outcome, "y"),),
        )
        for seed, end in enumerate(values)
    ]


def test_groups_that_all_end_alike_are_counted_and_the_widest_spread_comes_first():
    found = measure_training_signal(
        [
            *finals(20, 20, 20, 20, 30),
            *finals(50, 60, agent="b"),
            *finals(*range(40), persona="q"),
            *finals(*[7] * 8, *[9] * 4, persona="r"),
            *finals(0, outcome=Outcome.FAILED),
        ]
    )
    assert [one.persona for one in found["a"]] == ["q", "p", "r"]
    q, p, r = found["a"]
    assert (p.dialogues, p.mean, p.spread, p.regret) == (5, 22, 4, 33)
    assert p.silent == {4: pytest.approx(1 / 5), 8: None}
    assert q.silent == {4: 0, 8: 0}
    assert r.silent == pytest.approx({4: 71 / 495, 8: 1 / 495})
    assert [one.regret for one in found["b"]] == [0]


def test_a_report_by_persona_tells_it_for_each_agent(tmp_path):
    people = ("theo-by-thirty", "bea-three-dates")
    list(run(BenchPlan(agents=("silent", "oracle"), seeds=4, persona_ids=people), tmp_path))

    def report(*options):
        return invoke_well("report", tmp_path, "--no-recompute", *options, width=80)

    told = json.loads(report("--by", "persona", "--json"))["personas"]
    met = {agent: {one["persona"] for one in own} for agent, own in told.items()}
    assert met == {"silent": set(people), "oracle": set(people)}
    assert all(one["regret"] > 0 and one["silent"]["8"] is None for one in told["silent"])
    for text in (report("--by", "persona"), report("--by", "persona", "--markdown")):
        for said in ("persona: silent", "persona: oracle", *people, "silent of 4", "--seeds 8"):
            assert said.lower() in text.lower()
    assert "personas" not in json.loads(report("--json"))
    assert people[0] not in report()
