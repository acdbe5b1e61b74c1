"""What the critic expects of whom, against numbers worked out by hand."""

import numpy as np
import pytest

from rlver_gym.policy.learning.persona_baseline import PersonaBaseline


def near(numbers):
    return pytest.approx(numbers, abs=1e-12)


def test_everybody_is_compared_with_all_and_a_single_dialogue_proves_little():
    expected = PersonaBaseline()
    # 1 and 3 above the mean, 4 below.
    expected.learn(np.array(["a", "a", "b"]), np.array([3.0, 5.0, -2.0]))
    assert expected.of(np.array(["b", "stranger", "a"])) == near([-4 / 2, 0, 2 * 2 / 3])
    # Half a point above, half a point below.
    expected.learn(np.array(["b", "a"]), np.array([1.0, 0.0]))
    assert expected.of(np.array(["a", "b"])) == near([4 / 3 - 0.5 / 4, -2 + 0.5 / 3])


def test_it_follows_a_policy_that_changes():
    expected, both = PersonaBaseline(), np.array(["a", "b"])
    for size in (1.0, -1.0):
        for _ in range(60):
            returns = np.array([size, -size])
            expected.learn(both, returns - expected.of(both))
        assert expected.of(both) == pytest.approx([size, -size], abs=0.02)


def test_what_everybody_gains_is_no_news_of_anybody():
    expected = PersonaBaseline()
    expected.learn(np.array(["a", "b"]), np.array([7.0, 7.0]))
    assert expected.of(np.array(["a", "b"])) == near([0, 0])


def test_saved_and_restored_it_goes_on_the_same():
    first = PersonaBaseline()
    first.learn(np.array(["a", "b"]), np.array([1 / 3, 1.0]))
    second = PersonaBaseline(first.state)
    for expected in (first, second):
        expected.learn(np.array(["b", "c"]), np.array([0.1, 0.7]))
    assert first.state == second.state
