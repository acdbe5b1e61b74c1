"""Connections to one server: several small pools instead of one, since what a call costs grows with
the size of its pool.

Whatever a server answers comes in through here: bounded, as it was sent, and without what would
make the HTTP library act (unpack, follow, keep).
"""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from http.cookiejar import CookieJar
from ssl import SSLContext
from typing import Any

import openai

from rlver_gym.io.errors import ServerRefused
from rlver_gym.llm_client.credentials import find_credentials, without_credentials
from rlver_gym.llm_client.proxies import explain_environment
from rlver_gym.llm_client.retries import Failure, Kind, Scope
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.transport import (
    LOG,
    URL,
    AsyncByteStream,
    BasicAuth,
    Headers,
    InvalidURL,
    Limits,
    RequestError,
    Response,
    Timeout,
    create_ssl_context,
)

PATH = "/chat/completions"
MAX_ANSWER_BYTES = 1 << 20
"""Bytes of an answer that are read; a larger one is given up there."""
_MAX_PARTS = 10_000
"""Pieces that an answer comes in. Each takes its time, however small it is, while all other
requests wait.
"""
_MAX_ERROR_BYTES = 1 << 16
"""Bytes of an HTTP error that are read; what follows is left."""
_IN_ONE_POOL = 16
_CONNECT_S = 5.0
"""Longest time to connect; less where a whole request has little. Everything else ends at the
deadline of the request.
"""
_IDLE_S = 30.0
_READ = (b"content-type", b"retry-after")
"""The headers that mean something here."""
_REDIRECTED = (
    "Redirects are not followed, since they carry the dialogue elsewhere: if you trust that place,"
    " make it OPENAI_BASE_URL (base_url)."
)
_COMPRESSED = (
    "a compressed answer, which was not asked for (turn compression off in the server, or in the"
    " proxy before it)"
)


class UnusableResponse(RequestError):
    """A response that is not read to its end.

    The openai client takes it for a connection that broke off, so it is the cause of its error.
    """

    def __init__(self, failure: Failure) -> None:
        """`failure`: what it comes to."""
        super().__init__(failure.reason)
        self.failure = failure


class _CappedStream(AsyncByteStream):
    def __init__(self, stream: AsyncByteStream, is_success: bool) -> None:
        self._stream = stream
        self._is_success = is_success

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = parts = 0
        async for part in self._stream:
            size, parts = size + len(part), parts + 1
            if self._is_success and size > MAX_ANSWER_BYTES:
                raise UnusableResponse(
                    Failure(Kind.MALFORMED, f"an answer of more than {MAX_ANSWER_BYTES >> 20} MB")
                )
            if parts > _MAX_PARTS:
                raise UnusableResponse(
                    Failure(Kind.MALFORMED, f"an answer in more than {_MAX_PARTS:,} pieces")
                )
            yield part
            if not self._is_success and size >= _MAX_ERROR_BYTES:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _sanitise(response: Response) -> None:
    """Take from a response what the HTTP library would act on, before its body is read: an encoding
    is unpacked to any size, also one that is named as a charset (`charset=zlib`), and a location is
    followed.
    """
    if 300 <= response.status_code < 400:
        place = response.headers.get("location", "")
        raise UnusableResponse(
            Failure(
                Kind.REFUSED,
                "a redirect",
                response.status_code,
                scope=Scope.MODEL,
                remedy=_REDIRECTED,
                quote=place,
            )
        )
    if response.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
        raise UnusableResponse(Failure(Kind.MALFORMED, _COMPRESSED))
    kept = [(name, value) for name, value in response.headers.raw if name.lower() in _READ]
    response.headers = Headers([(name, value.partition(b";")[0]) for name, value in kept])
    assert isinstance(response.stream, AsyncByteStream)
    response.stream = _CappedStream(response.stream, response.is_success)


@lru_cache
def _ssl_context() -> SSLContext:
    """The trusted certificates: read once, since that takes longer than many requests."""
    return create_ssl_context()


def _drop_reason_phrase(record: logging.LogRecord) -> bool:
    """Drop from the library's line about a chat request the server's own words after the status,
    which may hold a key or anything else.
    """
    if (
        isinstance(record.args, tuple)
        and len(record.args) > 2
        and str(record.args[1]).endswith(PATH)
    ):
        record.args = (*record.args[:-1], "")
    return True


class _NoCookies(CookieJar):
    """Stays empty: requests have nothing to do with each other."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """Not even read."""


@dataclass
class _Pool:
    client: openai.AsyncOpenAI
    inside: int = 0
    """Requests under way."""


class ConnectionPool:
    """Connections to one server: as many small pools as the requests under way need.

    Belongs to one event loop.
    """

    def __init__(self, settings: ChatSettings) -> None:
        """`settings` with address and key filled in.

        ServerRefused for an address that no request can be sent to.
        """
        assert settings.base_url is not None
        self._url = without_credentials(settings.base_url)  # the HTTP library logs it
        try:
            URL(self._url)
        except InvalidURL as error:
            raise ServerRefused(
                f"{self._url!r} is no address of a server: {error}. Check OPENAI_BASE_URL"
                " (base_url)."
            ) from None
        credentials = find_credentials(settings.base_url)
        self._auth = BasicAuth(*credentials) if credentials else None
        self._key = settings.api_key.get_secret_value() if settings.api_key else "none"
        self._times = Timeout(None, connect=min(_CONNECT_S, settings.timeout_s / 4))
        self._pools: list[_Pool] = []
        LOG.addFilter(_drop_reason_phrase)

    @contextmanager
    def lend_client(self) -> Iterator[openai.AsyncOpenAI]:
        """Lend a client with a free connection.

        Where a response is not read, the cause of its APIConnectionError is an UnusableResponse.
        """
        pool = next((pool for pool in self._pools if pool.inside < _IN_ONE_POOL), None)
        if pool is None:
            pool = _Pool(self._open_client())
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

    def _open_client(self) -> openai.AsyncOpenAI:
        with explain_environment():
            http = openai.DefaultAsyncHttpxClient(
                auth=self._auth,
                timeout=self._times,
                limits=Limits(
                    max_connections=None, max_keepalive_connections=None, keepalive_expiry=_IDLE_S
                ),
                headers={"Accept-Encoding": "identity"},
                cookies=_NoCookies(),
                follow_redirects=False,
                event_hooks={"response": [_sanitise]},
                verify=_ssl_context(),
            )
        return openai.AsyncOpenAI(
            api_key=self._key,
            base_url=self._url,
            max_retries=0,
            timeout=self._times,
            http_client=http,
        )
