"""The space of utterances: text of any script, which Gymnasium can flatten, share and batch."""

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import read_from_shared_memory

MAX_REPLY_CHARS = 16_000
"""The longest text that a person says."""
_SAMPLED = tuple(string.ascii_letters + string.digits + " .,!?'")


class _Unicode(Sequence[str]):
    """Every code point, without a list of them: character number i is chr(i)."""

    def __len__(self) -> int:
        return 0x110000

    def __getitem__(self, index: Any) -> Any:
        return chr(index)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and len(value) == 1

    def __reduce__(self) -> str:
        return "_UNICODE"


_UNICODE: Any = _Unicode()


class Utterance(spaces.Text):
    """Text of 0 to `max_length` characters in any script: every string that can be encoded.
    Gymnasium's own `Text` lists its characters, which takes seconds for all of Unicode. Samples are
    printable ASCII.
    """

    def __init__(self, max_length: int, seed: int | None = None) -> None:
        super().__init__(max_length, min_length=0, charset="".join(_SAMPLED), seed=seed)

    @property
    def character_set(self) -> Any:
        return _UNICODE

    @property
    def character_list(self) -> Any:
        return _UNICODE

    def character_index(self, char: str) -> np.int32:
        return np.int32(ord(char))

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Printable ASCII of any length, or of the mask's. ValueError for a mask of characters."""
        length, weights = mask or probability or (None, None)
        if weights is not None or not (length is None or 0 <= length <= self.max_length):
            raise ValueError(
                f"{self} draws every printable character alike: give (length, None), with a length"
                f" from 0 to {self.max_length}."
            )
        if length is None:
            length = self.np_random.integers(self.max_length + 1)
        return "".join(self.np_random.choice(_SAMPLED, size=int(length)))

    def contains(self, x: Any) -> bool:
        """Whether x is a string of at most `max_length` characters without lone surrogates."""
        return (
            isinstance(x, str)
            and len(x) <= self.max_length
            and not any("\ud800" <= char <= "\udfff" for char in x)
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Utterance) and other.max_length == self.max_length

    def __repr__(self) -> str:
        return f"Utterance({self.max_length})"


class _SharedTexts(Sequence[str]):
    """The texts in memory that processes share, as they are when they are looked at, since
    Gymnasium's `AsyncVectorEnv` reads its memory once; a deep copy is a tuple of what they are now.
    """

    def __init__(self, space: Utterance, memory: Any, num_texts: int) -> None:
        data = np.frombuffer(memory.get_obj(), dtype=np.int32)
        self._code_BT = data.reshape(num_texts, space.max_length)

    def __len__(self) -> int:
        return len(self._code_BT)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        code_T = self._code_BT[index]
        return "".join(map(chr, code_T[code_T < len(_UNICODE)].tolist()))

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return repr(tuple(self))


@read_from_shared_memory.register(Utterance)  # pyright: ignore[reportArgumentType]
def _read_texts(space: Utterance, shared_memory: Any, n: int = 1) -> _SharedTexts:
    return _SharedTexts(space, shared_memory, n)
