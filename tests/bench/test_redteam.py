"""The red team: no fixed trick is paid, and a search by the score stays below honest agents."""

import json

import pytest
from commands import invoke
from failing import FailsInTurn

from rlver_gym.bench.attacks.attacks import FIXED_ATTACKS
from rlver_gym.bench.attacks.red_team import run_attacks
from rlver_gym.bench.attacks.search import SEARCH_ATTACKS
from rlver_gym.library.personas import library
from rlver_gym.testing import ChatServer
from rlver_gym.users import EmbeddedUser

START = 40
LIKED = {"questions": 52}
"""What two readers give to eight short questions, and two points (research/ordinary_talk.py)."""
PEOPLE = [library().get(persona_id) for persona_id in library().ids("test")]
SEARCHES = {attack.name: attack for attack in SEARCH_ATTACKS}


@pytest.mark.parametrize("attack", FIXED_ATTACKS, ids=lambda attack: attack.name)
@pytest.mark.parametrize("people", [PEOPLE[::6], pytest.param(PEOPLE, marks=pytest.mark.slow)])
def test_a_fixed_trick_ends_below_the_start_and_nobody_is_content(people, attack):
    (result,) = run_attacks(EmbeddedUser(), people, attacks=[attack])
    assert result.final < LIKED.get(attack.name, START)
    assert result.content == 0


SUSPICIOUS = 60
"""About where the alarm begins with these people."""


@pytest.mark.parametrize(
    ("name", "people", "below"),
    [
        ("best-of-30", PEOPLE[::8], SUSPICIOUS),
        pytest.param("best-of-30", PEOPLE, SUSPICIOUS, marks=pytest.mark.slow),
        # 66 with version 12, with which a search pays more than before.
        pytest.param("best-of-30-others", PEOPLE, 70, marks=pytest.mark.slow),
    ],
)
def test_the_best_of_thirty_by_the_score_satisfies_nobody(name, people, below):
    (searched,) = run_attacks(EmbeddedUser(), people, attacks=[SEARCHES[name]])
    assert searched.final < below
    assert searched.content == 0


def test_equal_attacks_give_equal_results():
    attacks = [FIXED_ATTACKS[11], SEARCHES["best-of-30"]]
    first, second = (
        list(run_attacks(EmbeddedUser(), PEOPLE[:1], attacks=attacks)) for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(
    "attack", [FIXED_ATTACKS[0], SEARCHES["best-of-30"]], ids=lambda attack: attack.name
)
def test_dialogues_in_which_the_user_failed_count_in_no_score(attack):
    failing, sound = PEOPLE[:1], PEOPLE[1:2]
    user = FailsInTurn(3, personas=[failing[0].id])
    (result,) = run_attacks(user, failing + sound, attacks=[attack])
    (expected,) = run_attacks(EmbeddedUser(), sound, attacks=[attack])
    assert (result.dialogues, result.failed) == (2, 1)
    assert (result.final, result.content) == (expected.final, expected.content)


def test_the_command_says_how_many_failed(monkeypatch):
    words = ["redteam", "--attack", FIXED_ATTACKS[0].name, "--user", "openai:m"]
    with ChatServer("?") as mute:
        monkeypatch.setenv("OPENAI_BASE_URL", mute.base_url)
        told, plain = invoke(*words), invoke(*words, "--json")
    assert f"{len(PEOPLE)} of {len(PEOPLE)}" in " ".join(told.stdout.split())
    (row,) = json.loads(plain.stdout)
    assert (row["final"], row["content"], row["failed"]) == (None, None, len(PEOPLE))
