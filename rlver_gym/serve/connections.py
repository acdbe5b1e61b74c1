"""An application behind a socket, with limits for each connection."""

import asyncio
import socket
from collections import defaultdict
from collections.abc import MutableMapping
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, Self

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rlver_gym.serve.asgi import App, Receive, Scope, Send, send_and_close
from rlver_gym.serve.problems import Refusal
from rlver_gym.util.errors import RlverError

HEADER_TIMEOUT_S = 10.0
"""How long the head of a request may take from its first byte, or from the connection."""
_GRACE_S = 3
_BACKLOG = 2_048
_MANY = 1 << 20


class AppServer:
    """A socket and an application behind it, served by this thread or, in a `with`, another."""

    def __init__(
        self,
        app: App,
        host: str,
        port: int,
        *,
        max_connections: int,
        header_timeout_s: float = HEADER_TIMEOUT_S,
        **uvicorn_options: Any,
    ) -> None:
        """`port`: 0 takes a free one. RlverError when it cannot be had."""
        limits = _ConnectionLimits(max_connections, header_timeout_s)
        self._server = uvicorn.Server(
            uvicorn.Config(
                partial(_answer_until_stopped, app),  # pyright: ignore[reportArgumentType]
                http=limits.make_protocol,  # pyright: ignore[reportArgumentType]
                ws="none",
                log_level="warning",
                access_log=False,  # an address may hold a token
                proxy_headers=False,  # anybody can send them
                interface="asgi3",
                server_header=False,
                timeout_graceful_shutdown=_GRACE_S,
                **uvicorn_options,
            )
        )
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]

    def run(self) -> None:
        """Serve until a signal ends it, in a process that does nothing else."""
        _allow_files()
        self._serve()

    def _serve(self) -> None:
        # asyncio accepts so many at once before any of them can be refused
        self._server.config.backlog = min(_BACKLOG, _count_spare_files() // 2)
        self._server.run([self._socket])

    def __enter__(self) -> Self:
        self._thread = Thread(target=self._serve, name=f"rlver-gym:{self.port}", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


async def _answer_until_stopped(app: App, scope: Scope, receive: Receive, send: Send) -> None:
    has_begun = False

    async def note_and_send(message: MutableMapping[str, Any]) -> None:
        nonlocal has_begun
        has_begun = True
        await send(message)

    try:
        await app(scope, receive, note_and_send)
    except asyncio.CancelledError:
        if not has_begun and scope["type"] == "http":
            refusal = Refusal("stopped", retry_after=5)
            await send_and_close(send, refusal.problem.status, refusal.content, refusal.headers)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise RlverError(
            f"{host}:{port} cannot be served from: {error}. Choose another --port (serve: --host)."
        ) from None


def _allow_files() -> None:
    """Let this process open as many files and connections as the system grants it."""
    with suppress(ImportError, ValueError, OSError):  # Windows has none; some have no bound
        import resource  # noqa: PLC0415

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _count_spare_files() -> int:
    try:
        import resource  # noqa: PLC0415
    except ImportError:  # Windows has no bound
        return _MANY
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MANY if soft == resource.RLIM_INFINITY else soft // 2


class _ConnectionLimits:
    """The connections of each address and all together, the oldest first."""

    def __init__(self, max_connections: int, header_timeout_s: float) -> None:
        """`max_connections`: from one address at once; all together leave files to be opened."""
        self.max_connections = max_connections
        self.header_timeout_s = header_timeout_s
        self._by_address: defaultdict[str, dict[_BoundedProtocol, None]] = defaultdict(dict)
        self._open: dict[_BoundedProtocol, None] = {}

    def make_protocol(self, *arguments: Any, **named: Any) -> "_BoundedProtocol":
        protocol = _BoundedProtocol(*arguments, **named)
        protocol.limits = self
        return protocol

    def admit(self, protocol: "_BoundedProtocol") -> bool:
        """Whether there is room for another one: the oldest that has sent no request makes room."""
        address = protocol.address
        for most, connections in (
            (self.max_connections, self._by_address[address]),
            (_count_spare_files(), self._open),
        ):
            if len(connections) >= most:
                waiting = next((each for each in connections if each.is_waiting), None)
                if waiting is None:
                    return False
                waiting.drop()
        self._by_address[address][protocol] = self._open[protocol] = None
        return True

    def forget(self, protocol: "_BoundedProtocol") -> None:
        self._open.pop(protocol, None)
        connections = self._by_address[protocol.address]
        connections.pop(protocol, None)
        if not connections:
            del self._by_address[protocol.address]


class _BoundedProtocol(H11Protocol):
    """uvicorn's HTTP, which by itself waits for the rest of a head for ever."""

    limits: _ConnectionLimits
    address = ""
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        return self._timer is not None

    def connection_made(self, transport: Any) -> None:
        """asyncio knows no such socket as TCP: an answer's second part would wait."""
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = (transport.get_extra_info("peername") or ("",))[0]
        super().connection_made(transport)
        if not self.limits.admit(self):
            transport.abort()
            return
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Bytes have come. The time for a head is not renewed by each of them."""
        super().data_received(data)
        self._mind_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._mind_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._release()
        super().connection_lost(exc)

    def drop(self) -> None:
        self._release()
        self.transport.abort()

    def _mind_timer(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None and self.conn.trailing_data[0] and not self.transport.is_closing():
            self._start_timer()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.limits.header_timeout_s, self.drop)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None

    def _release(self) -> None:
        self._stop_timer()
        self.limits.forget(self)
