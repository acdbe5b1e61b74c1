"""Agents of people's own, by MODULE:NAME: made, and told apart by the content of their file."""

import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from rlver_gym.answers.reading import explain_missing_words, read_answer, read_words
from rlver_gym.core.agent import Agent, AgentMaker
from rlver_gym.util.errors import AgentError, AgentFailed
from rlver_gym.util.user_code import import_own, is_own_name, make_own

OTHERS = ("strategy", "openai", "hf")
"""What stands before the colon of agents that are not one's own."""
_WHAT = (
    "An agent is a class that needs no arguments (or a function that makes one), with a method"
    " reply(messages) -> str, or a function whose argument is called messages: see"
    " examples/your_own_agent.py. A message has speaker and text."
)


def is_own_agent(name: str) -> bool:
    return is_own_name(name, OTHERS)


def own_agent_maker(name: str) -> AgentMaker:
    """The maker of an agent of one's own; AgentError when it cannot be made. One is, to see."""
    _make_own_agent(name)
    return lambda persona, seed: _make_own_agent(name)


def require_text(said: object, verb: str = "reply") -> str:
    """What an agent of one's own said; AgentError for no text, AgentFailed for thoughts alone."""
    if isinstance(said, str):
        words = read_words(said)
        if said.strip() and not words:
            raise AgentFailed(
                f"its reply is no words: {explain_missing_words(read_answer(said).silence)}"
            )
        return words
    if inspect.iscoroutine(said):
        said.close()
    kind = "None" if said is None else type(said).__name__
    raise AgentError(
        f"its {verb} must give text, not {kind}. Return a str; what was finished is kept."
    )


def _make_own_agent(name: str) -> Agent:
    value: Any = getattr(import_own("agent", name, AgentError), name.partition(":")[2], None)
    if inspect.isfunction(value) and "messages" in inspect.signature(value).parameters:
        agent: Any = SimpleNamespace(reply=value)
    else:
        agent = make_own("agent", name, AgentError, _WHAT)
    if not callable(getattr(agent, "reply", None)):
        raise AgentError(
            f"{name} is no agent: what it makes is {type(agent).__name__!r}, which has no reply."
            f" {_WHAT}"
        )
    for verb in ("reply", "areply"):
        _check_method(name, verb, getattr(agent, verb, None))
    if inspect.iscoroutinefunction(agent.reply):
        raise AgentError(
            f"{name}: its reply is async. Call it areply, and add a reply that is not."
        )
    return cast(Agent, agent)


def _check_method(name: str, verb: str, method: Callable[..., Any] | None) -> None:
    """AgentError for one that cannot be called with the messages: before a dialogue begins."""
    try:
        if callable(method):
            inspect.signature(method).bind(())
    except TypeError as error:
        raise AgentError(
            f"{name}: its {verb} cannot be called with the messages alone ({error}). Write it as:"
            f" def {verb}(self, messages)"
        ) from None
    except ValueError:  # of functions in C nobody knows
        return


def is_async_own_agent(name: str) -> bool:
    """Whether it is a class of agents with `areply`, which answer in many dialogues at once."""
    module = import_own("agent", name, AgentError)
    return callable(getattr(getattr(module, name.partition(":")[2], None), "areply", None))


def source_hash(name: str) -> str | None:
    """16 hex digits of SHA-256 over the file of the agent's module; None without a file."""
    file = import_own("agent", name, AgentError).__file__
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file else None
