"""Advantages against numbers worked out by hand.

Two dialogues: the first has turns of 2 and 1 said tokens, the second one turn of 2.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlver_gym.policy.learning.algorithms import (
    compute_group_advantage_by_episode,
    compute_group_advantage_by_turn,
    explained_variance,
    find_groups_with_signal,
    gae,
    group_relative,
    penalise_format_errors,
    place_rewards,
    whiten,
)

DIALOGUE_S = np.array([0, 0, 0, 1, 1])
TURN_S = np.array([0, 0, 1, 0, 0])
REWARD_DN = np.array([[1.0, 2.0], [4.0, 0.0]])
VALUE_S = np.array([0.5, 1.0, 1.5, 3.0, 5.0])


def near(expected):
    return pytest.approx(expected, abs=1e-12)


def test_a_turns_reward_lies_at_its_last_said_token():
    assert place_rewards(REWARD_DN, DIALOGUE_S, TURN_S) == near([0, 1, 2, 0, 4])


def test_the_reward_of_a_silent_turn_goes_to_what_was_said_before_or_first():
    reward_DN = np.array([[1.0, 2.0, 4.0]])
    assert place_rewards(reward_DN, np.array([0, 0]), np.array([1, 1])) == near([1, 6])


@given(st.data())
def test_wherever_rewards_are_placed_a_dialogue_keeps_their_sum(data):
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    turn_S = np.concatenate(
        [np.sort(data.draw(arrays(np.int64, n, elements=st.integers(0, 3)))) for n in lengths]
    )
    dialogue_S = np.repeat(np.arange(len(lengths)), lengths)
    reward_DN = data.draw(
        arrays(np.float64, (len(lengths), 4), elements=st.integers(-10, 10).map(float))
    )
    reward_S = place_rewards(reward_DN, dialogue_S, turn_S)
    assert np.bincount(dialogue_S, reward_S) == near(reward_DN.sum(axis=1))


def test_gae_without_discount_is_the_reward_to_come_minus_the_value():
    # dialogue 0 earns 3, 3, 2 from its tokens on, dialogue 1 earns 4, 4
    estimate = gae(place_rewards(REWARD_DN, DIALOGUE_S, TURN_S), VALUE_S, DIALOGUE_S, TURN_S)
    assert estimate.advantage_S == near([2.5, 2.0, 0.5, 1.0, -1.0])
    assert estimate.return_S == near([3, 3, 2, 4, 4])


def test_gae_by_hand_with_a_discount_per_turn():
    # only the step from token 1 to token 2 crosses turns: 0.5; 0.75 + 0.25 * 0.5 = 0.875; 0 + 1 -
    # 0.5 + 0.875 = 1.375; then -1; 0 + 5 - 3 - 1 = 1
    estimate = gae(
        place_rewards(REWARD_DN, DIALOGUE_S, TURN_S), VALUE_S, DIALOGUE_S, TURN_S, 0.5, 0.5
    )
    assert estimate.advantage_S == near([1.375, 0.875, 0.5, 1.0, -1.0])


def test_gae_without_lambda_is_the_one_step_error():
    # from turn to turn: within a turn nothing is cut off, and 2.5 - 0.5 is left of dialogue 0
    estimate = gae(
        place_rewards(REWARD_DN, DIALOGUE_S, TURN_S), VALUE_S, DIALOGUE_S, TURN_S, 1.0, 0.0
    )
    assert estimate.advantage_S == near([2.0, 1.5, 0.5, 1.0, -1.0])


def test_gae_with_a_perfect_critic_finds_nothing_to_learn():
    value_S = np.array([3.0, 3.0, 2.0, 4.0, 4.0])
    reward_S = place_rewards(REWARD_DN, DIALOGUE_S, TURN_S)
    estimate = gae(reward_S, value_S, DIALOGUE_S, TURN_S, 1.0, 0.3)
    assert estimate.advantage_S == near([0, 0, 0, 0, 0])


def test_whitened_advantages_have_mean_0_and_spread_1():
    assert whiten(np.array([1.0, 3.0])) == near([-1, 1])
    assert whiten(np.array([2.0, 2.0])) == near([0, 0])
    assert whiten(np.array([])) == near([])


def test_explained_variance_by_hand():
    return_S = np.array([1.0, 3.0])
    assert explained_variance(return_S, return_S) == 1
    assert explained_variance(np.array([2.0, 2.0]), return_S) == 0
    # Errors -2 and 2: variance 4 against 1.
    assert explained_variance(np.array([3.0, 1.0]), return_S) == -3
    assert np.isnan(explained_variance(return_S, np.array([1.0, 1.0])))


def test_a_broken_format_costs_a_dialogue_its_gains_and_none_of_its_losses():
    reward_DN, format_error_DN = (
        np.array([[2.0, -1.0], [2.0, -1.0]]),
        np.array([[False, True], [False, False]]),
    )
    assert penalise_format_errors(reward_DN, format_error_DN) == near(np.array([[0, -1], [2, -1]]))
    assert penalise_format_errors(reward_DN, format_error_DN, 0.25) == near(
        np.array([[1.5, -1], [2, -1]])
    )


def test_returns_of_1_and_0_in_a_group_give_1_and_minus_1():
    assert group_relative(np.array([1.0, 0.0]), np.array([7, 7])) == near([1, -1])


def test_a_group_of_one_gives_0():
    for baseline in ("group", "others"):
        for scale in (True, False):
            assert group_relative(np.array([5.0]), np.array([0]), baseline, scale) == near([0])


def test_a_group_without_signal_gives_0_even_if_its_mean_is_rounded():
    value_D = np.full(3, 0.1)
    assert value_D.mean() != 0.1
    assert value_D.sum() / 3 != 0.1
    assert group_relative(value_D, np.zeros(3, dtype=int)) == near([0, 0, 0])
    assert find_groups_with_signal(
        np.array([0.1, 0.1, 1.0, 0.0]), np.array([4, 4, 2, 2])
    ).tolist() == [
        False,
        False,
        True,
        True,
    ]


def test_a_floor_keeps_small_differences_small():
    value_D, group_D = np.array([0.03] * 7 + [0.04]), np.zeros(8, dtype=int)
    assert group_relative(value_D, group_D)[-1] == pytest.approx(7**0.5)
    assert group_relative(value_D, group_D, min_std=0.01)[-1] == pytest.approx(0.875)
    wide_D = np.array([0.0, 0.5])
    assert group_relative(wide_D, group_D[:2], min_std=0.01) == near([-1, 1])


def test_groups_do_not_see_each_other():
    # group 0 holds 4 and 2 (mean 3, spread 1), group 1 holds 0, 3, 3 (mean 2, spread sqrt 2)
    value_D, group_D = np.array([4.0, 0.0, 3.0, 2.0, 3.0]), np.array([0, 1, 1, 0, 1])
    assert group_relative(value_D, group_D) == near([1, -2 / 2**0.5, 1 / 2**0.5, -1, 1 / 2**0.5])
    assert group_relative(value_D, group_D, scale=False) == near([1, -2, 1, -1, 1])


def test_against_the_others_by_hand():
    # 0 against the mean of 3 and 6; 3 against 3; 6 against 1.5
    advantage_D = group_relative(
        np.array([0.0, 3.0, 6.0]), np.zeros(3, dtype=int), "others", scale=False
    )
    assert advantage_D == near([-4.5, 0, 4.5])


REWARDS = np.array([[1.0, 2.0, 3.0], [3.0, 0.0, 0.0], [2.0, 4.0, 0.0]])
TURNS = np.array([3, 1, 2])
TOGETHER = np.zeros(3, dtype=int)


def test_an_episodes_advantage_is_that_of_each_turn_it_had():
    # returns 6, 3, 6: mean 5
    assert compute_group_advantage_by_episode(REWARDS, TURNS, TOGETHER, scale=False) == near(
        np.array([[1, 1, 1], [-2, 0, 0], [1, 1, 0]])
    )


def test_the_return_from_a_turn_on_is_compared_with_those_who_had_that_turn():
    # turn 0: 6, 3, 6 (mean 5); turn 1: 5, none, 4 (mean 4.5); turn 2: 3 alone
    assert compute_group_advantage_by_turn(REWARDS, TURNS, TOGETHER, scale=False) == near(
        np.array([[1, 0.5, 0], [-2, 0, 0], [1, -0.5, 0]])
    )


def test_the_return_from_a_turn_on_is_discounted_by_turn():
    # gamma 0.5; turn 0: 1 + 1 + 0.75 = 2.75, 3, 4 (mean 3.25); turn 1: 3.5, none, 4 (mean 3.75)
    expected = np.array([[-0.5, -0.25, 0], [-0.25, 0, 0], [0.75, 0.25, 0]])
    assert compute_group_advantage_by_turn(
        REWARDS, TURNS, TOGETHER, gamma=0.5, scale=False
    ) == near(expected)


def test_a_turns_own_reward_is_compared_with_those_who_had_that_turn():
    # turn 0: 1, 3, 2 (mean 2); turn 1: 2, none, 4 (mean 3); turn 2: 3 alone
    assert compute_group_advantage_by_turn(
        REWARDS, TURNS, TOGETHER, gamma=0.0, scale=False
    ) == near(np.array([[-1, -1, 0], [1, 0, 0], [0, 1, 0]]))
    # spreads: sqrt(2/3) at turn 0, 1 at turn 1
    spread = (2 / 3) ** 0.5
    assert compute_group_advantage_by_turn(REWARDS, TURNS, TOGETHER, gamma=0.0) == near(
        np.array([[-1 / spread, -1, 0], [1 / spread, 0, 0], [0, 1, 0]])
    )


def test_no_dialogues_give_no_advantages():
    none, nothing = np.zeros(0, dtype=int), np.zeros((0, 0))
    assert place_rewards(nothing, none, none).shape == (0,)
    assert gae(np.zeros(0), np.zeros(0), none, none).advantage_S.shape == (0,)
    for advantage in (compute_group_advantage_by_episode, compute_group_advantage_by_turn):
        assert advantage(nothing, none, none).shape == (0, 0)
