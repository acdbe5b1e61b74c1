"""A socket to serve from."""

import socket

from rlver_gym.util.errors import RlverError

BACKLOG = 2_048


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one. RlverError when it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise RlverError(
            f"{host}:{port} cannot be served from: {error}. Choose another --host or --port."
        ) from None
