"""Agents of people's own, by MODULE:NAME: found, made, and told apart by the content of their
file.
"""

import difflib
import hashlib
import inspect
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from rlver_gym.core.agent import Agent, AgentMaker
from rlver_gym.core.answer import explain, read_answer, read_words
from rlver_gym.io.errors import AgentError, AgentFailed
from rlver_gym.io.user_code import describe_error, locate_definition

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


def require_text(said: object, reply: Callable[..., Any]) -> str:
    """The words of what `reply` of an agent of one's own gave. AgentError when it is no text, with
    the place; AgentFailed when it is thoughts alone.
    """
    if isinstance(said, str):
        words = read_words(said)
        if said.strip() and not words:
            raise AgentFailed(f"its reply is no words: {explain(read_answer(said).silence)}")
        return words
    if inspect.iscoroutine(said):
        said.close()
    kind = "None" if said is None else type(said).__name__
    name = getattr(reply, "__name__", "reply")
    raise AgentError(
        f"its {name} must give text, not {kind}{locate_definition(reply)}. Return a str; what was"
        " finished is kept."
    )


def _make_own_agent(name: str) -> Agent:
    factory = _find_factory(name)
    if mismatch := _explain_mismatch(factory):
        raise AgentError(
            f"the agent {name} cannot be made without arguments"
            f" ({mismatch}){locate_definition(factory)}. {_WHAT}"
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
    _check_reply(name, agent)
    return cast(Agent, agent)


def _find_factory(name: str) -> Callable[..., Any]:
    module, attribute = _module(name), name.partition(":")[2]
    factory = getattr(module, attribute, None)
    if callable(factory):
        return factory
    names = [one for one, value in vars(module).items() if callable(value)]
    near = difflib.get_close_matches(attribute, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise AgentError(
        f"the agent {name} is not there: {module.__file__ or 'its module'} has no class or function"
        f" of that name.{hint} {_WHAT}"
    )


def _check_reply(name: str, agent: Any) -> None:
    """AgentError for methods that cannot be asked for a reply: found before a dialogue begins."""
    for verb in ("reply", "areply"):
        method = getattr(agent, verb, None)
        if callable(method) and (mismatch := _explain_mismatch(method, ())):
            raise AgentError(
                f"{name}: its {verb}{locate_definition(method)} cannot be called with the messages"
                f" alone ({mismatch}). Write it as: def {verb}(self, messages)"
            )
    if inspect.iscoroutinefunction(agent.reply):
        raise AgentError(
            f"{name}: its reply{locate_definition(agent.reply)} is async. Call it areply, and add a"
            " reply that is not."
        )


def _explain_mismatch(function: Callable[..., Any], *arguments: object) -> str:
    """Why it cannot be called with these arguments; "" when it can, or when nobody knows."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        return str(error)
    except ValueError:  # of functions in C
        return ""
    return ""


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
    module = name.partition(":")[0]
    try:
        return import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may raise anything when it is imported
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            raise AgentError(_explain_missing_module(name, missing)) from error
        raise AgentError(
            f"the agent {name} cannot be imported ({describe_error(error)}). Mend its module, or"
            " install what it imports."
        ) from error


def _explain_missing_module(name: str, missing: str) -> str:
    module, _, attribute = name.partition(":")
    if module.endswith(".py"):
        return (
            f"the agent {name} names a file. Name its module: {module.removesuffix('.py')}"
            f":{attribute}"
        )
    return (
        f"the agent {name} cannot be imported: there is no module {missing!r} in {os.getcwd()} or"
        " on PYTHONPATH. Start the command in the folder that holds it, or add that folder to"
        " PYTHONPATH."
    )
