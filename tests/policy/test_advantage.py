"""Advantages against numbers worked out by hand.

Two dialogues: the first has replies of 2 and 1 said tokens, the second one reply of 2.
"""

import numpy as np
import pytest

from rlver_gym.policy.learning.algorithms import (
    compute_group_advantage_by_episode,
    compute_group_advantage_by_turn,
    explained_variance,
    find_pairs,
    find_winners,
    gae,
    group_relative,
    penalise_format_errors,
    place_rewards,
    whiten,
)

DIALOGUE_S = np.array([0, 0, 0, 1, 1])
REPLY_S = np.array([0, 0, 1, 2, 2])
REWARD_R = np.array([1.0, 2.0, 4.0])
REWARD_S = np.array([0.0, 1.0, 2.0, 0.0, 4.0])
VALUE_S = np.array([0.5, 1.0, 1.5, 3.0, 5.0])


def near(expected):
    return pytest.approx(expected, abs=1e-12)


def test_a_replys_reward_lies_at_its_last_token():
    assert place_rewards(REWARD_R, REPLY_S) == near(REWARD_S)


@pytest.mark.parametrize(
    ("episode_S", "how", "advantage_S", "return_S"),
    [
        # without discount: the reward to come, 3, 3, 2 and 4, 4, less the value
        (DIALOGUE_S, (), [2.5, 2, 0.5, 1, -1], [3, 3, 2, 4, 4]),
        # only the step from token 1 to token 2 crosses turns: 0.5; 0.75 + 0.25 * 0.5 = 0.875;
        # 0 + 1 - 0.5 + 0.875 = 1.375; then -1; 0 + 5 - 3 - 1 = 1
        (DIALOGUE_S, (0.5, 0.5), [1.375, 0.875, 0.5, 1, -1], None),
        # lambda 0 cuts between turns alone: 1.5 = 1 + 1.5 - 1, and 2 = 1.5 + 1 - 0.5
        (DIALOGUE_S, (1.0, 0.0), [2, 1.5, 0.5, 1, -1], None),
        # replies compared: r - V(state), 1 - 0.5, 1 - 1, 2 - 1.5, 4 - 3, 4 - 5; gamma is no matter
        (REPLY_S, (), [0.5, 0, 0.5, 1, -1], [1, 1, 2, 4, 4]),
        (REPLY_S, (0.5, 0.5), [0.5, 0, 0.5, 1, -1], [1, 1, 2, 4, 4]),
    ],
)
def test_gae_by_hand(episode_S, how, advantage_S, return_S):
    estimate = gae(REWARD_S, VALUE_S, episode_S, REPLY_S, *how)
    assert estimate.advantage_S == near(advantage_S)
    if return_S is not None:
        assert estimate.return_S == near(return_S)


def test_gae_with_a_perfect_critic_finds_nothing_to_learn():
    value_S = np.array([3.0, 3.0, 2.0, 4.0, 4.0])
    estimate = gae(REWARD_S, value_S, DIALOGUE_S, REPLY_S, 1.0, 0.3)
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


def test_a_broken_format_costs_a_dialogue_or_a_reply_its_gains_and_none_of_its_losses():
    reward_R, broken_R = np.array([2.0, -1.0, 2.0]), np.array([False, True, False])
    dialogue_R, alone_R = np.array([0, 0, 1]), np.array([0, 1, 2])
    assert penalise_format_errors(reward_R, broken_R, dialogue_R) == near([0, -1, 2])
    assert penalise_format_errors(reward_R, broken_R, dialogue_R, 0.25) == near([1.5, -1, 2])
    assert penalise_format_errors(reward_R, ~broken_R, alone_R) == near([0, -1, 0])


@pytest.mark.parametrize(
    ("values", "keys", "how", "wanted"),
    [
        ([1, 0], [7, 7], {}, [1, -1]),
        ([5], [0], {}, [0]),
        ([5], [0], {"baseline": "others", "scale": False}, [0]),
        ([0.1, 0.1, 0.1], [0, 0, 0], {}, [0, 0, 0]),  # a mean that rounding moves away from 0.1
        # group 0 holds 4 and 2 (mean 3, spread 1), group 1 holds 0, 3, 3 (mean 2, spread sqrt 2)
        ([4, 0, 3, 2, 3], [0, 1, 1, 0, 1], {"scale": False}, [1, -2, 1, -1, 1]),
        ([4, 0, 3, 2, 3], [0, 1, 1, 0, 1], {}, [1, -(2**0.5), 0.5**0.5, -1, 0.5**0.5]),
        # 0 against the mean of 3 and 6; 3 against 3; 6 against 1.5
        ([0, 3, 6], [0, 0, 0], {"baseline": "others", "scale": False}, [-4.5, 0, 4.5]),
        # a floor keeps small differences small: 7/8 of a point over a floor of one point
        ([3, 3, 3, 3, 3, 3, 3, 4], [0] * 8, {"min_std": 1.0}, [-0.125] * 7 + [0.875]),
        ([0, 50], [0, 0], {"min_std": 1.0}, [-1, 1]),
        # replies to three moments, 3, -1, 3, 0 and 2, 1 and one alone: no spread divides
        (
            [3, -1, 3, 0, 2, 1, 9],
            [0, 0, 0, 0, 1, 1, 2],
            {"scale": False},
            [1.75, -2.25, 1.75, -1.25, 0.5, -0.5, 0],
        ),
    ],
)
def test_values_against_those_with_the_same_key(values, keys, how, wanted):
    assert group_relative(np.array(values, float), np.array(keys), **how) == near(wanted)


