"""Agents of people's own, by MODULE:NAME: found, made, and told apart by the content of their
file.
"""

import hashlib
import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import cast

from rlver_gym.core.agent import Agent, AgentMaker
from rlver_gym.io.errors import AgentError
from rlver_gym.io.user_code import describe_error

_OTHERS = ("strategy", "openai", "hf")
"""What stands before the colon of agents that are not one's own."""
_WHAT = (
    "An agent is a class that needs no arguments (or a function that makes one), with a method"
    " reply(messages) -> str: see examples/your_own_agent.py."
)


def is_own_agent(name: str) -> bool:
    """Whether the name has the form MODULE:NAME."""
    module, _, attribute = name.partition(":")
    return (
        module not in _OTHERS
        and attribute.isidentifier()
        and all(part.isidentifier() for part in module.split("."))
    )


def own_agent_maker(name: str) -> AgentMaker:
    """The maker of an agent of one's own.

    AgentError when it cannot be imported, or makes no agent: one is made now, to see, and let go.
    """
    _make_own_agent(name)
    return lambda persona, seed: _make_own_agent(name)


def _make_own_agent(name: str) -> Agent:
    factory = getattr(_module(name), name.partition(":")[2], None)
    if not callable(factory):
        raise AgentError(
            f"the agent {name} is not there: its module has no class or function of that name."
            f" {_WHAT}"
        )
    try:
        agent = factory()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # anybody's code
        raise AgentError(
            f"the agent {name} cannot be made ({describe_error(error)}). {_WHAT}"
        ) from error
    if not callable(getattr(agent, "reply", None)):
        raise AgentError(
            f"{name} is no agent: what it makes is {type(agent).__name__!r}, which has no reply."
            f" {_WHAT}"
        )
    return cast(Agent, agent)


def is_async_own_agent(name: str) -> bool:
    """Whether it is a class of agents with `areply`, which answer in many dialogues at once."""
    return callable(getattr(getattr(_module(name), name.partition(":")[2], None), "areply", None))


def source_hash(name: str) -> str | None:
    """16 hex digits of SHA-256 over the file of the agent's module (what that imports is not looked
    at); None when it has no file.
    """
    file = _module(name).__file__
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file else None


def _module(name: str) -> ModuleType:
    """The agent's module; the current directory counts as a place to import from, as with `python
    -m`.
    """
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.insert(0, os.getcwd())
    try:
        return import_module(name.partition(":")[0])
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may raise anything when it is imported
        raise AgentError(
            f"the agent {name} cannot be imported ({describe_error(error)}). Is it in this folder"
            " or on PYTHONPATH?"
        ) from error
