"""A Chat that keeps what it hears, and can repeat it."""

import asyncio

from rlver_gym.io.errors import STOPPING, ChatError, NotOnTape
from rlver_gym.llm_client.outage import ASKER
from rlver_gym.llm_client.response_cache import Tape
from rlver_gym.llm_client.settings import TapeMode
from rlver_gym.llm_client.values import Chat, ChatAnswer, ChatRequest


class TapedChat:
    """Answers from a tape, from a Chat, or from both. Belongs to one event loop.

    Equal requests are asked once, even while the first is still under way, so that what anybody hears does not depend on who came
    first. A request that failed is kept as failed, and fails again with the same words when replayed; errors that stop
    a whole run are not kept.
    """

    def __init__(self, chat: Chat | None, tape: Tape | None, mode: TapeMode = "auto", *, server: str = "") -> None:
        """`chat` may be None for "replay". `tape` may be None for "off". `server`: its public address, noted on the tape."""
        if (chat is None and mode != "replay") or (tape is None and mode != "off"):
            raise ValueError(f"mode {mode!r} needs {'a chat' if chat is None else 'a tape'}")
        self._chat = chat
        self._tape = tape
        self._mode: TapeMode = mode
        self._server = server
        self._under_way: dict[str, asyncio.Task[ChatAnswer | ChatError]] = {}
        self._renewed: set[tuple[int | None, str]] = set()
        """What was asked anew already: by which dialogue, or by any when recording."""

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        """The answer. NotOnTape when a replay lacks it; TapeError when the tape was changed; otherwise as the Chat."""
        if self._tape is None or self._mode == "off":
            assert self._chat is not None
            return await self._chat.ask(request)
        result = self._held(self._tape, request.key)
        if result is None:
            result = await self._asked_once(self._tape, request)
        if isinstance(result, ChatError):
            raise result
        return result

    def _held(self, tape: Tape, key: str) -> ChatAnswer | ChatError | None:
        """What the tape answers, if it is to be believed in this mode."""
        return None if self._is_asked_anew(key) else tape.get(key)

    def _is_asked_anew(self, key: str) -> bool:
        """Whether the server is asked although the tape holds an answer: once when recording, and once for a dialogue that failed and is held again."""
        return self._asks_anew() and (self._renewing(), key) not in self._renewed

    def _asks_anew(self) -> bool:
        return self._mode == "record" or (self._mode == "auto" and self._renewing() is not None)

    def _renewing(self) -> int | None:
        """The dialogue that is held again; None for any other."""
        asker = ASKER.get()
        return asker.dialogue if asker is not None and asker.renew else None

    async def _asked_once(self, tape: Tape, request: ChatRequest) -> ChatAnswer | ChatError:
        if self._chat is None or self._mode == "replay":
            raise NotOnTape(
                f"{tape.path} holds no answer to request {request.key[:12]} (model {request.model!r}, {len(request.messages)} messages). "
                "Replay the run that was recorded, with the same prompts and settings; or use tape mode auto to ask a server for what is missing."
            )
        task = self._under_way.get(request.key)
        if task is None:
            task = asyncio.create_task(self._recorded(self._chat, tape, request))
            self._under_way[request.key] = task
            task.add_done_callback(lambda done: self._forget(request.key, done))
        return await asyncio.shield(task)

    def _forget(self, key: str, task: asyncio.Task[ChatAnswer | ChatError]) -> None:
        self._under_way.pop(key, None)
        if not task.cancelled():
            task.exception()  # seen: whoever waited may have been cancelled, and asyncio would print it

    async def _recorded(self, chat: Chat, tape: Tape, request: ChatRequest) -> ChatAnswer | ChatError:
        try:
            result = await chat.ask(request)
        except STOPPING as error:
            return error
        except ChatError as error:
            result = error.with_traceback(None)
        kept = tape.put(request, result, server=self._server, renew=self._asks_anew())
        self._renewed.add((self._renewing(), request.key))
        return kept
