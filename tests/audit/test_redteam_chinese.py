"""The red team in Chinese, on recorded dialogues: no fixed trick is paid, and speaking to the
person is.
"""

import json
import shutil
from pathlib import Path

import pytest
from paths import DATA
from typer.testing import CliRunner

from rlver_gym.audit.attacks import Attack
from rlver_gym.audit.recorded_attacks import (
    make_recorded_attacks,
    recorded_agents,
    redteam_recordings,
    select_recordings,
)
from rlver_gym.audit.search_attacks import SearchAttack
from rlver_gym.cli import app
from rlver_gym.data.recordings import Recording, read_recordings
from rlver_gym.users import EmbeddedUser

START = 40
FILE = DATA / "recordings_zh.jsonl"


def folder_with(tmp: Path) -> Path:
    shutil.copy(FILE, tmp / FILE.name)
    return tmp


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Recording]:
    return read_recordings(folder_with(tmp_path_factory.mktemp("recordings")))


def test_every_fixed_trick_ends_at_or_below_the_start_and_nobody_is_content(
    recordings: list[Recording],
) -> None:
    fixed = [attack for attack in make_recorded_attacks(recordings) if isinstance(attack, Attack)]
    results = list(redteam_recordings(EmbeddedUser(), recordings, attacks=fixed))
    assert len(results) == len(fixed) > 20
    assert {one.attack: one.final for one in results if one.final > START} == {}
    assert {one.attack for one in results if one.content > 0} == set()


def test_an_agent_that_speaks_to_the_person_ends_above_the_start_and_above_a_vague_one(
    recordings: list[Recording],
) -> None:
    final = {one.attack: one.final for one in recorded_agents(EmbeddedUser(), recordings)}
    assert list(final) == sorted(final, key=lambda agent: -final[agent])
    assert final["near"] > START
    assert final["near"] > final["vague"] + 20


def test_the_best_of_thirty_stock_sentences_by_the_score_stays_below_an_honest_agent(
    recordings: list[Recording],
) -> None:
    (search,) = (
        attack for attack in make_recorded_attacks(recordings) if attack.name == "best-of-30"
    )
    (searched,) = redteam_recordings(EmbeddedUser(), recordings, attacks=[search])
    honest = {one.attack: one.final for one in recorded_agents(EmbeddedUser(), recordings)}["near"]
    assert searched.searching
    assert searched.final < honest


def test_equal_attacks_give_equal_results(recordings: list[Recording]) -> None:
    chosen = [
        one
        for one in make_recorded_attacks(recordings)
        if one.name in ("stuffing", "stitched", "best-of-30-others")
    ]
    first, second = (
        list(redteam_recordings(EmbeddedUser(), recordings, attacks=chosen, people=2))
        for _ in range(2)
    )
    assert first == second
    assert [one.dialogues for one in first] == [2, 2, 2]


def test_evolution_stays_within_its_budget(recordings: list[Recording]) -> None:
    class Counting(EmbeddedUser):
        calls = 0

        def appraise(self, scene, emotion, dialogue):
            self.calls += 1
            return super().appraise(scene, emotion, dialogue)

    user = Counting()
    (search,) = (
        one
        for one in make_recorded_attacks(recordings)
        if isinstance(one, SearchAttack) and one.name == "evolution"
    )
    turns = 9
    list(redteam_recordings(user, recordings, attacks=[search], people=1))
    assert 0 < user.calls <= turns * (search.budget + 1)


def test_one_recording_a_persona_is_chosen_whatever_the_order_of_the_files(
    recordings: list[Recording],
) -> None:
    chosen = select_recordings(recordings, 3)
    assert len({one.persona.id for one in chosen}) == 3
    assert select_recordings(recordings[::-1], 3) == chosen


def test_the_command_prints_attacks_and_recorded_agents(tmp_path: Path) -> None:
    arguments = [
        "redteam",
        "--recordings",
        str(folder_with(tmp_path)),
        "--attack",
        "praise",
        "--json",
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert {row["attack"] for row in json.loads(result.stdout)} == {
        "praise",
        "near",
        "mixed",
        "vague",
    }


def test_an_unknown_attack_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["redteam", "--recordings", str(folder_with(tmp_path)), "--attack", "hypnosis"]
    )
    assert result.exit_code != 0
