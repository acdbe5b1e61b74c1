"""Which people teach: spread, groups without signal and regret of a run's dialogues."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlver_gym.bench.folder import read_episodes
from rlver_gym.bench.openness import measure_openness
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.profile import profile_training_signal
from rlver_gym.bench.run import run
from rlver_gym.cli import app
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Appraisal, Turn
from rlver_gym.core.emotion import Outcome
from rlver_gym.core.library import library
from rlver_gym.environment.episode import Episode
from rlver_gym.util.errors import RunError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    people = ("theo-by-thirty", "bea-three-dates")
    list(run(BenchPlan(agents=("silent", "oracle"), seeds=4, persona_ids=people), path))
    return path


def finals(*values: int, agent: str = "a", persona: str = "p") -> list[Episode]:
    """Episodes that end there, by one turn of that size."""
    return [
        Episode(
            *(agent, "E", "h", persona, "h", "praise", "passive", "u", "1", seed, 40, "o"),
            turns=(Turn("x", Appraisal(0, "", ()), end, 0.0, Outcome.OUT_OF_TURNS, "y"),),
        )
        for seed, end in enumerate(values)
    ]


def test_groups_without_signal_are_counted_over_all_groups() -> None:
    (found,) = profile_training_signal(
        [*finals(20, 20, 20, 20, 30), *finals(50, 60, agent="b")], "a"
    )
    assert found.silent == {4: pytest.approx(1 / 5), 8: None}
    assert (found.mean, found.spread) == (22, 4)
    assert (found.regret, found.highest) == (33, 60)


def test_people_with_the_widest_spread_come_first_and_groups_are_drawn_always_alike() -> None:
    many = [*finals(*range(40)), *finals(20, 90, persona="q")]
    found = profile_training_signal(many, "a")
    assert [one.persona for one in found] == ["q", "p"]
    assert found[1].silent == {4: 0, 8: 0}
    assert found == profile_training_signal(many, "a")


def asked(folder: Path, *words: str) -> Any:
    return CliRunner().invoke(app, ["profile", str(folder), "--agent", *words])


def test_the_command_says_what_a_learner_would_see_and_how_open_people_are(folder: Path) -> None:
    said = asked(folder, "silent", "--env", "RLVER-Challenging-v0").output
    for part in (
        "silent in",
        "run with --seeds 8 or more",
        "% in RLVER-Challenging-v0, expression",
    ):
        assert part in said
    found = json.loads(asked(folder, "silent", "--json").output)
    assert {one["persona"] for one in found["people"]} == {"theo-by-thirty", "bea-three-dates"}
    assert all(one["regret"] > 0 for one in found["people"])


def test_an_agent_that_the_run_does_not_have_is_named(folder: Path) -> None:
    done = asked(folder, "adaptive")
    assert isinstance(done.exception, RunError)
    assert "has no agent 'adaptive'. It has oracle, silent" in str(done.exception)


def test_challenging_people_take_in_and_show_less(tmp_path: Path) -> None:
    plan = BenchPlan(agents=("listener", "strategy:share"), seeds=2, split="demo")
    list(run(plan, tmp_path / "moderate"))
    list(run(plan.model_copy(update={"env": "RLVER-Challenging-v0"}), tmp_path / "challenging"))
    moderate, challenging = (read_episodes(tmp_path / name) for name in ("moderate", "challenging"))
    usual, card = measure_openness(moderate, library()), env_card("RLVER-Challenging-v0")
    same_words = measure_openness(moderate, library(), card)
    assert 0 < same_words.acceptance < usual.acceptance < 1
    assert 0 < measure_openness(challenging, library()).expression < usual.expression < 1
