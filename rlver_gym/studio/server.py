"""Runs the studio on loopback: in this process until it is interrupted, or on a thread."""

import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Self

import uvicorn

from rlver_gym.serve.listen import listen
from rlver_gym.studio.app import make_app

HOST = "127.0.0.1"


class StudioServer:
    """A studio at an address that holds its token; on a thread until the end of its `with`."""

    def __init__(
        self, folders: Sequence[Path], out: Path, personas: str | None = None, port: int = 0
    ) -> None:
        """See `make_app`; `port` 0 takes a free one. RlverError when it cannot be had."""
        self.token = secrets.token_urlsafe(24)
        app = make_app(folders, self.token, out, personas)
        self._socket = listen(HOST, port)
        self.port: int = self._socket.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,  # pyright: ignore[reportArgumentType]
                log_level="warning",
                access_log=False,  # the address holds the token
                proxy_headers=False,
                server_header=False,
                lifespan="off",
                timeout_graceful_shutdown=2,
            )
        )

    @property
    def url(self) -> str:
        """What a browser is given."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def run(self) -> None:
        """Serve until Ctrl-C."""
        self._server.run([self._socket])

    def __enter__(self) -> Self:
        self._thread = Thread(target=self.run, name=f"studio:{self.port}", daemon=True)
        self._thread.start()
        while self._thread.is_alive() and not self._server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
