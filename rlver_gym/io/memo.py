"""What was compiled of a card, kept beside the card."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Card = TypeVar("Card")
Compiled = TypeVar("Compiled")

_MOST = 512


def kept(compile_: Callable[[Card], Compiled]) -> Callable[[Card], Compiled]:
    """As `lru_cache`, but cards are told apart by identity: to compare or to hash a card takes longer than all that is done with it."""
    return kept_by()(compile_)


def kept_by(*parts: str) -> Callable[[Callable[[Card], Compiled]], Callable[[Card], Compiled]]:
    """The same for what depends on some `parts` (attributes) of a card only: copies of the card that share them share what was compiled."""

    def keep(compile_: Callable[[Card], Compiled]) -> Callable[[Card], Compiled]:
        known: dict[tuple[int, ...], tuple[Any, Compiled]] = {}

        @wraps(compile_)
        def compiled(card: Card) -> Compiled:
            used = tuple([getattr(card, part) for part in parts]) or (card,)
            key = tuple(map(id, used))
            found = known.get(key)
            if found is None:
                if len(known) >= _MOST:
                    known.clear()
                found = known[key] = (used, compile_(card))  # the parts as well, so that their identity stays their own
            return found[1]

        return compiled

    return keep
