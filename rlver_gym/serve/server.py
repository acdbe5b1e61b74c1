"""The server of episodes, as a value that can be run."""

import gc
from collections.abc import Mapping

from rlver_gym.serve.app import make_app
from rlver_gym.serve.connections import AppServer
from rlver_gym.serve.operation import ServeSettings
from rlver_gym.users import SentientUser

_KEEP_ALIVE_S = 75
"""How long an idle connection is kept: longer than a policy thinks between two steps."""
_FULL_COLLECTION_EVERY = 1_000
"""Collections of the middle generation, 10 in Python: a full one frees little here."""


class EpisodeServer(AppServer):
    """A server of episodes, by default on loopback.

    with EpisodeServer() as server:
        env = gym.make("RLVER-Empathy-v0", url=server.url)
    """

    def __init__(
        self,
        settings: ServeSettings | None = None,
        *,
        token: str | None = None,
        users: Mapping[str, SentientUser] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        settings = settings or ServeSettings()
        super().__init__(
            make_app(settings, token=token, users=users),
            host,
            port,
            max_connections=settings.max_connections,
            header_timeout_s=settings.header_timeout_s,
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}"

    def run(self) -> None:
        """Serve until a signal ends it; no turn is taken while a full collection visits all."""
        gc.set_threshold(*gc.get_threshold()[:2], _FULL_COLLECTION_EVERY)
        super().run()
