"""Who speaks in the studio: the embedded user, shipped agents, and those it was started with."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from rlver_gym.agents import HUMAN, SHIPPED_AGENTS, agent_maker, is_shipped_agent
from rlver_gym.agents.own import is_own_agent, require_text
from rlver_gym.agents.strategies import STRATEGIES
from rlver_gym.core.agent import Agent
from rlver_gym.core.dialogue import Message
from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.users import make_user
from rlver_gym.util.errors import AgentError, UnknownName, check_known
from rlver_gym.util.user_code import CodeFailed, CodeRunner, CodeTimeout

_SHIPPED = (*SHIPPED_AGENTS, *(f"strategy:{strategy.name.lower()}" for strategy in STRATEGIES))


@cache
def make_offline_user() -> SentientUser:
    """The embedded user: it keeps nothing between calls."""
    return make_user("embedded")


class Speakers:
    """The agents that may be asked for."""

    def __init__(
        self,
        named: Sequence[str] = (),
        chat: ChatSettings | None = None,
        options: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """`named`: as `agent_maker` takes them with `chat` and `options`, but not "human". Raises
        what it raises. `timeout_s`: how long a reply of code of one's own may take; None for ever.
        """
        if HUMAN in named:
            raise UnknownName("human would answer in the terminal. Say it yourself on the page.")
        self.named, self._timeout_s = tuple(dict.fromkeys(named)), timeout_s
        self.names = (*self.named, *(name for name in _SHIPPED if name not in self.named))
        self.helpers = tuple(name for name in self.named if not is_shipped_agent(name))
        """Who may support a person in need: nobody of stock phrases."""
        self._makers = {name: agent_maker(name, chat, options) for name in self.names}

    def make_agent(self, name: str, scene: Scene | None) -> Agent:
        """An agent for a dialogue, or with None for a person in need. UnknownName for others."""
        known = self.names if scene else self.helpers
        none = "" if known else "nobody. Start the studio with --agent openai:MODEL"
        check_known("agent", name, known, none)
        persona, seed = (scene.persona, scene.seed) if scene else (None, 0)
        agent = self._makers[name](persona, seed)
        return _Guarded(name, agent, self._timeout_s) if is_own_agent(name) else agent


class _Guarded:
    """An agent of one's own: its faults are errors that a page can tell, and it cannot hang it."""

    def __init__(self, name: str, agent: Agent, timeout_s: float | None) -> None:
        self._name, self._agent, self._code = name, agent, CodeRunner(timeout_s)

    def reply(self, messages: Sequence[Message]) -> str:
        try:
            return require_text(self._code.call(self._agent.reply, messages))
        except (CodeFailed, CodeTimeout) as error:
            raise AgentError(f"agent {self._name}: {error}. Mend it, or ask another.") from None
