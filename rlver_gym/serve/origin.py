"""Which page a request comes from: a browser would let any of them talk to loopback, also under a
name of their own that resolves to it (DNS rebinding).
"""

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urlsplit

from rlver_gym.serve.operation import is_loopback
from rlver_gym.serve.problems import Refusal

Scope = MutableMapping[str, Any]


def check_origin(scope: Scope, *, is_open: bool) -> None:
    """Refuse pages of other hosts; `is_open`: and, at loopback, requests to any name but its own,
    for nothing else tells them from such a page.
    """
    origin = header(scope, b"origin").decode("latin-1")
    host = header(scope, b"host").decode("latin-1")
    if origin and origin.partition("://")[2] != host:
        raise Refusal("foreign-page")
    here = (scope.get("server") or ("",))[0]
    if is_open and host and is_loopback(here) and not is_loopback(_name(host)):
        raise Refusal("foreign-host")


def header(scope: Scope, name: bytes) -> bytes:
    """The first header of that name, in lower case; empty without one."""
    return next((value for key, value in scope["headers"] if key == name), b"")


def _name(host: str) -> str:
    """The name or address in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
