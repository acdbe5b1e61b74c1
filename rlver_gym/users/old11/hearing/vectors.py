"""Word vectors: what a text is about, as a vector in whole numbers, the same on every machine."""

import math
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np

SCALE = 127
"""The length of a text's vector, so that products of two are in ±SCALE²."""


class _Rows(dict[str, int]):
    """The rows of words; -1, which is the row of zeros, for a word that has none."""

    def __missing__(self, word: str) -> int:
        return -1


class _Table(NamedTuple):
    rows: _Rows
    vectors: np.ndarray
    """Whole numbers up to 127. One more row than words, of zeros: that of a word that it has not.
    """
    common: frozenset[str]


@lru_cache(maxsize=1)
def _load_table() -> _Table:
    path = files("rlver_gym.users.embedded.hearing").joinpath("vectors.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
        words = bytes(data["words"]).decode().split("\n")
        is_common = np.unpackbits(data["common"], count=len(words)).tolist()
        return _Table(
            _Rows(zip(words, range(len(words)), strict=True)),
            np.pad(data["vectors"], ((0, 1), (0, 0))),
            frozenset(word for word, common in zip(words, is_common, strict=True) if common),
        )


def is_common_word(word: str) -> bool:
    """Whether a lower-case word is written small, which no name is."""
    return word in _load_table().common


def embed_text(words: Sequence[str]) -> np.ndarray:
    """The vector of a text of these lower-case words: whole numbers as float32, whose products are
    exact in any order; zeros when it has no known word.
    """
    rows, vectors, _ = _load_table()
    total = np.add.reduce(vectors.take([-1, *map(rows.__getitem__, words)], 0), 0, dtype=float)
    length = math.sqrt(total @ total)
    return np.rint(total * (SCALE / length) if length else total).astype(np.float32)


def find_row(word: str) -> int:
    """The row of a word in the table; -1 when it has none."""
    return _load_table().rows[word]


def embed_parts(rows: Sequence[int], starts: Sequence[int]) -> np.ndarray:
    """The vectors of the parts of a text that begin at these words, one a row, and in the last row
    that of the whole; its words are known by their rows.
    """
    vectors = _load_table().vectors
    total = np.zeros((len(starts) + 1, vectors.shape[1]))
    if rows:
        total[:-1] = np.add.reduceat(vectors.take(rows, 0).astype(np.float32), starts)
        np.add.reduce(total[:-1], 0, out=total[-1])
    length = np.sqrt(np.einsum("ij,ij->i", total, total))
    return np.rint(total * (SCALE / np.maximum(length, 1.0))[:, None]).astype(np.float32)


def embed_texts(texts: Sequence[Sequence[str]]) -> np.ndarray:
    """The vectors of several texts, one a row."""
    rows, size = _load_table().rows, _load_table().vectors.shape[1]
    if not texts:
        return np.zeros((0, size), np.float32)
    each = [[-1, *map(rows.__getitem__, words)] for words in texts]  # none is empty
    starts = [0, *accumulate(map(len, each[:-1]))]
    return embed_parts(list(chain.from_iterable(each)), starts)[:-1]


def compute_cosine_similarity(rows: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """How like each row is to a vector, in [-1, 1] (cosine)."""
    return (rows @ vector) / float(SCALE * SCALE)
