"""Who can sit opposite the user: `agent_maker` turns a name into a maker of agents."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, cast

from rlver_gym.agents.baselines import BASELINES
from rlver_gym.agents.human import Human
from rlver_gym.agents.needs import Adaptive
from rlver_gym.agents.oracle import Oracle
from rlver_gym.agents.own import (
    OTHERS,
    is_async_own_agent,
    is_own_agent,
    own_agent_maker,
    source_hash,
)
from rlver_gym.agents.strategies import FixedStrategy, parse_strategy_name
from rlver_gym.core.agent import Agent, AgentMaker, AsyncAgent
from rlver_gym.core.persona import Persona
from rlver_gym.llm_client.settings import ChatSettings, locate_server
from rlver_gym.util.errors import AgentError, pip_install
from rlver_gym.util.model_names import get_chat_model, uses_server
from rlver_gym.util.user_code import check_name

__all__ = [
    "AGENT_NAMES",
    "HUMAN",
    "PRIVILEGED_AGENTS",
    "SHIPPED_AGENTS",
    "Agent",
    "AgentMaker",
    "AsyncAgent",
    "agent_maker",
    "agent_pin",
    "check_agent_name",
    "is_async_agent",
    "is_shipped_agent",
    "make_agent",
    "takes_options",
]

SHIPPED_AGENTS = (*BASELINES, "adaptive", "oracle")
"""The agents that need nothing: the default field of a benchmark."""
PRIVILEGED_AGENTS = ("oracle",)
"""Those that were told what no agent can know: the theoretical top, never suspicious."""
HUMAN = "human"
"""A person at the keyboard, who can only talk to one at a time."""
AGENT_NAMES = (*SHIPPED_AGENTS, HUMAN, "strategy:NAME", "openai:MODEL", "hf:PATH", "MODULE:NAME")


def agent_maker(
    name: str, chat: ChatSettings | None = None, options: Mapping[str, Any] | None = None
) -> AgentMaker:
    """The maker of an agent by name.

    One of `SHIPPED_AGENTS`, "human", "strategy:NAME" for one that always does the same (a
    `Strategy`, such as strategy:listen), "openai:MODEL" for a chat model (`chat` says how its
    server is reached; "openai:MODEL@URL" for one elsewhere), "hf:PATH" for one on this machine (a
    folder or a Hugging Face name), or "package.module:Name" for a class (or function) of your own
    that takes no arguments and gives an `Agent`, or a function that takes the messages and gives
    the reply. `options`: what a chat model is asked with beside the words (temperature, top_p, …),
    or what replaces that of a folder's rlver_gym.json (system, temperature, max_reply_tokens).
    Raises UnknownName, or AgentError when it cannot be made.
    """
    check_agent_name(name)
    if name in BASELINES:
        return lambda persona, seed: cast(Agent, BASELINES[name](seed))
    if name == "adaptive":
        return lambda persona, seed: Adaptive(seed)
    if name == "oracle":
        return _make_oracle
    if name == HUMAN:
        return lambda persona, seed: Human()
    if strategy := parse_strategy_name(name):
        return lambda persona, seed: FixedStrategy(strategy, seed)
    if model := get_chat_model(name):
        # openai takes half a second to import
        from rlver_gym.agents.openai_chat import OpenAIChat, parse_agent_options  # noqa: PLC0415

        server = locate_server(name, chat)
        parse_agent_options(options or {})
        return lambda persona, seed: OpenAIChat(model, seed=seed, options=options, chat=server)
    if path := _hf_path(name):
        local = _load_hf_module().HFAgent(path, options=options or {})
        return lambda persona, seed: local.with_seed(seed)
    return own_agent_maker(name)


def check_agent_name(name: str) -> None:
    """UnknownName for what no agent is called. Nothing is imported."""
    plain = (*SHIPPED_AGENTS, HUMAN)
    is_known = name in plain or parse_strategy_name(name) or uses_server(name) or _hf_path(name)
    told = ", ".join(AGENT_NAMES)
    check_name("agent", name, AGENT_NAMES, told, (*plain, *OTHERS), is_known=bool(is_known))


def _make_oracle(persona: Persona | None, seed: int) -> Oracle:
    if persona is None:
        raise AgentError("oracle reads the card of whoever talks. Ask another agent.")
    return Oracle(persona)


def takes_options(name: str) -> bool:
    """Whether an agent of that name is a language model, for which `options` are."""
    return uses_server(name) or _hf_path(name) is not None


def is_shipped_agent(name: str) -> bool:
    """Whether seed and messages alone decide what it says, by the package's own code."""
    return name in SHIPPED_AGENTS or name.startswith("strategy:")


def is_async_agent(name: str) -> bool:
    """Whether an agent of that name answers in many dialogues at once, as an `AsyncAgent` does."""
    return takes_options(name) or (is_own_agent(name) and is_async_own_agent(name))


def make_agent(name: str, persona: Persona, seed: int = 0) -> Agent:
    """One agent for one dialogue. Only "oracle" looks at the persona."""
    return agent_maker(name)(persona, seed)


def agent_pin(name: str, chat: ChatSettings | None = None) -> dict[str, str | None]:
    """What tells an agent from others of its name; empty for shipped ones, pinned by version."""
    if uses_server(name):
        from rlver_gym.agents import openai_chat  # noqa: PLC0415 (as above)

        return openai_chat.pin(locate_server(name, chat))
    if path := _hf_path(name):
        return _load_hf_module().fingerprint_model(path)
    return {"source": source_hash(name)} if is_own_agent(name) else {}


def _hf_path(name: str) -> str | None:
    kind, _, path = name.partition(":")
    return path if kind == "hf" and path else None


def _load_hf_module() -> ModuleType:
    """What is registered as the entry point "hf" of `rlver_gym.agents`."""
    try:
        for entry in entry_points(group="rlver_gym.agents", name="hf"):
            return entry.load()
    except ModuleNotFoundError as error:
        raise AgentError(
            f"agents of the form hf:PATH need torch and transformers ({error}). Install them:"
            f" {pip_install('train')}"
        ) from error
    raise AgentError(
        "no entry point hf of rlver_gym.agents is installed. Install the package again: pip install"
        " rlver-gym"
    )
