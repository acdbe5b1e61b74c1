"""What an agent is, and what a language model is told that takes its part."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

from rlver_gym.core.dialogue import Message
from rlver_gym.core.languages import AGENT_TEXTS, Language
from rlver_gym.core.persona import Persona


class Agent(Protocol):
    """Someone who supports the user. Only those without state can be resumed and branched."""

    def reply(self, messages: Sequence[Message]) -> str:
        """The next utterance, given everything said so far; the last message is the user's."""
        ...


@runtime_checkable
class AsyncAgent(Agent, Protocol):
    """An agent that waits for something, such as a server, and answers many at once."""

    async def areply(self, messages: Sequence[Message]) -> str: ...


class NonBlocking:
    """Marks an agent whose `reply` never blocks, so that it needs no thread of its own."""


AgentMaker = Callable[[Persona | None, int], Agent]
"""Makes an agent for a dialogue from seed and persona, at which only a privileged one looks."""


def turn_of(messages: Sequence[Message]) -> int:
    """Which utterance comes next, counted from 0."""
    return sum(message.speaker == "agent" for message in messages)


def user_lines(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if message.speaker == "user"]


Style = Literal["direct", "think"]
"""direct: the reply is all that is said. think: `<think>…</think>` first, which nobody hears."""


def agent_prompt(language: Language = "en", style: Style = "direct") -> str:
    told = AGENT_TEXTS[language]
    return told.talk if style == "direct" else f"{told.talk}\n{told.think}"
