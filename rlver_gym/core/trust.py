"""Trust: how deep a person lets somebody look, and when they want to get away. The same for every user; knows no words."""

from typing import Literal

from rlver_gym.core.persona import Disposition

Depth = Literal[1, 2, 3]

_RESTLESS_BELOW = {Disposition.NEGATIVE: 25, Disposition.AVOIDANT: 22, Disposition.PASSIVE: 16}
"""Quick to anger is quick to go; who waits to be drawn out stays longest, out of politeness."""


def disclosure_depth(emotion: int, change: int, turns: int) -> Depth:
    """The deepest disclosure that may be told now: 1 to anyone, 2 when heard, 3 when trusted.

    `emotion` is that after the last `change`, `turns` counts those that the user has answered.
    """
    if emotion >= 65 or (change >= 5 and turns >= 3):
        return 3
    return 2 if change > 0 or emotion >= 45 or turns >= 4 else 1


def restless_below(disposition: Disposition) -> int:
    """The emotion below which such a person says that they are going. Whether the dialogue ends is the env card's rule."""
    return _RESTLESS_BELOW[disposition]
