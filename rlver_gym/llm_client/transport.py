"""The way to one server over HTTP: what it sends is bounded, taken as it was sent, and never acted
on (unpacked, followed, kept). What the environment puts in the way is named.

The only file that knows the HTTP library: the one that openai brings, httpx2 or httpx.
"""

import json
import logging
import os
import ssl
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from http.cookiejar import CookieJar
from importlib import import_module
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import openai

from rlver_gym.llm_client.refusals import Failure, Kind, Scope
from rlver_gym.llm_client.settings import ChatSettings, without_credentials
from rlver_gym.util.errors import ServerRefused
from rlver_gym.util.secret_words import find_credentials

http: Any = import_module(str(openai.DefaultAsyncHttpxClient.__base__.__module__))
PATH = "/chat/completions"
MAX_ANSWER_BYTES, _MAX_ERROR_BYTES = 1 << 20, 1 << 16
"""What is read: a larger answer is given up, of a larger error the rest is left."""
_MAX_PARTS = 10_000
"""Pieces that an answer comes in: each takes its time, while all other requests wait."""
_CONNECT_S, _IDLE_S = 5.0, 30.0
_MOST_TOGETHER = 8
"""Requests that share a pool: for each, the library looks at all connections of its pool."""
BROKE_OFF = Failure(Kind.BROKEN, "the connection broke off")
_COMPRESSED = (
    "a compressed answer, which was not asked for (turn compression off in the server, or in the"
    " proxy before it)"
)
_REDIRECTED = (
    "Redirects are not followed, since they carry the dialogue elsewhere: if you trust that place,"
    " make it OPENAI_BASE_URL (base_url)."
)


class Response(NamedTuple):
    """What came back, whatever it says."""

    status: int
    content: bytes
    headers: Mapping[str, str]


class _NoCookies(CookieJar):
    def extract_cookies(self, response: Any, request: Any) -> None:
        """Not even read: requests have nothing to do with each other."""


@lru_cache
def _ssl_context() -> ssl.SSLContext:
    """The trusted certificates: read once, since that takes longer than many requests."""
    return http.create_ssl_context()


def _drop_reason_phrase(record: logging.LogRecord) -> bool:
    """Drop the server's own words from the library's line about a request: they may hold a key."""
    if isinstance(record.args, tuple) and PATH in str(record.args[1:2]):
        record.args = (*record.args[:-1], "")
    return True


class Transport:
    """Connections to one server. Belongs to one event loop."""

    def __init__(self, settings: ChatSettings) -> None:
        """`settings` with address and key. ServerRefused for an address that cannot be asked."""
        self._settings = settings
        url = self._url = without_credentials(settings.base_url or "")  # the library logs it
        try:
            http.URL(url)
        except http.InvalidURL as error:
            raise ServerRefused(
                f"{url!r} is no address of a server: {error}. Check OPENAI_BASE_URL (base_url)."
            ) from None
        self._clients: list[Any] = []
        self._in_flight: Counter[int] = Counter()
        logging.getLogger(http.__name__.partition(".")[0]).addFilter(_drop_reason_phrase)

    async def post(self, body: Mapping[str, Any]) -> Response | Failure:
        content = json.dumps(body).encode()
        at = next(at for at in count() if self._in_flight[at] < _MOST_TOGETHER)
        while at >= len(self._clients):
            self._clients.append(self._open())
        self._in_flight[at] += 1
        try:
            request = self._clients[at].stream("POST", self._url + PATH, content=content)
            async with request as response:
                return await _read(response)
        except (http.ConnectError, http.ConnectTimeout, http.ProxyError) as error:
            remedy = _explain_no_connection(error, self._settings.base_url or "")
            return Failure(Kind.NO_CONNECTION, "no connection", remedy=remedy)
        except http.HTTPError:
            return BROKE_OFF
        finally:
            self._in_flight[at] -= 1

    async def close(self) -> None:
        clients, self._clients = self._clients, []
        for client in clients:
            await client.aclose()

    def _open(self) -> Any:
        key, pair = self._settings.api_key, find_credentials(self._settings.base_url or "")
        authorization = (
            f"Basic {b64encode(':'.join(pair).encode()).decode()}"
            if pair
            else f"Bearer {key.get_secret_value() if key else 'none'}"
        )
        headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        limits = {"max_connections": None, "max_keepalive_connections": None}
        try:
            return openai.DefaultAsyncHttpxClient(
                headers=headers | {"Authorization": authorization},
                timeout=http.Timeout(None, connect=min(_CONNECT_S, self._settings.timeout_s / 4)),
                limits=http.Limits(**limits, keepalive_expiry=_IDLE_S),
                cookies=_NoCookies(),
                follow_redirects=False,
                verify=_ssl_context(),
            )
        except (ImportError, OSError, ValueError) as error:
            raise ServerRefused(_explain_environment(error)) from None


async def _read(response: Any) -> Response | Failure:
    status, headers = response.status_code, dict(response.headers)
    if 300 <= status < 400:
        failure = Failure(Kind.REFUSED, "a redirect", status, scope=Scope.MODEL)
        return failure._replace(quote=headers.get("location", ""), remedy=_REDIRECTED)
    if headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
        return Failure(Kind.MALFORMED, _COMPRESSED)
    content, num_parts = bytearray(), 0
    async for part in response.aiter_raw():
        content += part
        num_parts += 1
        if response.is_success and len(content) > MAX_ANSWER_BYTES:
            return Failure(Kind.MALFORMED, f"an answer of more than {MAX_ANSWER_BYTES >> 20} MB")
        if num_parts > _MAX_PARTS:
            return Failure(Kind.MALFORMED, f"an answer in more than {_MAX_PARTS:,} pieces")
        if not response.is_success and len(content) >= _MAX_ERROR_BYTES:
            break
    return Response(status, bytes(content), headers)


def _explain_no_connection(error: BaseException, base_url: str) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "Its certificate is not trusted here: SSL_CERT_FILE names those that are. "
        cause = cause.__cause__ or cause.__context__
    url, proxies = urlsplit(base_url), getproxies()
    scheme = url.scheme if url.scheme in proxies else "all"
    if scheme not in proxies or proxy_bypass(url.netloc.rpartition("@")[2]):
        return ""
    name = f"{scheme}_proxy" if os.environ.get(f"{scheme}_proxy") else f"{scheme}_proxy".upper()
    return (
        f"It is asked through the proxy {without_credentials(proxies[scheme])} of {name}: unset"
        f" that, or add {url.hostname} to NO_PROXY. "
    )


def _explain_environment(error: Exception) -> str:
    proxies = ("all_proxy", "http_proxy", "https_proxy")
    meant = ("ssl_cert_file", "ssl_cert_dir") if isinstance(error, OSError) else proxies
    named = [
        f"{name}={without_credentials(value) if name.lower() in proxies else value}"
        for name, value in os.environ.items()
        if name.lower() in meant and value
    ]
    reason = getattr(error, "strerror", None) or str(error).rstrip(".")[:200]
    return (
        f"{' and '.join(named) or 'the proxy or the certificates of the environment'} cannot be"
        f" used ({reason}). Unset it, give certificates in PEM form, a proxy of http://, or for"
        " SOCKS: pip install 'httpx2[socks]' 'httpx[socks]'."
    )
