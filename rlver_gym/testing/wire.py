"""Just enough HTTP/1.1 to serve with: one request after another on a connection that stays open.

Knows nothing of chat.
"""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple, Self

JSON = "application/json"
_LONGEST_HEAD = 64 * 1024
_LONGEST_BODY = 64 * 1024 * 1024
_MOST_UNSENT = 1 << 18
_LOOK_AGAIN_S = 0.005
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, for 0 seconds: closing then sends RST instead of FIN."""


class Request(NamedTuple):
    """One request, whole. The names of `headers` are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def first_of(cls, received: bytearray) -> Self | None:
        """Take the first request off what was received; None while it is not whole.

        ValueError when it is not HTTP, chunked or too long.
        """
        end = received.find(b"\r\n\r\n")
        if (len(received) if end < 0 else end) > _LONGEST_HEAD:
            raise ValueError("the head of the request is too long")
        if end < 0:
            return None
        first, *lines = received[:end].decode("latin-1").split("\r\n")
        method, path, _version = first.split(" ")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        if "transfer-encoding" in headers:
            raise ValueError("send the body in one piece, with a Content-Length")
        length = int(headers.get("content-length", 0))
        if not 0 <= length <= _LONGEST_BODY:
            raise ValueError("the Content-Length is negative or too large")
        start = end + len(b"\r\n\r\n")
        if len(received) < start + length:
            return None
        body = bytes(received[start : start + length])
        del received[: start + length]
        return cls(method, path, headers, body)


def head(status: int, length: int, kind: str, headers: Mapping[str, str]) -> bytes:
    """The head of an answer whose body has `length` bytes."""
    fields = {"Content-Type": kind, "Content-Length": str(length), **headers}
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        *(f"{name}: {value}" for name, value in fields.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


Handle = Callable[[Request, "Connection"], Awaitable[None]]
"""What answers one request, by sending to the connection that it came on."""


class Connection(asyncio.Protocol):
    """One client's connection.

    Each request is handled in a task of its own, which is cancelled when the client gives up.
    """

    def __init__(self, handle: Handle, opened: set["Connection"]) -> None:
        """`opened` holds this connection for as long as it is open."""
        self._handle = handle
        self._opened = opened
        self._received = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._opened.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._opened.discard(self)
        if self._task:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._received += data
        if self._task is None:
            self._next()

    def send(
        self,
        status: int,
        content: object,
        *,
        kind: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """A whole answer. `content` is bytes as they are, or a value to be sent as JSON."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.write(head(status, len(body), kind, headers or {}) + body)

    def write(self, data: bytes) -> None:
        """Bytes of an answer that is sent in parts, from its head on."""
        self._transport.write(data)

    async def drain(self) -> None:
        """Wait until most of what was written is sent, so that an endless answer takes no memory
        here.
        """
        while self._transport.get_write_buffer_size() > _MOST_UNSENT:
            await asyncio.sleep(_LOOK_AGAIN_S)

    def close(self) -> None:
        """Close once everything is sent."""
        self._transport.close()

    def reset(self) -> None:
        """Break the connection off so that the client gets a TCP reset."""
        self._transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET
        )
        self._transport.abort()

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self._transport.abort()

    def _next(self) -> None:
        try:
            request = Request.first_of(self._received)
        except ValueError as error:
            self.send(
                400,
                f"This is not a request that can be read: {error}\n".encode(),
                kind="text/plain",
            )
            self._transport.close()
            return
        if request:
            self._task = asyncio.get_running_loop().create_task(self._serve_request(request))

    async def _serve_request(self, request: Request) -> None:
        try:
            await self._handle(request, self)
        except BaseException:
            self._transport.abort()
            raise
        self._task = None
        if request.headers.get("connection", "").lower() == "close":
            self._transport.close()
        if not self._transport.is_closing():
            self._next()
