"""Answers from a script: for a `Chat` without a network, and for the server."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rlver_gym.io.errors import ChatError
from rlver_gym.llm_client.values import ChatAnswer, ChatRequest
from rlver_gym.testing.replies import tokens

RequestT = TypeVar("RequestT")


class ScriptedChat:
    """A `Chat` that answers from a script, for `LLMUser(chat=ScriptedChat([...]))` in tests."""

    def __init__(
        self,
        answers: str
        | Iterable[str | ChatAnswer | Exception]
        | Callable[[ChatRequest], str | ChatAnswer],
    ) -> None:
        """`answers` is one text for every request, or texts in order (an exception is raised when
        its turn comes), or a function of the request. A ChatAnswer instead of a text comes as it
        is: cut off, say.
        """
        self.requests: list[ChatRequest] = []
        """What was asked, in order."""
        self._answer = make_answer_function(answers)

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The script's answer, at once.

        Raises the script's exceptions, and ChatError when a list is used up.
        """
        self.requests.append(request)
        text = self._answer(request)
        if isinstance(text, ChatAnswer):
            return text
        asked = sum(tokens(message.content) for message in request.messages)
        return ChatAnswer(text, "stop", asked, tokens(text))


def make_answer_function(
    answers: str | Iterable[str | ChatAnswer | Exception] | Callable[[RequestT], Any],
) -> Callable[[RequestT], Any]:
    """The function that a script stands for: `answers` itself, always the same text, or one after
    the other.
    """
    if callable(answers):
        return answers
    return (lambda _: answers) if isinstance(answers, str) else _in_order(tuple(answers))


def _in_order(answers: tuple[str | ChatAnswer | Exception, ...]) -> Callable[[Any], Any]:
    left = iter(answers)

    def answer(_: Any) -> str | ChatAnswer:
        following = next(left, None)
        if following is None:
            raise ChatError(
                f"the script is used up: it holds {len(answers)} answers, and one more was"
                " asked for"
            )
        if isinstance(following, Exception):
            raise following
        return following

    return answer
