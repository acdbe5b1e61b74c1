"""Requests to a chat server and its answers. All frozen; nothing here acts."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol


class ChatMessage(NamedTuple):
    """One message of a request, in the server's words: the model under test is the assistant."""

    role: Literal["system", "user", "assistant"]
    content: str

    def __repr__(self) -> str:
        return f"ChatMessage({self.role!r}, {len(self.content)} characters)"


@dataclass(frozen=True)
class ChatRequest:
    """Everything that determines an answer. Equal requests have equal keys, on every machine."""

    model: str
    messages: tuple[ChatMessage, ...]
    temperature: float = 1.0
    max_tokens: int | None = None
    seed: int | None = None
    """Sent to the server, which may or may not honour it."""
    sample: int = 0
    """Which of several answers to the same words is meant; counts from 0. Not sent."""
    schema: Mapping[str, Any] | None = None
    """A JSON schema that the answer should follow. Some servers ignore it: validate."""

    options: Mapping[str, Any] | None = None
    """Further fields of the request's body, sent as they are, over those above."""

    def json(self) -> str:
        plain = {
            "model": self.model,
            "messages": [list(message) for message in self.messages],
            "temperature": float(self.temperature),
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "sample": self.sample,
            "schema": self.schema,
            **({"options": dict(self.options)} if self.options else {}),
        }
        return json.dumps(plain, sort_keys=True, ensure_ascii=False)

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(self.json().encode()).hexdigest()

    def __repr__(self) -> str:
        return (
            f"ChatRequest(model={self.model!r}, messages={len(self.messages)},"
            f" key={self.key[:12]!r})"
        )


def make_object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with these fields and no others, as strict servers take it."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


class ChatAnswer(NamedTuple):
    """What a server answered: text that may be anything, for whoever asked to parse."""

    text: str
    finish_reason: str | None
    prompt_tokens: int
    completion_tokens: int
    """Tokens as the server counted them, or an estimate where it did not say."""

    def __repr__(self) -> str:
        return f"ChatAnswer({len(self.text)} characters, finish_reason={self.finish_reason!r})"


class Chat(Protocol):
    """Something that answers requests: a server, a cache, or a script in a test."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The answer. Raises a ChatError once all attempts and the time for them are used up."""
        ...
