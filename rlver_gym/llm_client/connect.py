"""The way to a chat server: one client for all with the same settings, behind a cache."""

import asyncio
import atexit
import os
import threading
from dataclasses import dataclass

from rlver_gym.llm_client.admission import Outage
from rlver_gym.llm_client.client import ChatClient
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.llm_client.settings import CacheMode, ChatSettings, public_url, resolve_settings
from rlver_gym.llm_client.spending import Spending
from rlver_gym.llm_client.values import Chat, ChatAnswer, ChatRequest
from rlver_gym.util.errors import STOPPING, CacheError, ChatError, NotInCache, ServerRefused
from rlver_gym.util.event_loop import await_on_background_loop, wait_for
from rlver_gym.util.request_origin import REQUEST_ORIGIN


@dataclass(frozen=True)
class ChatHandle:
    """A Chat that is only its settings, to be copied, pickled and taken across a fork."""

    settings: ChatSettings

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        return await await_on_background_loop(_shared.chat(self.settings).complete(request))


def connect(settings: ChatSettings | None = None) -> ChatHandle:
    """A handle of a chat server, for any event loop, thread or process. Nothing is sent yet.

    Equal settings (with what the environment fills in) share one client: one set of connections.
    They may differ in their cache. One limit of requests under way and one count of spending are
    shared by all that say the same of server, key, budget, prices and concurrency.
    ServerRefused when OpenAI's own server has no key; CacheError for a file that is no cache.
    """
    handle = ChatHandle(resolve_settings(settings or ChatSettings()))
    _shared.chat(handle.settings)
    return handle


def spending(settings: ChatSettings | None = None) -> Spending:
    """What everybody who shares a budget with these settings has spent in this process; `reset()`
    begins a run.
    """
    return _shared.client(resolve_settings(settings or ChatSettings())).spending


def outage(settings: ChatSettings | None = None) -> Outage:
    """Whether the server of these settings is down, as everybody who shares its client found it."""
    return _shared.client(resolve_settings(settings or ChatSettings())).outage


def use_cache(cache: ResponseCache) -> None:
    """Have handles that name this cache's path use it. Call it before the first request."""
    _shared.use_cache(cache)


def close() -> None:
    """Close all connections and caches. Handles stay usable: they open new ones."""
    global _shared
    before, _shared = _shared, _Shared()
    for client in before.clients.values():
        wait_for(client.close())
    before.close_caches()


@dataclass
class _Fetch:
    """A request to the server, and how many wait for its answer."""

    task: asyncio.Task[ChatAnswer | ChatError]
    num_waiting: int = 0


