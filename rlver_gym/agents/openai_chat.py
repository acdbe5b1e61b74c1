"""An agent behind any OpenAI-compatible server. Its prompt says what every agent may know: that somebody needs to talk."""

import hashlib
import os
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

import openai
from pydantic import BaseModel, Field, ValidationError

from rlver_gym.dialogue import Message
from rlver_gym.errors import AgentError

SYSTEM = "You are talking with somebody who has something on their mind. Answer them the way a good friend would, in a few sentences, so that they feel better for having talked to you."
_THOUGHTS = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL)


class _Said(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Said


class _Completion(BaseModel):
    """What is used of a server's answer."""

    choices: list[_Choice] = Field(min_length=1)


class OpenAIChat:
    """`openai:MODEL`. Key and server come from OPENAI_API_KEY and OPENAI_BASE_URL."""

    def __init__(self, model: str, *, system: str = SYSTEM, timeout_s: float = 60.0, max_retries: int = 2) -> None:
        """`timeout_s` is for one answer, shared by all attempts. Raises AgentError when no key is set; servers that need none take any."""
        self.model = model
        self.system = system
        self.timeout_s = timeout_s
        self.attempts = max_retries + 1
        try:
            self._client = openai.OpenAI(timeout=timeout_s / self.attempts, max_retries=max_retries)
        except openai.OpenAIError as error:
            raise AgentError(
                "no API key. Set OPENAI_API_KEY (any text for a local server) and, for a local server, OPENAI_BASE_URL."
            ) from error

    def reply(self, messages: Sequence[Message]) -> str:
        """One completion, without the thoughts (`<think>…</think>`) that some models put before their answer.

        Raises AgentError when the server cannot be reached, is too slow, or answers with anything but a completion that holds text.
        """
        raw = self._asked(messages)
        try:
            answer = _Completion.model_validate_json(raw)
        except ValidationError as error:
            raise AgentError(
                f"{self._server} did not answer with a chat completion, but with {raw[:200]!r}. Does OPENAI_BASE_URL end in /v1?"
            ) from error
        text = _THOUGHTS.sub("", answer.choices[0].message.content or "").strip()
        if not text:
            raise AgentError(f"{self._server} answered without text for model {self.model!r}: {raw[:200]!r}")
        return text

    def _asked(self, messages: Sequence[Message]) -> str:
        """What the server sent back, as it came."""
        chat = [{"role": "system", "content": self.system}]
        chat += [
            {"role": "assistant" if message.speaker == "agent" else "user", "content": message.text}
            for message in messages
        ]
        try:
            return self._client.chat.completions.with_raw_response.create(model=self.model, messages=chat).text  # pyright: ignore[reportArgumentType]
        except openai.APITimeoutError as error:
            raise AgentError(
                f"no answer from {self._server} within {self.timeout_s:g} s ({self.attempts} attempts). Is it overloaded, or the model too slow?"
            ) from error
        except openai.APIConnectionError as error:
            raise AgentError(
                f"no answer from {self._server}. Is the server up? OPENAI_BASE_URL sets where it is."
            ) from error
        except openai.APIStatusError as error:
            raise AgentError(
                f"{self._server} answered {error.status_code} for model {self.model!r}: {str(error.message)[:300]}"
            ) from error

    @property
    def _server(self) -> str:
        return _public(str(self._client.base_url))


def pin() -> dict[str, str | None]:
    """What decides an answer beside the model's name: the server (without credentials) and the prompt."""
    return {
        "base_url": _public(os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"),
        "system": hashlib.sha256(SYSTEM.encode()).hexdigest()[:16],
    }


def _public(url: str) -> str:
    """The address without user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
