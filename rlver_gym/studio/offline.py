"""Who speaks in the studio: the embedded user and the shipped agents. No request leaves here."""

from functools import cache
from typing import cast

from rlver_gym.agents import PRIVILEGED_AGENTS, SHIPPED_AGENTS, make_agent
from rlver_gym.agents.strategies import STRATEGIES
from rlver_gym.core.agent import Agent
from rlver_gym.core.persona import Persona
from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.environment.session import EmpathySession
from rlver_gym.users import make_user
from rlver_gym.util.errors import UnknownName

OFFLINE_AGENTS = (*SHIPPED_AGENTS, *(f"strategy:{one.name.lower()}" for one in STRATEGIES))


@cache
def make_offline_user() -> SentientUser:
    """The embedded user: it keeps nothing between calls."""
    return make_user("embedded")


def make_offline_agent(name: str, scene: Scene | None) -> Agent:
    """An agent for a dialogue (None: with somebody of whom there is no card). UnknownName for one
    that would run code, ask a server or look at a card that is not there.
    """
    known = [one for one in OFFLINE_AGENTS if scene or one not in PRIVILEGED_AGENTS]
    if name not in known:
        raise UnknownName.of("offline agent", name, known, ", ".join(known))
    return make_agent(name, cast(Persona, scene and scene.persona), scene.seed if scene else 0)


def choose_agent_reply(name: str, session: EmpathySession) -> str:
    """What an agent says now."""
    agent = make_offline_agent(name, session.scene)
    return agent.reply(tuple(session.dialogue.messages()))