# Three dialogues of a group, of 3, 1 and 2 turns.
REWARDS = np.array([1.0, 2.0, 3.0, 3.0, 2.0, 4.0])
PLACES = np.array([0, 0, 0, 1, 2, 2]), np.array([0, 1, 2, 0, 0, 1]), np.zeros(3, dtype=int)
SPREAD = (2 / 3) ** 0.5


@pytest.mark.parametrize(
    ("compute", "how", "wanted"),
    [
        # returns 6, 3, 6: mean 5
        (compute_group_advantage_by_episode, {"scale": False}, [1, 1, 1, -2, 1, 1]),
        # turn 0: 6, 3, 6 (mean 5); turn 1: 5, none, 4 (mean 4.5); turn 2: 3 alone
        (compute_group_advantage_by_turn, {"scale": False}, [1, 0.5, 0, -2, 1, -0.5]),
        # gamma 0.5; turn 0: 1 + 1 + 0.75 = 2.75, 3, 4 (mean 3.25); turn 1: 3.5, none, 4
        (
            compute_group_advantage_by_turn,
            {"gamma": 0.5, "scale": False},
            [-0.5, -0.25, 0, -0.25, 0.75, 0.25],
        ),
        # own rewards; turn 0: 1, 3, 2 (mean 2); turn 1: 2, none, 4 (mean 3); turn 2: 3 alone
        (compute_group_advantage_by_turn, {"gamma": 0.0, "scale": False}, [-1, -1, 0, 1, 0, 1]),
        (compute_group_advantage_by_turn, {"gamma": 0.0}, [-1 / SPREAD, -1, 0, 1 / SPREAD, 0, 1]),
    ],
)
def test_a_turn_against_its_group(compute, how, wanted):
    assert compute(REWARDS, *PLACES, **how) == near(wanted)


# Moment 0: 3, -1, 3, 0; moment 1: 2, 1; moment 2: one reply alone.
TRIED = np.array([3.0, -1.0, 3.0, 0.0, 2.0, 1.0, 9.0]), np.array([0, 0, 0, 0, 1, 1, 2])
ALL = np.ones(7, dtype=bool)


@pytest.mark.parametrize(
    ("margin", "can_win", "wanted"),
    [
        (1.0, ALL, [1, 0, 0, 0, 0, 0, 0]),  # means 1.25 and 1.5; the first of equal ones
        (0.5, ALL, [1, 0, 0, 0, 1, 0, 0]),
        (1.6, ALL, [1, 0, 0, 0, 0, 0, 0]),  # above the mean, not above the median
        (1.0, ~np.isin(np.arange(7), [0, 2]), [0, 0, 0, 0, 0, 0, 0]),
        (1.0, ~np.isin(np.arange(7), [0]), [0, 0, 1, 0, 0, 0, 0]),
    ],
)
def test_the_winner_lies_a_margin_above_the_mean(margin, can_win, wanted):
    assert find_winners(*TRIED, can_win, margin) == near(wanted)


@pytest.mark.parametrize(
    ("margin", "can_win", "most", "wanted"),
    [
        (2.0, ALL, 9, [(0, 1, 4), (2, 1, 4), (0, 3, 3), (2, 3, 3)]),
        (2.0, ALL, 3, [(0, 1, 4), (2, 1, 4), (0, 3, 3)]),  # the widest of a moment
        (4.0, ALL, 9, [(0, 1, 4), (2, 1, 4)]),
        (1.0, ALL, 1, [(0, 1, 4), (4, 5, 1)]),
        (2.0, ~np.isin(np.arange(7), [0]), 9, [(2, 1, 4), (2, 3, 3)]),
        (20.0, ALL, 9, []),
    ],
)
def test_all_pairs_of_a_moment_a_margin_apart(margin, can_win, most, wanted):
    pairs = find_pairs(*TRIED, can_win, margin, most)
    assert list(zip(*(column.tolist() for column in pairs), strict=True)) == wanted


def test_no_dialogues_give_no_advantages():
    none, nothing = np.zeros(0, dtype=int), np.zeros(0)
    assert place_rewards(nothing, none).shape == (0,)
    assert gae(nothing, nothing, none, none).advantage_S.shape == (0,)
    for compute in (compute_group_advantage_by_episode, compute_group_advantage_by_turn):
        assert compute(nothing, none, none, none).shape == (0,)
