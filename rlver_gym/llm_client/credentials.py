"""Addresses and keys of chat servers: what makes an address usable, what of it may be shown, and
what stays behind when settings are pickled.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import get_spawning_popen
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from rlver_gym.io.errors import ServerRefused

_SCHEMES = ("http", "https")


class Credentials(NamedTuple):
    """User and password that an address carries."""

    user: str
    password: str


def find_problem(url: str) -> str | None:
    """What an address must be that this text is not; None for an address.

    Never repeats the text, which may hold a password.
    """
    if "?" in url or "#" in url:
        return (
            "must not hold a query (? or #): leave it out. A key belongs in OPENAI_API_KEY"
            " (api_key)"
        )
    if not url.isprintable() or " " in url:
        return "must not hold blanks or control characters"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        usable = False
    return (
        None
        if usable
        else "must begin with http:// or https:// and a host, and usually ends in /v1"
    )


def without_credentials(url: str) -> str:
    """The address without user, password, query and last slash: fit for records and messages."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("?")[0].partition("#")[0].partition("/")
    return f"{scheme.lower()}://{host.rpartition('@')[2]}/{path}".rstrip("/")


def find_credentials(url: str) -> Credentials | None:
    """User and password of an address that `find_problem` finds no fault with; None when it carries
    none.
    """
    parts = urlsplit(url)
    if not parts.username and not parts.password:
        return None
    return Credentials(unquote(parts.username or ""), unquote(parts.password or ""))


def is_at(url: str, other: str) -> bool:
    """Whether two addresses are on the same host."""
    return urlsplit(url).hostname == urlsplit(other).hostname


KEY, URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"
"""The variables of the environment that hold a key, and an address with perhaps a password."""
NO_KEY = "none"
"""What servers that need no key are sent."""


@dataclass(frozen=True)
class Withheld:
    """Stands in a pickle for a secret."""

    variable: str
    """Where it is looked for."""
    salt: bytes
    check: bytes
    """A short hash, which tells a wrong secret and does not give the right one away. Empty for one
    that was the variable's: it may change.
    """

    @classmethod
    def of(cls, secret: str, variable: str) -> "Withheld":
        """What stands for this secret."""
        salt = os.urandom(16)
        return cls(
            variable, salt, b"" if secret == os.environ.get(variable) else _hash(secret, salt)
        )

    def recover(self, is_meant: Callable[[str], bool]) -> str:
        """The secret.

        ServerRefused when the environment does not hold it, or holds one that is not meant.
        """
        found = os.environ.get(self.variable) or ""
        if (
            not found
            or not is_meant(found)
            or (self.check and _hash(found, self.salt) != self.check)
        ):
            origin = "was not in the environment" if self.check else f"came from {self.variable}"
            raise ServerRefused(
                f"a key or password of these settings {origin}, and is never pickled with them. "
                f"Set {self.variable} to it where they are unpickled, or make them there."
            )
        return found


def withhold(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of settings, fit for a pickle."""
    if get_spawning_popen() is not None:
        return fields
    key, url = fields["api_key"], fields["base_url"]
    if key is not None and key.get_secret_value() != NO_KEY:
        fields = fields | {"api_key": Withheld.of(key.get_secret_value(), KEY)}
    if url is not None and find_credentials(url):
        fields = fields | {"base_url": (without_credentials(url), Withheld.of(url, URL))}
    return fields


def recover(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields as they were before `withhold`.

    ServerRefused when something that was withheld is not to be found here.
    """
    key, url = fields["api_key"], fields["base_url"]
    if isinstance(key, Withheld):
        fields = fields | {"api_key": SecretStr(key.recover(lambda _: True))}
    if isinstance(url, tuple):
        public, withheld = url
        fields = fields | {
            "base_url": withheld.recover(lambda found: without_credentials(found) == public)
        }
    return fields


def _hash(secret: str, salt: bytes) -> bytes:
    return hashlib.blake2b(secret.encode(), salt=salt, digest_size=4).digest()