class CachingClient:
    """Answers from a response cache, from a Chat, or from both. Belongs to one event loop. Equal
    requests are sent once, even at the same time. A request that failed is kept, and fails again
    with the same words; errors that stop a whole run are not kept.
    """

    def __init__(
        self, chat: Chat | None, cache: ResponseCache, mode: CacheMode = "auto", *, server: str = ""
    ) -> None:
        """`chat`: None for "replay". `server`: its address, stored with the answers."""
        self._chat, self._cache, self._mode, self._server = chat, cache, mode, server
        self._under_way: dict[str, _Fetch] = {}
        self._refreshed: set[tuple[int | None, str]] = set()
        """What was already fetched again: for which attempt, or for any when recording."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        origin = REQUEST_ORIGIN.get()
        attempt = origin.attempt if origin is not None else None
        overwrite = self._mode == "record" or (self._mode == "auto" and attempt is not None)
        again = overwrite and (attempt, request.key) not in self._refreshed
        result = None if again else self._cache.get(request.key)
        if result is None:
            result = await self._complete_once(request, overwrite)
            if not isinstance(result, STOPPING):
                self._refreshed.add((attempt, request.key))
        if isinstance(result, ChatError):
            raise result
        return result

    async def _complete_once(self, request: ChatRequest, overwrite: bool) -> ChatAnswer | ChatError:
        if self._chat is None or self._mode == "replay":
            raise NotInCache(
                f"{self._cache.path} holds no answer to request {request.key[:12]} (model"
                f" {request.model!r}, {len(request.messages)} messages). Replay the run that was"
                " recorded, with the same prompts and settings; or use cache mode auto to ask a"
                " server for what is missing."
            )
        fetch = self._under_way.get(request.key)
        if fetch is None:
            task = asyncio.create_task(self._fetch(self._chat, request, overwrite))
            fetch = self._under_way[request.key] = _Fetch(task)
            task.add_done_callback(lambda _: self._forget(request.key, fetch))
        fetch.num_waiting += 1
        try:
            return await asyncio.shield(fetch.task)
        finally:
            fetch.num_waiting -= 1
            if not fetch.num_waiting and not self._is_sent(request):
                self._forget(request.key, fetch)
                fetch.task.cancel()

    def _is_sent(self, request: ChatRequest) -> bool:
        """Whether the server works on it: that answer is paid for, and kept in any case."""
        return not isinstance(self._chat, ChatClient) or self._chat.is_under_way(request)

    def _forget(self, key: str, fetch: "_Fetch") -> None:
        if self._under_way.get(key) is fetch:
            del self._under_way[key]
        if fetch.task.done() and not fetch.task.cancelled():
            fetch.task.exception()  # seen: whoever waited may be gone, and asyncio would print it

    async def _fetch(
        self, chat: Chat, request: ChatRequest, overwrite: bool
    ) -> ChatAnswer | ChatError:
        try:
            result = await chat.complete(request)
        except STOPPING as error:
            of_one = error.if_answered if isinstance(error, ServerRefused) else ""
            if not of_one or not self._cache.has_answer_of(request.model):
                return error
            result = ChatError(of_one)
        except ChatError as error:
            result = error.with_traceback(None)
        return self._cache.put(request, result, server=self._server, overwrite=overwrite)


class _Shared:
    """What this process shares: clients by settings, caches by path and use."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._chats: dict[ChatSettings, Chat] = {}
        self.clients: dict[ChatSettings, ChatClient] = {}
        self._caches: dict[tuple[str, bool], ResponseCache] = {}

    def chat(self, settings: ChatSettings) -> Chat:
        if settings not in self._chats:
            with self._lock:
                self._chats.setdefault(settings, self._make_chat(settings))
        return self._chats[settings]

    def _make_chat(self, settings: ChatSettings) -> Chat:
        path, mode = settings.response_cache, settings.cache_mode
        if path is None and mode in ("record", "replay"):
            raise CacheError(
                f"cache mode {mode} needs a response cache: give its file (response_cache,"
                " --response-cache)."
            )
        if path is None or mode == "off":
            return self.client(settings)
        read_only = mode == "replay"
        place = os.path.abspath(path), read_only
        if place not in self._caches:
            self._caches[place] = ResponseCache(path, read_only=read_only)
        client = None if read_only else self.client(settings)
        return CachingClient(client, self._caches[place], mode, server=public_url(settings))

    def use_cache(self, cache: ResponseCache) -> None:
        place = os.path.abspath(cache.path)
        with self._lock:
            self._caches |= {(place, False): cache, (place, True): cache}

    def client(self, settings: ChatSettings) -> ChatClient:
        bare = settings.model_copy(update={"response_cache": None, "cache_mode": "off"})
        with self._lock:
            if bare not in self.clients:
                alike = (one for one in self.clients if _limits_of(one) == _limits_of(bare))
                beside = next(map(self.clients.get, alike), None)
                self.clients[bare] = ChatClient(bare, beside=beside)
            return self.clients[bare]

    def close_caches(self) -> None:
        # Who writes a file closes it last.
        for _, cache in sorted(self._caches.items(), key=lambda entry: not entry[0][1]):
            cache.close()


def _limits_of(settings: ChatSettings) -> tuple[object, ...]:
    """What bounds requests to one server, however else they are sent."""
    one = settings
    return one.base_url, one.api_key, one.budget, one.prices, one.concurrency


_shared = _Shared()
_of_the_parent: list[_Shared] = []
"""Kept but never touched after a fork: its connections and files belong to the parent."""


def _begin_anew() -> None:
    global _shared
    _of_the_parent.append(_shared)
    _shared = _Shared()


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(lambda: _shared.close_caches())
