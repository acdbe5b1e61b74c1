"""An agent behind any OpenAI-compatible server.

Its prompt says what every agent may know: that somebody needs to talk.
"""

import hashlib
from collections.abc import Iterator, Sequence

from rlver_gym.core.answer import explain, read_answer
from rlver_gym.core.dialogue import Message
from rlver_gym.io.errors import STOPPING, AgentFailed, ChatError
from rlver_gym.io.event_loop import wait_for
from rlver_gym.llm_client.connect import connect
from rlver_gym.llm_client.settings import ChatSettings, public_url
from rlver_gym.llm_client.values import Chat, ChatMessage, ChatRequest

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
        chat: Chat | ChatSettings | None = None,
    ) -> None:
        """`seed` goes to the server, which may honour it.

        `max_tokens`: where an answer is cut. `chat`: who answers, or how the server is reached.
        """
        self.model = model
        self.system = system
        self.seed = seed
        self.max_tokens = max_tokens
        if chat is None or isinstance(chat, ChatSettings):
            settings = chat or ChatSettings()
            self._chat, self._where = connect(settings), f"{public_url(settings)}, openai:{model}"
            self._tape = settings.tape
        else:
            self._chat, self._where = chat, f"openai:{model}"
            self._tape = None

    def reply(self, messages: Sequence[Message]) -> str:
        """See `areply`."""
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
        )
        try:
            answer = await self._chat.complete(request)
        except STOPPING:
            raise
        except ChatError as error:
            again = (
                f" To ask again: rlver-gym tape prune --failures {self._tape}" if self._tape else ""
            )
            raise AgentFailed(f"{self._where}: {error}{again}") from error
        reply = read_answer(answer.text, answer.finish_reason)
        if reply.silence:
            raise AgentFailed(f"{self._where} answered without text: {explain(reply.silence)}")
        return reply.words

    def _to_chat_messages(self, messages: Sequence[Message]) -> Iterator[ChatMessage]:
        yield ChatMessage("system", self.system)
        for message in messages:
            yield ChatMessage("assistant" if message.speaker == "agent" else "user", message.text)


def pin(settings: ChatSettings | None = None) -> dict[str, str | None]:
    """What decides an answer beside the model's name: the server (without credentials) and the
    prompt.
    """
    return {
        "base_url": public_url(settings or ChatSettings()),
        "system": hashlib.sha256(SYSTEM.encode()).hexdigest()[:16],
    }
