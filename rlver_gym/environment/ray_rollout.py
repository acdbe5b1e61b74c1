"""`rollout` on the workers of a Ray cluster."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from typing import NamedTuple

from rlver_gym.core.agent import Agent, AsyncAgent
from rlver_gym.core.cards import EnvCard
from rlver_gym.core.persona import Persona
from rlver_gym.core.user import SentientUser
from rlver_gym.environment.rollout import CONCURRENCY, arun_episode, run_episode
from rlver_gym.environment.session import EmpathySession
from rlver_gym.environment.snapshot import Snapshot
from rlver_gym.io.errors import RunError
from rlver_gym.io.event_loop import Worker, wait_for
from rlver_gym.io.ray_workers import LOCAL, Workers, open_cluster


class _Rollout(NamedTuple):
    """A dialogue to run, and the agent in it."""

    number: int
    persona: Persona
    card: EnvCard
    seed: int
    snapshot: Snapshot | None
    """None for one that has not begun."""
    agent: Agent


class RolloutHolder:
    """Runs dialogues with one user in a worker's process."""

    def __init__(self, user: SentientUser) -> None:
        """`user`: of all the dialogues."""
        self._user, self._worker = user, Worker()

    def learn(self, news: None) -> None:
        """There is nothing to know."""

    def hold(self, item: _Rollout) -> tuple[int, Snapshot]:
        """The state of a dialogue in the end."""
        session = EmpathySession(self._user, item.persona, item.card, item.seed)
        if item.snapshot:
            session.restore(item.snapshot)
        if session.is_async or isinstance(item.agent, AsyncAgent):
            wait_for(arun_episode(session, item.agent, self._worker))
        else:
            run_episode(session, item.agent)
        return item.number, session.snapshot()

    def collect(self) -> None:
        """There is nothing to tell."""


def rollout_on_ray(
    dialogues: Iterable[tuple[EmpathySession, Agent]],
    *,
    address: str = LOCAL,
    workers: int | None = None,
    concurrency: int = CONCURRENCY,
) -> Iterator[EmpathySession]:
    """`rollout` on a Ray cluster (see `open_cluster`): runs all dialogues to their ends, and yields
    the sessions in the order given. `concurrency`: dialogues under way in each worker, where
    something waits for a server.

    Users and agents are pickled; agents stay as they were here. A response cache would be a file
    of each machine. RunError when the sessions do not share one user.
    """
    source = iter(dialogues)
    if (first := next(source, None)) is None:
        return
    user, sessions = first[0].user, dict[int, EmpathySession]()

    def draw() -> Iterator[list[_Rollout]]:
        for number, (session, agent) in enumerate(chain([first], source)):
            if session.user is not user:
                raise RunError("the sessions of a rollout on Ray have to share one user.")
            sessions[number], scene = session, session.scene
            begun = session.snapshot() if session.has_begun else None
            yield [_Rollout(number, scene.persona, scene.card, scene.seed, begun, agent)]

    waits = first[0].is_async or isinstance(first[1], AsyncAgent)
    ended: dict[int, Snapshot] = {}
    num_yielded = 0
    with open_cluster(address, workers) as num_workers:
        at_once = concurrency if waits else 1
        with closing(Workers(partial(RolloutHolder, user), num_workers, at_once)) as pool:
            for result, _ in pool.map(draw()):
                ended |= dict([result] if result else [])
                while num_yielded in ended:
                    session = sessions.pop(num_yielded)
                    session.restore(ended.pop(num_yielded))
                    num_yielded += 1
                    yield session
