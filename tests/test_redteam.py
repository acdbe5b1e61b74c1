"""The red team: no fixed trick is paid, and a search by the score stays below honest agents."""

import pytest

from rlver_gym.agents.adaptive import Adaptive
from rlver_gym.library import library
from rlver_gym.redteam import FIXED_ATTACKS, SEARCH_ATTACKS, Attack, redteam
from rlver_gym.users import EmbeddedUser

START = 40
PEOPLE = [library().get(persona_id) for persona_id in library().ids("test")]
SEARCHES = {attack.name: attack for attack in SEARCH_ATTACKS}


@pytest.mark.parametrize("attack", FIXED_ATTACKS, ids=lambda attack: attack.name)
def test_a_fixed_trick_ends_below_the_start_and_nobody_is_content(attack: Attack) -> None:
    (result,) = redteam(EmbeddedUser(), PEOPLE, attacks=[attack])
    assert result.final < START
    assert result.content == 0


@pytest.mark.parametrize("name", ["best-of-30", "best-of-30-others"])
def test_the_best_of_thirty_by_the_score_stays_below_the_adaptive_agent(name: str) -> None:
    adaptive = Attack("adaptive", "an honest agent", lambda persona, seed, messages: Adaptive(seed).reply(messages))
    honest, searched = redteam(EmbeddedUser(), PEOPLE, attacks=[adaptive, SEARCHES[name]])
    assert searched.final < honest.final - 5
    assert searched.content == 0


def test_equal_attacks_give_equal_results() -> None:
    attacks = [FIXED_ATTACKS[11], SEARCHES["best-of-30"]]
    assert list(redteam(EmbeddedUser(), PEOPLE[:3], attacks=attacks)) == list(
        redteam(EmbeddedUser(), PEOPLE[:3], attacks=attacks)
    )
