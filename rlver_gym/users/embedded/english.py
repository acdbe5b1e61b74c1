"""What is known of English words: what they are about, their vectors, and the classifier of what a
sentence asks or does. Whole numbers, the same on every machine. Knows no card.
"""

import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from math import log
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from rlver_gym.core.inquiries import EXAMPLES
from rlver_gym.core.words import FUNCTION_WORDS, stem
from rlver_gym.util.files import load_json
from rlver_gym.util.frozen import Memo

DATA = "rlver_gym.users.embedded"
WORDS: dict[str, str] = load_json(DATA, "words.json")
"""Lists of words by name."""
SCALE = 127
"""The length of a text's vector."""
RAREST, SLIP = 200, 30
"""Hundredths of a nat: of a word in one story, and of one that no supporter ever used."""
PERSON = "PERSON"
"""Stands for any name and any relation: "your sister" and "Marek" are asked about alike."""


def word_set(name: str) -> frozenset[str]:
    return frozenset(WORDS[name].replace("|", " ").split())


def word_groups(name: str) -> list[list[str]]:
    return [group.split() for group in WORDS[name].split("|")]


RELATIONS = word_set("relations")
_MASKED = word_set("masked relations")
_STOP = word_set("saying nothing about a matter") | word_set("question words")
_PRONOUNS = word_set("pronouns")
_CANONICAL = {
    form: stem(group[0])
    for group in reversed(word_groups("synonyms"))
    for word in group
    for form in (stem(word), word)
}
_FOLDED = {word: group[0] for group in word_groups("folded") for word in group}
_SAME_TO_CLASSIFIER = {"he": "he", "she": "he", "him": "him", "his": "her", "her": "her", "hers": "her"}  # fmt: skip
FEELING_OF = {
    word: feeling for feeling, words in EXAMPLES["feeling"].items() for word in words.split()
}


def hash_text(text: str) -> int:
    return crc32(text.encode())


def find_token_text(word: str) -> str:
    """What a lower-case word is about, as a stem with synonyms taken together; empty for none."""
    if word in _STOP or word in _PRONOUNS:
        return ""
    root = stem(word)
    return _CANONICAL.get(word) or _CANONICAL.get(root) or root


class Word(NamedTuple):
    """All that is ever asked of a word, worked out once."""

    token: int
    """What it is about, by hash; 0 for a word that says nothing about a matter."""
    folded: int
    """By hash, with speaker and listener folded: "my" is "your"."""
    row: int
    """In the table of vectors; -1 for none."""
    masked: str
    """What the classifier of questions sees."""
    stem: str
    """What the classifier of acts sees."""
    is_function: bool


class _Tables(NamedTuple):
    row_of: dict[str, int]
    vectors: np.ndarray
    common: np.ndarray
    units: dict[str, int]
    """Words and pairs of the classifier."""
    states: np.ndarray
    of_labels: np.ndarray
    bias: np.ndarray
    act_units: dict[str, int]
    """Stems and pairs of stems of the classifier of acts."""
    act_weights: np.ndarray
    """In hundredths of a logit."""
    act_bias: np.ndarray


@lru_cache(maxsize=1)
def load_tables() -> _Tables:
    """Vectors and classifier; both end with a row of zeros, for what is not known."""

    def load(name: str) -> dict[str, Any]:
        with files(DATA).joinpath(name).open("rb") as file, np.load(file) as data:
            return dict(data)

    near, acts, done = load("vectors.npz"), load("recogniser.npz"), load("acts.npz")
    meta = json.loads(bytes(acts["meta"]).decode())
    if tuple(meta["labels"]) != LABELS:
        raise ValueError("recogniser.npz has other labels than words.json")
    words = bytes(near["words"]).decode().split("\n")
    states = np.concatenate([acts["of_words"], acts["of_pairs"]])
    return _Tables(
        dict(zip(words, range(len(words)), strict=True)),
        np.pad(near["vectors"], ((0, 1), (0, 0))).astype(np.float32),
        np.unpackbits(near["common"], count=len(words)),
        {unit: at for at, unit in enumerate([*meta["words"], *meta["pairs"]])},
        np.pad(states, ((0, 1), (0, 0))).astype(np.float32),
        (acts["of_labels"] / meta["scale"]).astype(np.float32),
        (acts["bias"] / 1000).astype(np.float32),
        {unit: at for at, unit in enumerate(bytes(done["units"]).decode().split("\n"))},
        np.pad(done["weights"], ((0, 1), (0, 0))).astype(np.float32),
        done["bias"].astype(np.float32),
    )


