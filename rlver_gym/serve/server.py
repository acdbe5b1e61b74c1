"""Runs the server: in this process until it is interrupted, or on a thread for a while."""

import gc
import logging
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread
from typing import Self

import uvicorn

from rlver_gym.serve.app import make_app
from rlver_gym.serve.connections import ConnectionLimits
from rlver_gym.serve.listen import BACKLOG, listen
from rlver_gym.serve.operation import ServeSettings
from rlver_gym.users import SentientUser

_KEEP_ALIVE_S = 75
"""How long an idle connection is kept: longer than a policy thinks between two steps."""
_GRACE_S = 10
"""How long turns that are under way may take when the server is stopped."""
_FULL_COLLECTION_EVERY = 1_000
"""Collections of the middle generation; Python's own number is 10. A full one frees some hundred
objects for every thousand turns: the rest is freed without it.
"""


def make_server(
    settings: ServeSettings,
    *,
    token: str | None = None,
    users: Mapping[str, SentientUser] | None = None,
    grace_s: int = _GRACE_S,
) -> uvicorn.Server:
    """A server that is not running yet. See `make_app` for the arguments."""
    logging.getLogger("uvicorn.error").addFilter(_is_no_refused_handshake)
    limits = ConnectionLimits(settings.max_connections, settings.header_timeout_s)
    return uvicorn.Server(
        uvicorn.Config(
            make_app(settings, token=token, users=users),
            log_level="warning",
            access_log=False,
            proxy_headers=False,  # anybody can send them
            server_header=False,
            backlog=BACKLOG,
            http=limits.make_protocol,  # pyright: ignore[reportArgumentType]
            ws="websockets-sansio",
            ws_max_size=settings.max_body_bytes,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=grace_s,
        )
    )


def _is_no_refused_handshake(record: logging.LogRecord) -> bool:
    """uvicorn calls every handshake that is answered with a problem an error of the application."""
    return "without completing handshake" not in record.getMessage()


def collect_garbage_rarely() -> None:
    """For a process that only serves: no turn is taken while a full collection visits all."""
    gc.set_threshold(*gc.get_threshold()[:2], _FULL_COLLECTION_EVERY)


def allow_files() -> None:
    """Let this process open as many files and connections as the system grants it."""
    with suppress(ImportError, ValueError, OSError):  # Windows has none; some have no bound
        import resource  # noqa: PLC0415

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class BackgroundServer:
    """A server on loopback, on a thread of its own, until the end of its `with`.

    with BackgroundServer() as server:
        env = gym.make("RLVER-Empathy-v0", url=server.url)
    """

    def __init__(
        self,
        settings: ServeSettings | None = None,
        *,
        token: str | None = None,
        users: Mapping[str, SentientUser] | None = None,
        port: int = 0,
    ) -> None:
        settings = settings or ServeSettings()
        self._server = make_server(settings, token=token, users=users, grace_s=1)
        self._socket = listen("127.0.0.1", port)
        self.port: int = self._socket.getsockname()[1]
        self._thread = Thread(
            target=self._server.run,
            args=([self._socket],),
            name=f"rlver-gym:{self.port}",
            daemon=True,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
