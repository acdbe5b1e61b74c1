"""A person at the keyboard as the agent."""

from collections.abc import Sequence

from rich.text import Text

from rlver_gym.core.dialogue import Message
from rlver_gym.util.errors import AgentError
from rlver_gym.util.keyboard import read_utterance
from rlver_gym.util.terminal import SafeConsole


class Human:
    """Shows what the user said and reads the answer from the terminal. Enter alone is silence."""

    def __init__(self) -> None:
        self._console = SafeConsole()

    def reply(self, messages: Sequence[Message]) -> str:
        """What was typed. AgentError at the end of input."""
        self._console.print(Text.assemble(("user  ", "bold"), messages[-1].text))
        try:
            return read_utterance(self._console, Text("you   ", style="bold cyan"))
        except EOFError:
            raise AgentError(
                "the input ended. The same command goes on with this dialogue."
            ) from None
