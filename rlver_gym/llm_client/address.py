"""The address of a chat server: what makes one usable, and what of it may be shown. Nothing here raises for an odd address."""

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_SCHEMES = ("http", "https")


class Credentials(NamedTuple):
    """User and password that an address carries."""

    user: str
    password: str


def find_problem(url: str) -> str | None:
    """What an address must be that this text is not; None for an address. Never repeats the text, which may hold a password."""
    if "?" in url or "#" in url:
        return "must not hold a query (? or #): leave it out. A key belongs in OPENAI_API_KEY (api_key)"
    if not url.isprintable() or " " in url:
        return "must not hold blanks or control characters"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        usable = False
    return None if usable else "must begin with http:// or https:// and a host, and usually ends in /v1"


def without_credentials(url: str) -> str:
    """The address without user, password, query and last slash: fit for records and messages."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("?")[0].partition("#")[0].partition("/")
    return f"{scheme.lower()}://{host.rpartition('@')[2]}/{path}".rstrip("/")


def find_credentials(url: str) -> Credentials | None:
    """User and password of an address that `find_problem` finds no fault with; None when it carries none."""
    parts = urlsplit(url)
    if not parts.username and not parts.password:
        return None
    return Credentials(unquote(parts.username or ""), unquote(parts.password or ""))


def is_at(url: str, other: str) -> bool:
    """Whether two addresses are on the same host."""
    return urlsplit(url).hostname == urlsplit(other).hostname
