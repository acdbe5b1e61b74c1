"""Rewards as pure functions of the emotion before and after a turn."""

from collections.abc import Callable

from rlver_gym.core.emotion import Outcome


def delta(before: int, after: int, outcome: Outcome | None) -> float:
    """The change of the emotion score, in points. Over an episode these sum to the last emotion minus the first."""
    return float(after - before)


def terminal(before: int, after: int, outcome: Outcome | None) -> float:
    """max(e_T, 0) / 100 with the last turn, 0.0 before it: the reward of RLVER (arXiv:2507.03112, section 2)."""
    return max(after, 0) / 100 if outcome is not None else 0.0


REWARDS: dict[str, Callable[[int, int, Outcome | None], float]] = {"delta": delta, "terminal": terminal}
"""The rewards that an env card can name."""
