"""Keys and passwords among what somebody typed, before it is written down."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

_NAME = re.compile(
    r"(?:^|_)(?:api_?key|key|token|passw(?:or)?d|pwd|secret|credentials?|authorization|auth|bearer)$",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"://[^/\s?#]*@"  # an address with a user or a password
    r"|[?&;][\w.-]*(?:key|token|secret|passw|pwd|auth|sig)[\w.-]*="
    r"|\b(?:bearer|basic)\s+[\w.~+/=-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk|gsk|r8|hf|ghp|gho|ghs|github_pat|glpat|nvapi|xai|pplx|tgp|fw)[-_][\w-]{16,}"
    r"|xox[a-z]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|ya29\.[\w-]{16,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.)",
    re.IGNORECASE,
)
"""What keys of servers and clouds look like, whoever they are of."""


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
    elif isinstance(value, str) and _VALUE.search(value):
        return place
    return None
