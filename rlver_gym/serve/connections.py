"""What a connection must do to be kept: send a request in time, and not be one of too many."""

import asyncio
from collections import defaultdict
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_TIMEOUT_S = 10.0
"""How long the head of a request may take from its first byte, or from the connection."""


class ConnectionLimits:
    """The connections of each address, the oldest first."""

    def __init__(self, max_connections: int, header_timeout_s: float = HEADER_TIMEOUT_S) -> None:
        self.max_connections = max_connections
        self.header_timeout_s = header_timeout_s
        self._by_address: defaultdict[str, dict[BoundedProtocol, None]] = defaultdict(dict)

    def make_protocol(self, *arguments: Any, **named: Any) -> "BoundedProtocol":
        protocol = BoundedProtocol(*arguments, **named)
        protocol.limits = self
        return protocol

    def admit(self, protocol: "BoundedProtocol") -> bool:
        """Whether there is room for another one: the oldest that has sent no request makes room."""
        mine = self._by_address[protocol.address]
        if len(mine) >= self.max_connections:
            waiting = next((one for one in mine if one.is_waiting), None)
            if waiting is None:
                return False
            waiting.drop()
        mine[protocol] = None
        return True

    def forget(self, protocol: "BoundedProtocol") -> None:
        mine = self._by_address.get(protocol.address, {})
        mine.pop(protocol, None)
        if not mine:
            self._by_address.pop(protocol.address, None)


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP, which by itself waits for the rest of a head for ever."""

    limits: ConnectionLimits
    address = ""
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        return self._timer is not None

    def connection_made(self, transport: Any) -> None:
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
        """An answer was given; the beginning of the next request may have come meanwhile."""
        super().on_response_complete()
        self._mind_timer()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._release()
        super().handle_websocket_upgrade(event)

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
