"""A Chat that caches the answers of another, and can replay them."""

import asyncio

from rlver_gym.io.errors import STOPPING, ChatError, NotInCache, ServerRefused
from rlver_gym.io.event_loop import REQUEST_ORIGIN
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.llm_client.settings import CacheMode
from rlver_gym.llm_client.values import Chat, ChatAnswer, ChatRequest


class CachingClient:
    """Answers from a response cache, from a Chat, or from both. Belongs to one event loop.

    Equal requests are sent once, even while the first is still under way, so that the answers do
    not depend on who came first. A request that failed is kept as failed, and fails again with the
    same words when replayed; errors that stop a whole run are not kept.
    """

    def __init__(
        self,
        chat: Chat | None,
        cache: ResponseCache | None,
        mode: CacheMode = "auto",
        *,
        server: str = "",
    ) -> None:
        """`chat` may be None for "replay".

        `cache` may be None for "off". `server`: its public address, stored with the answers.
        """
        if (chat is None and mode != "replay") or (cache is None and mode != "off"):
            raise ValueError(
                f"mode {mode!r} needs {'a chat' if chat is None else 'a response cache'}"
            )
        self._chat = chat
        self._cache = cache
        self._mode: CacheMode = mode
        self._server = server
        self._under_way: dict[str, asyncio.Task[ChatAnswer | ChatError]] = {}
        self._refreshed: set[tuple[int | None, str]] = set()
        """What was already fetched again: by which dialogue, or by any when recording."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The answer.

        NotInCache when a replay lacks it; CacheError when the cache was changed; otherwise as the
        Chat.
        """
        if self._cache is None or self._mode == "off":
            assert self._chat is not None
            return await self._chat.complete(request)
        result = self._look_up(self._cache, request.key)
        if result is None:
            result = await self._complete_once(self._cache, request)
        if isinstance(result, ChatError):
            raise result
        return result

    def _look_up(self, cache: ResponseCache, key: str) -> ChatAnswer | ChatError | None:
        """The cached result, if it may be used in this mode."""
        return None if self._is_bypassed(key) else cache.get(key)

    def _is_bypassed(self, key: str) -> bool:
        """Whether the request goes to the server although the cache holds an answer: once when
        recording, and once for a dialogue that failed and is run again.
        """
        return self._overwrites() and (self._bypassing_dialogue(), key) not in self._refreshed

    def _overwrites(self) -> bool:
        return self._mode == "record" or (
            self._mode == "auto" and self._bypassing_dialogue() is not None
        )

    def _bypassing_dialogue(self) -> int | None:
        """The dialogue that is run again and bypasses the cache; None for any other."""
        origin = REQUEST_ORIGIN.get()
        return origin.dialogue if origin is not None and origin.bypass_cache else None

    async def _complete_once(
        self, cache: ResponseCache, request: ChatRequest
    ) -> ChatAnswer | ChatError:
        if self._chat is None or self._mode == "replay":
            raise NotInCache(
                f"{cache.path} holds no answer to request {request.key[:12]} (model"
                f" {request.model!r}, {len(request.messages)} messages). Replay the run that was"
                " recorded, with the same prompts and settings; or use cache mode auto to ask a"
                " server for what is missing."
            )
        task = self._under_way.get(request.key)
        if task is None:
            task = asyncio.create_task(self._complete_and_store(self._chat, cache, request))
            self._under_way[request.key] = task
            task.add_done_callback(lambda done: self._forget(request.key, done))
        return await asyncio.shield(task)

    def _forget(self, key: str, task: asyncio.Task[ChatAnswer | ChatError]) -> None:
        self._under_way.pop(key, None)
        if not task.cancelled():
            # seen: whoever waited may have been cancelled, and asyncio would print it
            task.exception()

    async def _complete_and_store(
        self, chat: Chat, cache: ResponseCache, request: ChatRequest
    ) -> ChatAnswer | ChatError:
        try:
            result = await chat.complete(request)
        except STOPPING as error:
            of_one = error.if_answered if isinstance(error, ServerRefused) else ""
            if not of_one or not cache.has_answer_of(request.model):
                return error
            result = ChatError(of_one)
        except ChatError as error:
            result = error.with_traceback(None)
        stored = cache.put(request, result, server=self._server, overwrite=self._overwrites())
        self._refreshed.add((self._bypassing_dialogue(), request.key))
        return stored
