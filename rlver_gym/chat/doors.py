"""Connections to one server: several small pools instead of one, since what a call costs grows with the size of its pool."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2
import openai

from rlver_gym.chat.settings import ChatSettings

LARGEST_ANSWER = 1 << 20
"""Bytes of an answer that are read; a larger one is given up there."""
_IN_ONE_POOL = 16
_CONNECT_S = 5.0
"""Longest time to connect; less where a whole request has little. Everything else ends at the deadline of the request."""
_IDLE_S = 30.0


class TooLarge(Exception):
    """The body of an answer is larger than anybody needs."""


class _Capped(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > LARGEST_ANSWER:
                raise TooLarge
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _cap(response: httpx2.Response) -> None:
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Capped(response.stream)


@dataclass
class _Pool:
    client: openai.AsyncOpenAI
    inside: int = 0
    """Requests under way."""


class Doors:
    """Opens as many pools as the requests under way need. Belongs to one event loop."""

    def __init__(self, settings: ChatSettings) -> None:
        """`settings` with address and key filled in."""
        self._settings = settings
        self._times = httpx2.Timeout(None, connect=min(_CONNECT_S, settings.timeout_s / 4))
        self._trust = httpx2.create_ssl_context()
        self._pools: list[_Pool] = []

    @contextmanager
    def one(self) -> Iterator[openai.AsyncOpenAI]:
        """A client with a connection to spare."""
        pool = next((pool for pool in self._pools if pool.inside < _IN_ONE_POOL), None)
        if pool is None:
            pool = _Pool(self._opened())
            self._pools.append(pool)
        pool.inside += 1
        try:
            yield pool.client
        finally:
            pool.inside -= 1

    async def close(self) -> None:
        """Close all connections."""
        pools, self._pools = self._pools, []
        for pool in pools:
            await pool.client.close()

    def _opened(self) -> openai.AsyncOpenAI:
        http = openai.DefaultAsyncHttpxClient(
            timeout=self._times,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_IDLE_S),
            headers={"Accept-Encoding": "identity"},  # a compressed answer could unpack to any size
            event_hooks={"response": [_cap]},
            verify=self._trust,
        )
        return openai.AsyncOpenAI(
            api_key=self._settings.api_key.get_secret_value() if self._settings.api_key else "none",
            base_url=self._settings.base_url,
            max_retries=0,
            timeout=self._times,
            http_client=http,
        )
