"""What the critic expects of whom."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rlver_gym.policy.learning.algorithms import Floats

_MEMORY = 10
"""Dialogues that a mean goes back over, about: the policy that the older ones were with is gone."""
_DOUBT = 1
"""Dialogues like all others, from which everybody's mean begins: a single one proves little."""


class PersonaBaseline:
    """For each persona a running mean of how far returns lie above what else the critic guesses,
    compared with everybody's.

    A baseline may know whatever does not depend on what is about to be said: the gradient loses the
    part of its variance that is "with whom", and gains no bias (with GAE's lambda at 1; below it
    GAE's own stays). Asymmetric critics know more than their policy (arXiv:1710.06542); a mean for
    each task is PopArt's (arXiv:1809.04474), here without its scale.
    """

    def __init__(self, saved: Mapping[str, tuple[int, float]] | None = None) -> None:
        self._of = {who: (int(count), float(mean)) for who, (count, mean) in (saved or {}).items()}

    @property
    def state(self) -> dict[str, tuple[int, float]]:
        return dict(self._of)

    def of(self, who_D: NDArray[np.str_]) -> Floats:
        """What each can expect beyond the mean of all; 0 with somebody who was never met."""
        return np.array([self._of.get(str(who), (0, 0.0))[1] for who in who_D], dtype=np.float64)

    def learn(self, who_D: NDArray[np.str_], residual_D: Floats) -> None:
        """`residual_D`: how much higher each return was than expected; a common part is no news."""
        news_D = residual_D - residual_D.mean()
        for who in map(str, np.unique(who_D)):
            mine = news_D[who_D == who]
            count, mean = self._of.get(who, (0, 0.0))
            trust = len(mine) / (min(count, _MEMORY) + _DOUBT + len(mine))
            self._of[who] = count + len(mine), mean + trust * float(mine.mean())
