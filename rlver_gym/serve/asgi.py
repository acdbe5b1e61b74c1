"""What plain ASGI applications share: types, headers, which page asks, refusals."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from rlver_gym.serve.operation import is_loopback
from rlver_gym.serve.problems import Refusal

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
_MAX_DISCARDED_BYTES = 64 * 2**20


def check_origin(scope: Scope, *, is_open: bool) -> None:
    """Refuse pages of other hosts, which a browser would let talk to loopback, also under a name of
    their own (DNS rebinding): `is_open`, at loopback, refuses any name but its own.
    """
    origin = header(scope, b"origin").decode("latin-1")
    host = header(scope, b"host").decode("latin-1")
    if origin and origin.partition("://")[2] != host:
        raise Refusal("foreign-page")
    here = (scope.get("server") or ("",))[0]
    if is_open and host and is_loopback(here) and not is_loopback(_name(host)):
        raise Refusal("foreign-host")


def header(scope: Scope, name: bytes) -> bytes:
    """The first header of that name, in lower case; empty without one."""
    return next((value for key, value in scope["headers"] if key == name), b"")


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


async def send_and_close(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    """A whole answer; the connection is closed, for the request may not have been read."""
    pairs = {**headers, "content-length": str(len(body)), "connection": "close"}
    start = [(name.encode(), value.encode()) for name, value in pairs.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


async def discard_body(receive: Receive, timeout_s: float) -> None:
    num_bytes = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while num_bytes < _MAX_DISCARDED_BYTES:
                message = await receive()
                num_bytes += len(message.get("body", b""))
                if not message.get("more_body"):
                    return
