"""An agent behind any OpenAI-compatible server.

Its prompt says what every agent may know: that somebody needs to talk.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field, JsonValue, ValidationError

from rlver_gym.core.answer import explain_missing_words, read_answer
from rlver_gym.core.dialogue import Message
from rlver_gym.llm_client.connect import connect
from rlver_gym.llm_client.settings import ChatSettings, public_url
from rlver_gym.llm_client.values import Chat, ChatMessage, ChatRequest
from rlver_gym.util.errors import STOPPING, AgentError, AgentFailed, ChatError, UnknownName
from rlver_gym.util.event_loop import wait_for
from rlver_gym.util.frozen import Frozen, explain_problem

SYSTEM = (
    "You are talking with somebody who has something on their mind. Answer them the way a good"
    " friend would, in a few sentences, so that they feel better for having talked to you."
)


class OpenAIChat:
    """`openai:MODEL`.

    Key and server come from OPENAI_API_KEY and OPENAI_BASE_URL unless the settings say otherwise.
    Many dialogues may ask at once.
    """

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
            raise AgentFailed(
                f"{self._where} answered without text: {explain_missing_words(reply.silence)}"
            )
        return reply.words

    def _to_chat_messages(self, messages: Sequence[Message]) -> Iterator[ChatMessage]:
        yield ChatMessage("system", self.system)
        for message in messages:
            yield ChatMessage("assistant" if message.speaker == "agent" else "user", message.text)


class _AgentOptions(Frozen):
    """Fields of a request's body, for the bounds of their values."""

    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=-1)
    min_p: float = Field(default=0.0, ge=0, le=1)
    max_tokens: int = Field(default=1, ge=1)
    max_completion_tokens: int = Field(default=1, ge=1)
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    repetition_penalty: float = Field(default=1.0, gt=0)
    stop: str | list[str] = ""
    thinking: bool | dict[str, JsonValue] = True
    """The switch of models that think: true and false go as `chat_template_kwargs` (vLLM, SGLang,
    llama.cpp), an object as it is (`{"type": "disabled"}`).
    """
    enable_thinking: bool = True
    reasoning_effort: str = ""
    reasoning: dict[str, JsonValue] = Field(default_factory=dict)
    chat_template_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    provider: dict[str, JsonValue] = Field(default_factory=dict)


AGENT_OPTIONS = tuple(_AgentOptions.model_fields)
"""All that `parse_agent_options` knows."""


def parse_agent_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request's body that these options of an `openai:MODEL` agent mean.

    UnknownName for one that there is not, AgentError for a value that cannot be meant.
    """
    for name in options:
        if name not in AGENT_OPTIONS:
            raise UnknownName.of("agent option", name, AGENT_OPTIONS, ", ".join(AGENT_OPTIONS))
    try:
        known = _AgentOptions.model_validate(dict(options))
    except ValidationError as error:
        wrong = "; ".join(f"{one['loc'][0]}: {explain_problem(one)}" for one in error.errors())
        raise AgentError(f"agent option {wrong}") from None
    body = known.model_dump(mode="json", include=set(options))
    if isinstance(body.get("thinking"), bool):
        switch = {"enable_thinking": body.pop("thinking")}
        body["chat_template_kwargs"] = {**body.get("chat_template_kwargs", {}), **switch}
    return body


def pin(settings: ChatSettings | None = None) -> dict[str, str | None]:
    """What decides an answer beside the model's name: the server (without credentials), the prompt,
    and fields that are left out.
    """
    omitted = ",".join(sorted(settings.omit)) if settings else ""
    return {
        **({"omit": omitted} if omitted else {}),
        "base_url": public_url(settings or ChatSettings()),
        "system": hashlib.sha256(SYSTEM.encode()).hexdigest()[:16],
    }
