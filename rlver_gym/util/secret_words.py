"""Keys and passwords: found before they are written down, taken out of what is told."""

import os
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pydantic import BaseModel

KEY, URL, TOKEN = "OPENAI_API_KEY", "OPENAI_BASE_URL", "RLVER_GYM_TOKEN"
"""Variables of the environment: a key, an address, the token of a server of episodes."""
_LEAST_SECRET = 6
"""Characters of a secret that is looked for as it is: a shorter one is in any text."""

_NAME = re.compile(
    r"(?:^|_)(?:api_?key|key|(?:access|api|auth|bearer)?token|passw(?:or)?d|pwd|secret|credentials?"
    r"|authorization|auth|bearer|cookie)$",
    re.IGNORECASE,
)
_PREFIX = r"(?:sk|pk|rk|gsk|r8|hf|ghp|gho|ghs|github_pat|glpat|nvapi|xai|pplx|tgp|fw)[-_]"
"""What keys of servers and clouds begin with, whoever they are of."""
_OTHER_KEYS = (
    r"xox[a-z]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|ya29\.[\w-]{16,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\."
)
_VALUE = re.compile(
    r"//[^\s/]*@"  # an address with a user or a password, also one that holds ? or #
    r"|//[^\s/:@]+:(?!\d+(?:[/\s]|$))\S*@"  # or a slash: what follows the colon is no port
    r"|[?&;][\w.-]*(?:key|token|secret|passw|pwd|auth|sig)[\w.-]*="
    r"|\bbearer\s+(?=[\w.~+/=-]*\d)[\w.~+/=-]{8,}|^\s*(?-i:Bearer)\s+\S+\s*$"
    r"|authorization\s*:\s*(?:bearer|basic|token)\s+\S|\bcookie\s*:\s*[\w.-]+="
    r"|(?<![a-z])(?:api[_-]?key|passw(?:or)?d|secret|token|authorization)(?:\s*=|[\"']\s*:)\s*[^\s,]"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    # names of models and folders begin like keys, but are words: no run with digits, none so long
    rf"|(?<![A-Za-z0-9])(?:{_PREFIX}(?:[\w-]*[-_])?"
    rf"(?:(?=[A-Za-z]*\d)[A-Za-z0-9]{{10,}}|[A-Za-z0-9]{{24,}})|{_OTHER_KEYS})",
    re.IGNORECASE,
)
_BASIC = re.compile(r"\bbasic\s+([\w+/-]+)", re.IGNORECASE)
_SHOWN_KEY = re.compile(
    rf"(?:bearer|basic)\s+\S+|\b(?:{_PREFIX}|key[-_])[\w*.-]{{8,}}|\b(?:{_OTHER_KEYS})"
    r"|\bAIza[\w*.-]{8,}|[A-Za-z0-9_-]{28,}",
    re.IGNORECASE,
)
"""The same in what a server says, in part too; a word too many that is hidden does no harm."""
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*://)(?:\S*@)?([^?#\s]*)(?:[?#]\S*)?", re.IGNORECASE)


def read_variable(name: str) -> str:
    """A variable of the environment without the blanks and line feeds around it; "" when unset."""
    return os.environ.get(name, "").strip()


def find_secret(value: Any, place: str = "") -> str | None:
    """The path to a key or a password in a value ("a value" for none); None without one."""
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
        return place or "a value"
    return None


def hide_keys(text: str) -> str:
    """What a server says, with *** for all that looks like a key, or like a part of one."""
    return _SHOWN_KEY.sub("***", text)


def hide_credentials(text: str) -> str:
    """The text, addresses in it without user, password and query."""
    return _ADDRESS.sub(r"\1\2", text)


def find_credentials(url: str) -> tuple[str, str] | None:
    """User and password of an address, as they are sent."""
    parts = urlsplit(url)
    pair = unquote(parts.username or ""), unquote(parts.password or "")
    return pair if any(pair) else None


def _is_secret(text: str) -> bool:
    is_secret = any(
        _VALUE.search(spelling) or _holds_user(spelling) for spelling in (text, unquote(text))
    )
    return is_secret or any(secret in text for secret in _list_environment_secrets())


def _holds_user(text: str) -> bool:
    """Whether a header's user and password stand in it, which are base64 of both and a colon."""
    for encoded in _BASIC.findall(text):
        padding = "=" * (-len(encoded) % 4)
        with suppress(ValueError):  # no base64, or none of a text
            if ":" in b64decode(encoded + padding, altchars="-_").decode("ascii"):
                return True
    return False


def _list_environment_secrets() -> Iterator[str]:
    try:
        pair = find_credentials(read_variable(URL))
    except ValueError:  # no address: told where it is used
        pair = None
    for secret in (read_variable(KEY), *(pair or ()), ":".join(pair or ())):
        if len(secret) >= _LEAST_SECRET:
            yield from (secret, quote(secret, safe=""), b64encode(secret.encode()).decode())
