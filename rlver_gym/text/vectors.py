"""Word vectors: what a text is about, as a vector in whole numbers, the same on every machine."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

SCALE = 127
"""The length of a text's vector, so that products of two are in ±SCALE²."""


class _Table(NamedTuple):
    place: dict[str, int]
    vectors: np.ndarray
    common: frozenset[str]


@lru_cache(maxsize=1)
def _table() -> _Table:
    path = files("rlver_gym.text").joinpath("english", "vectors.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
        words = bytes(data["words"]).decode().split("\n")
        is_common = np.unpackbits(data["common"], count=len(words)).tolist()
        return _Table(
            {word: at for at, word in enumerate(words)},
            data["vectors"].astype(np.int32),
            frozenset(word for word, common in zip(words, is_common, strict=True) if common),
        )


def is_common_word(word: str) -> bool:
    """Whether a lower-case word is written small, which no name is."""
    return word in _table().common


def embed(words: Sequence[str]) -> np.ndarray:
    """The vector of a text of these lower-case words: whole numbers as float32, whose products are
    exact in any order; zeros when it has no known word.
    """
    place, vectors, _ = _table()
    known = [place[word] for word in words if word in place]
    total = vectors[known].sum(0)
    length = float((total.astype(np.int64) ** 2).sum()) ** 0.5
    return np.rint(total * (SCALE / length) if length else total).astype(np.float32)


def row_of(word: str) -> int:
    """The row of a word in the table; -1 when it has none."""
    return _table().place.get(word, -1)


def embed_rows(texts: Sequence[Sequence[int]]) -> np.ndarray:
    """The vectors of several texts, one a row, whose words are known by their rows."""
    vectors = _table().vectors
    if not texts:
        return np.zeros((0, vectors.shape[1]), dtype=np.float32)
    known = [[row for row in one if row >= 0] for one in texts]
    flat = [row for one in known for row in one]
    total = np.zeros((len(texts), vectors.shape[1]), dtype=np.int64)
    if flat:
        has = [at for at, one in enumerate(known) if one]
        starts = np.cumsum([0, *[len(known[at]) for at in has[:-1]]])
        total[has] = np.add.reduceat(vectors[flat], starts)
    length = np.sqrt((total**2).sum(1, keepdims=True).astype(np.float64))
    return np.rint(total * (SCALE / np.maximum(length, 1.0))).astype(np.float32)


def embed_all(texts: Sequence[Sequence[str]]) -> np.ndarray:
    """The vectors of several texts, one a row."""
    size = _table().vectors.shape[1]
    return np.array([embed(words) for words in texts], dtype=np.float32).reshape(-1, size)


def similarity(rows: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """How like each row is to a vector, in [-1, 1] (cosine)."""
    return (rows @ vector) / float(SCALE * SCALE)
