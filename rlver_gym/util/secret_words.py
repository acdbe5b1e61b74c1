"""Keys and passwords among what somebody typed: found before it is written down, and taken out of
addresses that are told.
"""

import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pydantic import BaseModel

KEY, URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"
"""The variables of the environment that hold a key, and an address with perhaps a password."""
_LEAST_SECRET = 6
"""Characters of a secret that is looked for as it is: a shorter one is in any text."""

_NAME = re.compile(
    r"(?:^|_)(?:api_?key|key|token|passw(?:or)?d|pwd|secret|credentials?|authorization|auth|bearer)$",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"//[^\s/]*@"  # an address with a user or a password, also one that holds ? or #
    r"|//[^\s/:@]+:(?!\d+(?:[/\s]|$))\S*@"  # or a slash: what follows the colon is no port
    r"|[?&;][\w.-]*(?:key|token|secret|passw|pwd|auth|sig)[\w.-]*="
    r"|\b(?:bearer|basic)\s+[\w.~+/=-]{8,}"
    r"|(?<![a-z])(?:api[_-]?key|passw(?:or)?d|secret|token|authorization)(?:\s*=|[\"']\s*:)\s*[^\s,]"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk|gsk|r8|hf|ghp|gho|ghs|github_pat|glpat|nvapi|xai|pplx|tgp|fw)[-_][\w-]{16,}"
    r"|xox[a-z]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|ya29\.[\w-]{16,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.)",
    re.IGNORECASE,
)
"""What keys of servers and clouds look like, whoever they are of."""
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*://)(?:\S*@)?([^?#\s]*)(?:[?#]\S*)?", re.IGNORECASE)


def find_secret(value: Any, place: str = "") -> str | None:
    """Where a key or a password stands in a value, with all that it holds: the names that lead
    there, joined by points. None when there is none.
    """
    if isinstance(value, BaseModel):
        value = dict(value)
    if isinstance(value, Mapping):
        for name, inner in value.items():
            where = f"{place}.{name}" if place else str(name)
            if _NAME.search(str(name).replace("-", "_")) and inner not in (None, "", True, False):
                return where
            if secret := find_secret(name, place or "a name") or find_secret(inner, where):
                return secret
    elif isinstance(value, list | tuple | set | frozenset):
        return next(filter(None, (find_secret(inner, place) for inner in value)), None)
    elif isinstance(value, str) and _is_secret(value):
        return place
    return None


def hide_credentials(text: str) -> str:
    """The text, addresses in it without user, password and query."""
    return _ADDRESS.sub(r"\1\2", text)


def find_credentials(url: str) -> tuple[str, str] | None:
    """User and password of an address, as they are sent."""
    parts = urlsplit(url)
    pair = unquote(parts.username or ""), unquote(parts.password or "")
    return pair if any(pair) else None


def _is_secret(text: str) -> bool:
    is_secret = _VALUE.search(text) or _VALUE.search(unquote(text))
    return bool(is_secret) or any(secret in text for secret in _list_environment_secrets())


def _list_environment_secrets() -> Iterator[str]:
    try:
        pair = find_credentials(os.environ.get(URL) or "")
    except ValueError:  # no address: told where it is used
        pair = None
    for secret in (os.environ.get(KEY) or "", *(pair or ())):
        if len(secret) >= _LEAST_SECRET:
            yield from (secret, quote(secret, safe=""), b64encode(secret.encode()).decode())
