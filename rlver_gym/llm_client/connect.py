"""The way to a chat server: one client for everybody in the process who means the same server,
behind a response cache when one is asked for.
"""

import atexit
import os
import threading
from dataclasses import dataclass

from rlver_gym.io.errors import CacheError
from rlver_gym.io.event_loop import await_on_background_loop, wait_for
from rlver_gym.llm_client.caching_client import CachingClient
from rlver_gym.llm_client.client import ChatClient
from rlver_gym.llm_client.outage import Outage
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.llm_client.settings import ChatSettings, public_url, resolve_settings
from rlver_gym.llm_client.spending import Spending
from rlver_gym.llm_client.values import Chat, ChatAnswer, ChatRequest


@dataclass(frozen=True)
class ChatHandle:
    """A Chat that is only its settings, so that it can be copied, pickled and taken across a fork:
    it finds the shared client with each request.
    """

    settings: ChatSettings

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The answer, of the server or the cache.

        Works on any event loop; the request itself is made on the background loop.
        """
        return await await_on_background_loop(_shared.chat(self.settings).complete(request))


def connect(settings: ChatSettings | None = None) -> ChatHandle:
    """A handle of a chat server, for any event loop, thread or process. Nothing is sent yet.

    Equal settings (with what the environment fills in) share one client: one limit of requests
    under way, one count of spending, one set of connections. They may differ in their
    response_cache.
    ServerRefused when OpenAI's own server has no key; CacheError for a response cache that is none.
    """
    handle = ChatHandle(resolve_settings(settings or ChatSettings()))
    _shared.chat(handle.settings)
    return handle


def spending(settings: ChatSettings | None = None) -> Spending:
    """What everybody with these settings has spent so far in this process.

    Begin a new run with `spending(settings).reset()`.
    """
    return _shared.client(resolve_settings(settings or ChatSettings())).spending


def outage(settings: ChatSettings | None = None) -> Outage:
    """Whether the server of these settings is down, as everybody in this process who shares its
    client has found it.
    """
    return _shared.client(resolve_settings(settings or ChatSettings())).outage


def use_cache(cache: ResponseCache) -> None:
    """Have every handle whose settings name this cache's path as their response_cache use it, and
    open no file. Call it before the first request.
    """
    _shared.use_cache(cache)


def close() -> None:
    """Close all connections and caches, and forget what was spent.

    Handles stay usable: they open new ones.
    """
    global _shared
    before, _shared = _shared, _Shared()
    for client in before.clients.values():
        wait_for(client.close())
    before.close_caches()


class _Shared:
    """What this process shares: clients by their settings without a cache, and caches by their path
    and whether they are only read.
    """

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
        mode = settings.cache_mode
        if settings.response_cache is None and mode in ("record", "replay"):
            raise CacheError(
                f"cache mode {mode} needs a response cache: give its file (response_cache,"
                f" --response-cache)."
            )
        if settings.response_cache is None or mode == "off":
            return self.client(settings)
        read_only = mode == "replay"
        place = os.path.abspath(settings.response_cache), read_only
        if place not in self._caches:
            self._caches[place] = ResponseCache(settings.response_cache, read_only=read_only)
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
                self.clients[bare] = ChatClient(bare)
            return self.clients[bare]

    def close_caches(self) -> None:
        # Who writes a file closes it last.
        for _, cache in sorted(self._caches.items(), key=lambda one: not one[0][1]):
            cache.close()


_shared = _Shared()
_of_the_parent: list[_Shared] = []
"""Kept but never touched after a fork: its connections and files belong to the parent."""


def _begin_anew() -> None:
    global _shared
    _of_the_parent.append(_shared)
    _shared = _Shared()


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(lambda: _shared.close_caches())
