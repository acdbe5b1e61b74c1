"""An agent behind any OpenAI-compatible server. Its prompt says what every agent may know: that somebody needs to talk."""

from collections.abc import Sequence

import openai

from rlver_gym.dialogue import Message
from rlver_gym.errors import AgentError

SYSTEM = "You are talking with somebody who has something on their mind. Answer them the way a good friend would, in a few sentences, so that they feel better for having talked to you."


class OpenAIChat:
    """`openai:MODEL`. Key and server come from OPENAI_API_KEY and OPENAI_BASE_URL."""

    def __init__(self, model: str, *, system: str = SYSTEM, timeout_s: float = 60.0, max_retries: int = 3) -> None:
        """Raises AgentError when no key is set; servers that need none take any."""
        self.model = model
        self.system = system
        try:
            self._client = openai.OpenAI(timeout=timeout_s, max_retries=max_retries)
        except openai.OpenAIError as error:
            raise AgentError(
                "no API key. Set OPENAI_API_KEY (any text for a local server) and, for a local server, OPENAI_BASE_URL."
            ) from error

    def reply(self, messages: Sequence[Message]) -> str:
        """One completion. Raises AgentError when the server cannot be reached or answers with an error or without text."""
        chat = [{"role": "system", "content": self.system}]
        chat += [
            {"role": "assistant" if message.speaker == "agent" else "user", "content": message.text}
            for message in messages
        ]
        try:
            answer = self._client.chat.completions.create(model=self.model, messages=chat)  # pyright: ignore[reportArgumentType]
        except openai.APIConnectionError as error:
            raise AgentError(
                f"no answer from {self._client.base_url}. Is the server up? OPENAI_BASE_URL sets where it is."
            ) from error
        except openai.APIStatusError as error:
            raise AgentError(
                f"{self._client.base_url} answered {error.status_code} for model {self.model!r}: {str(error.message)[:300]}"
            ) from error
        text = answer.choices[0].message.content if answer.choices else None
        if text is None:
            raise AgentError(f"{self._client.base_url} answered without text for model {self.model!r}.")
        return text
