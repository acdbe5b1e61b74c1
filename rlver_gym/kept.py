"""What was compiled of a card, kept beside the card."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Card = TypeVar("Card")
Compiled = TypeVar("Compiled")

_MOST = 512


def kept(compile_: Callable[[Card], Compiled]) -> Callable[[Card], Compiled]:
    """As `lru_cache`, but cards are told apart by identity: to compare or to hash a card takes longer than all that is done with it."""
    known: dict[int, tuple[Any, Compiled]] = {}

    @wraps(compile_)
    def compiled(card: Card) -> Compiled:
        found = known.get(id(card))
        if found is None:
            if len(known) >= _MOST:
                known.clear()
            found = known[id(card)] = (card, compile_(card))  # the card as well, so that its identity stays its own
        return found[1]

    return compiled
