"""Agreement between raters, against published and hand-worked numbers."""

from math import isnan

import numpy as np
import pytest

from rlver_gym.util.reliability import intraclass_correlation, krippendorff_alpha

CODERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]
JUDGES = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]


def test_alpha_of_krippendorffs_own_example_is_his():
    units = [[one for one in unit if one is not None] for unit in zip(*CODERS, strict=True)]
    assert krippendorff_alpha(units) == pytest.approx(0.849, abs=5e-4)


def test_alpha_worked_out_by_hand_is_a_half():
    # observed (8 / 1) / 4 = 2, expected 48 / (4 * 3) = 4; a lone rating counts for nothing
    assert krippendorff_alpha([[1, 1], [2, 4], [9]]) == pytest.approx(0.5)


def test_alpha_of_ratings_far_from_zero_is_that_of_the_same_ratings_near_it():
    near = [[1, 1], [2, 4], [3, 3]]
    far = [[rating + 1e9 for rating in unit] for unit in near]
    assert krippendorff_alpha(far) == pytest.approx(krippendorff_alpha(near))


def test_icc_of_shrout_and_fleiss_is_theirs():
    assert intraclass_correlation(np.array(JUDGES, float)) == pytest.approx(0.29, abs=5e-3)


def test_who_agree_wholly_have_one_and_who_say_nothing_have_none():
    same = np.array([[1.0, 1.0], [4.0, 4.0], [-2.0, -2.0]])
    assert krippendorff_alpha(same.tolist()) == pytest.approx(1)
    assert intraclass_correlation(same) == pytest.approx(1)
    for units in ([], [[3]], [[2, 2], [2, 2]], [[0.7, 0.7, 0.7]] * 2, [[1e9 + 0.1] * 3] * 5):
        assert isnan(krippendorff_alpha(units))
    for ratings in (np.array([]), np.ones((5, 1)), np.ones((5, 2)), np.array([[1.0, 2.0]])):
        assert isnan(intraclass_correlation(ratings))
