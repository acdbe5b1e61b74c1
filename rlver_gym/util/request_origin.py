"""For which dialogue a request to a server is made: known to the client, whoever makes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import NamedTuple

_NUMBERS = count()


class RequestOrigin(NamedTuple):
    """On whose behalf a request is made."""

    dialogue: int
    """A number that no other dialogue of the process has."""
    attempt: int | None = None
    """For which new attempt the request goes to the server although the cache holds an answer: once
    for all of its dialogues. None takes what the cache holds.
    """


REQUEST_ORIGIN: ContextVar[RequestOrigin | None] = ContextVar("rlver_gym_asker", default=None)
"""Set by `make_requests_for`; it follows a request to the loop on which it is made."""


def number_dialogue() -> int:
    return next(_NUMBERS)


@contextmanager
def make_requests_for(dialogue: int, attempt: int | None = None) -> Iterator[None]:
    token = REQUEST_ORIGIN.set(RequestOrigin(dialogue, attempt))
    try:
        yield
    finally:
        REQUEST_ORIGIN.reset(token)
