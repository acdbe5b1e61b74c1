"""Just enough HTTP/1.1 to serve with, on loopback, from a thread of its own."""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from threading import Thread
from typing import Any, NamedTuple

JSON = "application/json"
_MAX_HEAD, _MAX_BODY = 64 * 1024, 64 * 1024 * 1024
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, for 0 seconds: closing then sends RST instead of FIN."""


class Request(NamedTuple):
    """One request, whole. The names of `headers` are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


def _take_request(received: bytearray) -> Request | None:
    """Take the first request off what was received; None while it is not whole.

    ValueError when it is not HTTP, chunked or too long.
    """
    end = received.find(b"\r\n\r\n")
    if (len(received) if end < 0 else end) > _MAX_HEAD:
        raise ValueError("the head of the request is too long")
    if end < 0:
        return None
    first, *lines = received[:end].decode("latin-1").split("\r\n")
    method, path, _version = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if "transfer-encoding" in headers:
        raise ValueError("send the body in one piece, with a Content-Length")
    start, length = end + 4, int(headers.get("content-length", 0))
    if not 0 <= length <= _MAX_BODY:
        raise ValueError("the Content-Length is negative or too large")
    if len(received) < start + length:
        return None
    body = bytes(received[start : start + length])
    del received[: start + length]
    return Request(method, path, headers, body)


def head(status: int, length: int, kind: str, headers: Mapping[str, str]) -> bytes:
    fields = {"Content-Type": kind, "Content-Length": str(length), **headers}
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class Connection(asyncio.Protocol):
    """One client's connection: a task for each request in turn, cancelled when the client goes."""

    _transport: asyncio.Transport

    def __init__(self, handle: "Handle", opened: set["Connection"]) -> None:
        self._handle, self._opened, self._received = handle, opened, bytearray()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._opened.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._opened.discard(self)
        if self._task:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
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
        """Send a whole answer: bytes as they are, anything else as JSON."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.write(head(status, len(body), kind, headers or {}) + body)

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def close(self) -> None:
        self._transport.close()

    def reset(self) -> None:
        """Break the connection off so that the client gets a TCP reset."""
        there = self._transport.get_extra_info("socket")
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.abort()

    def abort(self) -> None:
        self._transport.abort()

    def _next(self) -> None:
        try:
            request = _take_request(self._received)
        except ValueError as error:
            text = f"This is not a request that can be read: {error}\n"
            self.send(400, text.encode(), kind="text/plain")
            self.close()
            return
        if request:
            self._task = asyncio.get_running_loop().create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        try:
            await self._handle(request, self)
        except BaseException:
            self.abort()
            raise
        self._task = None
        if request.headers.get("connection", "").lower() == "close":
            self.close()
        if not self._transport.is_closing():
            self._next()


Handle = Callable[[Request, Connection], Awaitable[None]]
"""What answers one request, by sending to the connection that it came on."""


class Listener:
    """Serves from construction until `stop`, all requests on one event loop."""

    def __init__(self, handle: Handle, port: int = 0) -> None:
        """`port` 0 takes a free one. Raises OSError when the port is taken."""
        self._handle = handle
        self._socket = socket.create_server(("127.0.0.1", port), backlog=1024)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._arriving: set[asyncio.Task[Any]] = set()
        self._opened: set[Connection] = set()
        self._loop, self._stopping = asyncio.SelectorEventLoop(), asyncio.Event()
        self._thread = Thread(target=self._run, name=f"rlver-gym:{self.port}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Break off what is under way and free the port. A second time does nothing."""
        with suppress(RuntimeError):  # the loop is closed: it has been stopped before
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop.add_reader(self._socket, self._accept)
        await self._stopping.wait()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        await asyncio.gather(*self._arriving, return_exceptions=True)
        while self._opened:
            for connection in tuple(self._opened):
                connection.abort()
            await asyncio.sleep(0)

    def _accept(self) -> None:
        """asyncio's own servers leak a connection that arrives in the moment of their end."""
        with suppress(OSError):  # it has gone again, or no more files can be opened right now
            accepted, _ = self._socket.accept()
            accepted.setblocking(False)
            opening = self._loop.connect_accepted_socket(
                lambda: Connection(self._handle, self._opened), accepted
            )
            self._arriving.add(task := self._loop.create_task(opening))
            task.add_done_callback(self._arriving.discard)
