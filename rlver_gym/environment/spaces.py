"""The space of utterances: any Unicode text up to a length."""

import string
from typing import Any

from gymnasium import spaces


class Utterance(spaces.Text):
    """Text of 0 to `max_length` characters, in any script.

    Gymnasium's own `Text` lists its characters, and its default list refuses a space; listing all of Unicode takes
    seconds. This one accepts every string that can be encoded, and samples printable ASCII.
    """

    def __init__(self, max_length: int, seed: int | None = None) -> None:
        """`max_length` in characters."""
        super().__init__(max_length, min_length=0, charset=string.ascii_letters + string.digits + " .,!?'", seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether x is a string of at most `max_length` characters without lone surrogates."""
        return isinstance(x, str) and len(x) <= self.max_length and not any("\ud800" <= char <= "\udfff" for char in x)

    def __eq__(self, other: object) -> bool:
        """Equal to utterance spaces of the same length."""
        return isinstance(other, Utterance) and other.max_length == self.max_length

    def __repr__(self) -> str:
        """Such as Utterance(4000)."""
        return f"Utterance({self.max_length})"
