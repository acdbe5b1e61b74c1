"""Fits that leave out whom they will be measured on: agents, people, random halves of agents.

Needs scikit-learn.
"""

from collections.abc import Callable, Sequence

import numpy as np

from rlver_gym.core.user import SentientUser
from rlver_gym.data.calibrate import fit_weights
from rlver_gym.data.design import build_design
from rlver_gym.data.recordings import Recording
from rlver_gym.users import EmbeddedUser

FOLDS = 5


class LeaveOutFits:
    """Recordings with their design, ready to be fitted without some of them."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        """Compute every feature once."""
        pairs = [(one, rated) for one in recordings for rated in one.rated_utterances()]
        self._rated = [rated for _, rated in pairs]
        self._agent = np.array([one.agent for one, _ in pairs])
        self._persona = np.array([one.persona.id for one, _ in pairs])
        self._table = build_design(self._rated)
        self.agents = tuple(sorted({one.agent for one in recordings}))
        self.people = tuple(sorted({one.persona.id for one in recordings}))

    def _fit_without(self, left_out: np.ndarray, simulator: str, gated: bool) -> SentientUser:
        rows = [int(row) for row in np.flatnonzero(~left_out)]
        weights = fit_weights([self._rated[row] for row in rows], table=self._table.rows(rows))
        return EmbeddedUser(
            weights, simulator if simulator in weights.presets else None, gated=gated
        )

    def fit_without_agents(
        self, agents: Sequence[str], simulator: str, *, gated: bool = True
    ) -> SentientUser:
        """The embedded user fitted to all other agents, with the simulator's preset if it was
        fitted.
        """
        return self._fit_without(np.isin(self._agent, list(agents)), simulator, gated)

    def fit_without_people(
        self, people: Sequence[str], simulator: str, *, gated: bool = True
    ) -> SentientUser:
        """The embedded user fitted to all other people."""
        return self._fit_without(np.isin(self._persona, list(people)), simulator, gated)


def leave_one_agent_out(
    refits: LeaveOutFits,
    agents: Sequence[str],
    simulator: str,
    *,
    gated: bool = True,
    on_progress: Callable[[], None] = lambda: None,
) -> Callable[[Recording], SentientUser]:
    """For each recording the user fitted without its agent."""
    users = {}
    for agent in agents:
        users[agent] = refits.fit_without_agents([agent], simulator, gated=gated)
        on_progress()
    return lambda recording: users[recording.agent]


def leave_people_out(
    refits: LeaveOutFits,
    people: Sequence[str],
    simulator: str,
    *,
    on_progress: Callable[[], None] = lambda: None,
) -> Callable[[Recording], SentientUser]:
    """For each recording the user fitted without its person (five folds)."""
    fold_of = {person: number % FOLDS for number, person in enumerate(sorted(people))}
    users = {}
    for fold in range(FOLDS):
        users[fold] = refits.fit_without_people(
            [person for person in people if fold_of[person] == fold], simulator
        )
        on_progress()
    return lambda recording: users[fold_of[recording.persona.id]]


def split_agents(
    agents: Sequence[str], splits: int
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Random halves of the agents, seeded: each half will be judged by a fit on the other."""
    rng = np.random.default_rng(0)
    order = [tuple(map(str, rng.permutation(sorted(agents)))) for _ in range(splits)]
    return [(one[: len(one) // 2], one[len(one) // 2 :]) for one in order]
