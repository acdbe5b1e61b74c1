"""What an agent is: something that answers messages; and what a language model is told that takes
its part.
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

from rlver_gym.core.dialogue import Message
from rlver_gym.core.persona import Persona


class Agent(Protocol):
    """Someone who supports the user.

    Stateless agents can be resumed and branched; others are made anew for each dialogue.
    """

    def reply(self, messages: Sequence[Message]) -> str:
        """The next utterance, given everything said so far; the last message is the user's."""
        ...


@runtime_checkable
class AsyncAgent(Agent, Protocol):
    """An agent that has to wait for something, such as a server.

    It answers in many dialogues at once.
    """

    async def areply(self, messages: Sequence[Message]) -> str:
        """See `Agent.reply`."""
        ...


class NonBlocking:
    """Marks an agent whose `reply` never blocks: it is called on the event loop, without a thread
    of its own.
    """


AgentMaker = Callable[[Persona, int], Agent]
"""Makes an agent for one dialogue from the persona (only a privileged agent looks at it) and a
seed.
"""


def turn_of(messages: Sequence[Message]) -> int:
    """Which utterance comes next, counted from 0."""
    return sum(message.speaker == "agent" for message in messages)


def user_lines(messages: Sequence[Message]) -> list[str]:
    """What the user said, oldest first."""
    return [message.text for message in messages if message.speaker == "user"]


Style = Literal["direct", "think"]
"""direct: the reply is all that is said. think: `<think>…</think>` first, which nobody hears."""

_TALK = {
    "en": (
        "You are talking with somebody who has something on their mind. Answer them the way a good"
        " friend would, in a few sentences of everyday speech, so that they feel better for having"
        " talked to you."
    ),
    "zh": (
        "有人心里有事，想找你聊聊。像一个知心的朋友那样，用几句平常的话回应对方，"
        "让对方聊过之后心里好受一些。"
    ),
}
_THINK = {
    "en": (
        "Before each answer, think it over between <think> and </think>: what is going on in this"
        " person, what they might want from you, what you will say. They do not hear your thoughts."
        " After </think>, say your answer and nothing else.\nForm: <think>your thoughts</think>your"
        " answer"
    ),
    "zh": (
        "每次回应之前，先在 <think> 和 </think> 之间想一想：对方现在是什么心情，"
        "可能希望从你这里得到什么，你打算怎么说。"
        "对方听不到你的想法。写完 </think> 之后，只说你的回应，不要说别的。"
        "\n格式：<think>你的想法</think>你的回应"
    ),
}


def agent_prompt(language: Literal["en", "zh"] = "en", style: Style = "direct") -> str:
    """The system prompt of a policy."""
    return _TALK[language] if style == "direct" else f"{_TALK[language]}\n{_THINK[language]}"
