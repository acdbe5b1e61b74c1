"""Who speaks in the studio: the embedded user, the shipped agents, and those that whoever started
it has named. No page can name another one.
"""

from collections.abc import Sequence
from functools import cache

from rlver_gym.agents import HUMAN, PRIVILEGED_AGENTS, SHIPPED_AGENTS, agent_maker
from rlver_gym.agents.strategies import STRATEGIES
from rlver_gym.core.agent import Agent
from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.users import make_user
from rlver_gym.util.errors import UnknownName

_SHIPPED = (*SHIPPED_AGENTS, *(f"strategy:{one.name.lower()}" for one in STRATEGIES))


@cache
def make_offline_user() -> SentientUser:
    """The embedded user: it keeps nothing between calls."""
    return make_user("embedded")


class Speakers:
    """The agents that may be asked for."""

    def __init__(self, named: Sequence[str] = ()) -> None:
        """`named`: as `agent_maker` takes them, but not "human". Raises what it raises."""
        if HUMAN in named:
            raise UnknownName("human would answer in the terminal. Say it yourself on the page.")
        self.named = tuple(named)
        self.names = (*self.named, *_SHIPPED)
        self._makers = {name: agent_maker(name) for name in self.names}

    def make_agent(self, name: str, scene: Scene | None) -> Agent:
        """An agent for a dialogue with somebody (None: of whom there is no card). UnknownName for
        one that is not here, or looks at a card that is not there.
        """
        known = [one for one in self.names if scene or one not in PRIVILEGED_AGENTS]
        if name not in known:
            raise UnknownName.of("agent", name, known, ", ".join(known))
        persona, seed = (scene.persona, scene.seed) if scene else (None, 0)
        return self._makers[name](persona, seed)