ACTS = tuple(WORDS["acts"].split())
ACT = {act: at for at, act in enumerate(ACTS)}
LABELS = tuple(WORDS["labels"].split())
LABEL = {label: at for at, label in enumerate(LABELS)}


def is_common_word(word: str) -> bool:
    """Whether a lower-case word is written small, which no name is."""
    tables = load_tables()
    row = tables.row_of.get(word)
    return row is not None and bool(tables.common[row])


def _make_word(word: str) -> Word:
    token = find_token_text(word)
    return Word(
        hash_text(token) if token else 0,
        hash_text(_FOLDED.get(word, word)),
        load_tables().row_of.get(word, -1),
        PERSON if word.removesuffix("'s") in _MASKED else _SAME_TO_CLASSIFIER.get(word, word),
        stem(word),
        word in FUNCTION_WORDS,
    )


look_up = Memo(_make_word, 50_000).__getitem__


@lru_cache(maxsize=1)
def load_weights() -> dict[int, int]:
    """Of tokens, log(situations / those in which supporters use it), in hundredths of a nat."""
    data = load_json(DATA, "spread.json")
    return {
        hash_text(token): min(RAREST, round(100 * log(data["situations"] / int(count))))
        for count, tokens in data["spread"].items()
        for token in tokens.split()
    }


def weigh(tokens: Collection[int], unknown: int = RAREST) -> int:
    """How much tokens say about which story they belong to, in hundredths of a nat."""
    get = load_weights().get
    return sum([get(token, unknown) for token in tokens])


def embed(rows: Sequence[int], starts: Sequence[int]) -> np.ndarray:
    """The vectors of the parts of a text that begin at these words, of length SCALE, and in the
    last row that of the whole; whole numbers, so that products are exact.
    """
    table = load_tables().vectors
    total = np.zeros((len(starts) + 1, table.shape[1]), np.float32)
    if len(rows):
        np.add.reduceat(table.take(rows, 0), starts, out=total[:-1])
        total[-1] = total[:-1].sum(0)
    length = np.sqrt(np.einsum("ij,ij->i", total, total))
    return np.rint(total * (SCALE / np.maximum(length, 1.0))[:, None])


def embed_lines(lines: Sequence[Sequence[str]]) -> np.ndarray:
    """The vectors of lines of words, one a row."""
    rows: list[int] = []
    starts = []
    for words in lines:
        starts.append(len(rows))
        rows += [look_up(word).row for word in words] or [-1]
    return embed(rows, starts)[:-1]


def weigh_acts(each: Sequence[Sequence[str]]) -> np.ndarray:
    """The evidence that each of several sentences does each of ACTS, in logits; `each`: stems with
    their ending, "?" or ".", as the last.
    """
    tables = load_tables()
    get, rows, starts = tables.act_units.get, [], []
    for stems in each:
        starts.append(len(rows))
        rows += [get(one, -1) for one in stems]
        rows.append(get("^", -1))
        rows += [get(f"{one} {other}", -1) for one, other in pairwise(("^", *stems))]
    return (np.add.reduceat(tables.act_weights.take(rows, 0), starts) + tables.act_bias) / 100


def classify(each: Sequence[Sequence[str]]) -> np.ndarray:
    """How probably each of several masked sentences asks or does each of LABELS."""
    tables = load_tables()
    get, rows, starts, counts = tables.units.get, [], [], []
    for words in each:
        starts.append(len(rows))
        rows += [get(word, -1) for word in words]
        rows += [get(f"{one} {other}", -1) for one, other in pairwise(("<", *words, ">"))]
        counts.append(len(words) or 1)
    logits = np.add.reduceat(tables.states.take(rows, 0), starts) @ tables.of_labels
    logits /= np.sqrt(np.array(counts, np.float32))[:, None]
    logits += tables.bias
    logits -= logits.max(1, keepdims=True)
    shares = np.exp(logits)
    shares /= shares.sum(1, keepdims=True)
    return np.rint(shares * 4096) / 4096
