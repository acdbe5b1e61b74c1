"""Who can sit opposite the user. `agent_maker` turns a name into a maker of agents; each dialogue gets a fresh one."""

from importlib import import_module
from types import ModuleType
from typing import cast

from rlver_gym.agents.adaptive import Adaptive
from rlver_gym.agents.base import Agent, AgentMaker
from rlver_gym.agents.baselines import BASELINES
from rlver_gym.agents.human import Human
from rlver_gym.agents.oracle import Oracle
from rlver_gym.agents.own import is_own, own_maker, source_hash
from rlver_gym.errors import AgentError, UnknownName
from rlver_gym.persona import Persona

__all__ = [
    "AGENT_NAMES",
    "PRIVILEGED_AGENTS",
    "SHIPPED_AGENTS",
    "Agent",
    "AgentMaker",
    "agent_maker",
    "agent_pin",
    "make_agent",
]

SHIPPED_AGENTS = (*BASELINES, "adaptive", "oracle")
"""The agents that need nothing: the default field of a benchmark."""
PRIVILEGED_AGENTS = ("oracle",)
"""Those that were told what no agent can know. What they reach is the theoretical top, and never suspicious."""
AGENT_NAMES = (*SHIPPED_AGENTS, "human", "openai:MODEL", "hf:PATH", "MODULE:NAME")
"""All that `agent_maker` takes."""


def agent_maker(name: str) -> AgentMaker:
    """The maker of an agent by name.

    One of `SHIPPED_AGENTS`, "human", "openai:MODEL" for a chat model behind a server, "hf:PATH" for one on this machine (a folder or a Hugging Face
    name), or "package.module:Name" for a class (or function) of your own that takes no arguments and gives an `Agent`. Raises UnknownName, or AgentError when it cannot be made.
    """
    if name in BASELINES:
        return lambda persona, seed: cast(Agent, BASELINES[name](seed))
    if name == "adaptive":
        return lambda persona, seed: Adaptive(seed)
    if name == "oracle":
        return lambda persona, seed: Oracle(persona)
    if name == "human":
        return lambda persona, seed: Human()
    kind, _, rest = name.partition(":")
    if kind == "openai" and rest:
        from rlver_gym.agents.openai_chat import OpenAIChat  # noqa: PLC0415 (openai takes half a second to import)

        model = OpenAIChat(rest)
        return lambda persona, seed: model
    if kind == "hf" and rest:
        local = _learner().HFAgent(rest)
        return lambda persona, seed: local
    if is_own(name):
        return own_maker(name)
    raise UnknownName.of("agent", name, AGENT_NAMES, ", ".join(AGENT_NAMES))


def make_agent(name: str, persona: Persona, seed: int = 0) -> Agent:
    """One agent for one dialogue. Only "oracle" looks at the persona."""
    return agent_maker(name)(persona, seed)


def agent_pin(name: str) -> dict[str, str | None]:
    """What tells an agent from another of the same name: its source, or its server and prompt. Empty for the shipped ones, which the package's version pins."""
    kind, _, model = name.partition(":")
    if kind == "openai" and model:
        from rlver_gym.agents import openai_chat  # noqa: PLC0415 (as above)

        return openai_chat.pin()
    if kind == "hf" and model:
        return _learner().pin(model)
    return {"source": source_hash(name)} if is_own(name) else {}


def _learner() -> ModuleType:
    """The learner's agent, by name: it stands above the agents, and needs torch."""
    try:
        return import_module("rlver_gym.policy.agent")
    except ModuleNotFoundError as error:
        raise AgentError(
            f"agents of the form hf:PATH need torch and transformers ({error}). Install them: pip install 'rlver-gym[train]'"
        ) from error
