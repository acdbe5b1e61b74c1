"""An agent behind any OpenAI-compatible server, told what every agent may know."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationError

from rlver_gym.answers.reading import explain_missing_words, read_answer
from rlver_gym.core.dialogue import Message
from rlver_gym.llm_client.body_fields import THINKING_SWITCH, BodyFields
from rlver_gym.llm_client.connect import connect
from rlver_gym.llm_client.settings import ChatSettings, public_url
from rlver_gym.llm_client.values import Chat, ChatMessage, ChatRequest
from rlver_gym.util.errors import STOPPING, AgentError, AgentFailed, ChatError, check_known
from rlver_gym.util.event_loop import wait_for
from rlver_gym.util.frozen import explain_problems

SYSTEM = (
    "You are talking with somebody who has something on their mind. Answer them the way a good"
    " friend would, in a few sentences, so that they feel better for having talked to you."
)


class OpenAIChat:
    """`openai:MODEL`, with the key and the server of the environment unless the settings differ."""

    def __init__(
        self,
        model: str,
        *,
        system: str = SYSTEM,
        seed: int | None = None,
        max_tokens: int | None = None,
        options: Mapping[str, Any] | None = None,
        chat: Chat | ChatSettings | None = None,
    ) -> None:
        """`seed` goes to the server, which may honour it.

        `max_tokens`: where an answer is cut. `options`: as of `parse_agent_options`. `chat`: who
        answers, or how the server is reached.
        """
        self.model = model
        self.system = system
        self.seed = seed
        self.max_tokens = max_tokens
        self.options = parse_agent_options(options or {})
        if chat is None or isinstance(chat, ChatSettings):
            settings = chat or ChatSettings()
            self._chat, self._where = connect(settings), f"{public_url(settings)}, openai:{model}"
            self._cache = settings.response_cache
        else:
            self._chat, self._where = chat, f"openai:{model}"
            self._cache = None

    def reply(self, messages: Sequence[Message]) -> str:
        return wait_for(self.areply(messages))

    async def areply(self, messages: Sequence[Message]) -> str:
        """The words of one completion, without thoughts. One that was cut at the limit of tokens is
        what the agent said until then; a thought that was cut is no reply.

        AgentFailed when there is no usable answer, or none that holds text; a ChatError that
        concerns the whole run comes as it is.
        """
        request = ChatRequest(
            self.model,
            tuple(self._to_chat_messages(messages)),
            max_tokens=self.max_tokens,
            seed=self.seed,
            options=self.options or None,
        )
        try:
            answer = await self._chat.complete(request)
        except STOPPING:
            raise
        except ChatError as error:
            again = (
                f" To ask again: rlver-gym cache prune --failures {self._cache}"
                if self._cache
                else ""
            )
            raise AgentFailed(f"{self._where}: {error}{again}") from error
        reply = read_answer(answer.text, answer.finish_reason)
        if reply.silence:
            why = explain_missing_words(reply.silence, switch=THINKING_SWITCH)
            raise AgentFailed(f"{self._where} answered without text: {why}")
        return reply.words

    def _to_chat_messages(self, messages: Sequence[Message]) -> Iterator[ChatMessage]:
        yield ChatMessage("system", self.system)
        for message in messages:
            yield ChatMessage(message.role, message.text)


class _AgentOptions(BodyFields):
    """All that can be chosen about what an agent is asked with; None: not sent."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    stop: str | list[str] | None = None

    def to_body(self) -> dict[str, Any]:
        own = set(_AgentOptions.model_fields) - set(BodyFields.model_fields)
        return self.model_dump(mode="json", include=own, exclude_none=True) | super().to_body()


AGENT_OPTIONS = tuple(_AgentOptions.model_fields)


def parse_agent_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request's body that these options of an `openai:MODEL` agent mean.

    UnknownName for one that there is not, AgentError for a value that cannot be meant.
    """
    for name in options:
        check_known("agent option", name, AGENT_OPTIONS)
    try:
        return _AgentOptions.model_validate(dict(options)).to_body()
    except ValidationError as error:
        raise AgentError(f"agent option {explain_problems(error)}") from None


def pin(settings: ChatSettings | None = None) -> dict[str, str | None]:
    """What decides an answer beside the model's name: server, prompt, omitted fields."""
    omitted = ",".join(sorted(settings.omit)) if settings else ""
    return {
        **({"omit": omitted} if omitted else {}),
        "base_url": public_url(settings or ChatSettings()),
        "system": hashlib.sha256(SYSTEM.encode()).hexdigest()[:16],
    }
