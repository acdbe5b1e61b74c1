"""The studio on loopback, as a value that can be run."""

import secrets
from collections.abc import Sequence
from pathlib import Path

from rlver_gym.serve.connections import AppServer
from rlver_gym.studio.app import make_app
from rlver_gym.studio.speakers import Speakers

HOST = "127.0.0.1"
_MAX_CONNECTIONS = 64
"""A browser opens six for all its windows."""


class StudioServer(AppServer):
    """A studio at an address that holds its token."""

    def __init__(
        self,
        folders: Sequence[Path],
        out: Path,
        personas: str | None = None,
        port: int = 0,
        speakers: Speakers | None = None,
    ) -> None:
        """See `make_app`; `port` 0 takes a free one. RlverError when it cannot be had."""
        self.token = secrets.token_urlsafe(24)
        super().__init__(
            make_app(folders, self.token, out, personas, speakers),
            HOST,
            port,
            max_connections=_MAX_CONNECTIONS,
            lifespan="off",
        )

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/?token={self.token}"
