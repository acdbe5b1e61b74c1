"""A port on loopback that is served from a thread of its own, until it is stopped without a
trace.
"""

import asyncio
import socket
from contextlib import suppress
from threading import Thread
from typing import Any

from rlver_gym.testing.wire import Connection, Handle

_BACKLOG = 1024


class Listener:
    """Serves from construction until `stop`.

    Each request is answered by `handle`, all of them on one event loop.
    """

    def __init__(self, handle: Handle, port: int = 0) -> None:
        """`port` 0 takes a free one. Raises OSError when the port is taken."""
        self._handle = handle
        self._socket = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._arriving: set[asyncio.Task[Any]] = set()
        self._opened: set[Connection] = set()
        self._loop = asyncio.SelectorEventLoop()
        self._stopping = asyncio.Event()
        self._thread = Thread(target=self._run, name=f"rlver-gym:{self.port}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Break off what is under way and free the port; from then on connections are refused.

        A second time does nothing.
        """
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
        """asyncio's own servers drop a connection, unclosed, that arrives in the moment of their
        end. So each one is accepted here.
        """
        # It has gone again, or no more files can be opened right now: the next round sees.
        with suppress(OSError):
            accepted, _ = self._socket.accept()
            accepted.setblocking(False)
            opening = self._loop.connect_accepted_socket(
                lambda: Connection(self._handle, self._opened), accepted
            )
            task = self._loop.create_task(opening)
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)
