"""What is known of English words: what they are about, their vectors, and the classifier of what a
sentence asks or does. Whole numbers, the same on every machine. Knows no card.
"""

import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from importlib.resources import files
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


class Lexicon:
    """Words by number, and all that is ever asked of a word in columns, worked out once a word."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        size = 1 << 12
        self.token = np.zeros(size, np.int64)
        """What it is about, by hash; 0 for a word that says nothing about a matter."""
        self.folded = np.zeros(size, np.int64)
        """By hash, with speaker and listener folded: "my" is "your"; 0 for a mark."""
        self.row = np.zeros(size, np.int64)
        """In the table of vectors; -1 for none."""
        self.act, self.question = np.zeros((2, size), np.int64)
        """Units of the two classifiers; 0 for an unknown one."""
        self.known, self.slip = np.zeros((2, size), np.int64)
        """Weights in hundredths of a nat; where nobody uses it, RAREST and SLIP."""
        self.is_function = np.zeros(size, bool)
        self.gate = np.zeros(size, np.int64)

    def find(self, words: Sequence[str]) -> list[int]:
        """The numbers of words, good until the next call."""
        if len(self.number) > _MOST_WORDS:
            self.number.clear()
        get = self.number.get
        found = [get(word, -1) for word in words]
        if -1 in found:
            found = [
                self._add(word) if at < 0 else at for word, at in zip(words, found, strict=True)
            ]
        return found

    def _add(self, word: str) -> int:
        at = self.number.get(word)
        if at is not None:
            return at
        at, tables = len(self.number), load_tables()
        if at >= len(self.token):
            for name, column in vars(self).items():
                if isinstance(column, np.ndarray):
                    setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        self.number[word] = at
        is_mark = word in _MARKS
        token = "" if is_mark else find_token_text(word)
        self.token[at] = key = hash_text(token) if token else 0
        self.folded[at] = 0 if is_mark else hash_text(_FOLDED.get(word, word)) | 1
        self.row[at] = -1 if is_mark else tables.row_of.get(word, -1)
        self.act[at] = tables.acts.units.get(word if is_mark else stem(word), 0)
        masked = (
            PERSON if word.removesuffix("'s") in _MASKED else _SAME_TO_CLASSIFIER.get(word, word)
        )
        self.question[at] = tables.questions.units.get(_MARKS.get(word, masked), 0)
        self.known[at] = load_weights().get(key, RAREST) if key else 0
        self.slip[at] = load_weights().get(key, SLIP) if key else 0
        self.is_function[at] = word in FUNCTION_WORDS
        return at


_MOST_WORDS = 60_000
_MARKS = {"^": "<", ".": ">", "?": "?", "$": ">"}
"""What stands before and behind a sentence, and what it is to the classifier of questions."""


class Classifier(NamedTuple):
    """A linear classifier of words and pairs of neighbours."""

    units: dict[str, int]
    """Words by number, from 1."""
    alone: np.ndarray
    """By unit, the row of its weights."""
    pairs: np.ndarray
    """Pairs of units as one number, sorted."""
    pair_rows: np.ndarray
    weights: np.ndarray
    """The last row is of zeros."""
    bias: np.ndarray

    def find_rows(self, units: np.ndarray) -> np.ndarray:
        """The rows of a text's words and, below, of the pairs that end with them."""
        keys = (units[:-1] << 20) | units[1:]
        at = np.minimum(self.pairs.searchsorted(keys), len(self.pairs) - 1)
        found = np.empty((2, len(units)), np.int64)
        found[0] = self.alone[units]
        found[1, 0] = -1
        found[1, 1:] = np.where(self.pairs[at] == keys, self.pair_rows[at], -1)
        return found


def make_classifier(texts: Sequence[str], weights: np.ndarray, bias: np.ndarray) -> Classifier:
    """`texts`: words, and pairs of words with a blank within, one a row of the weights."""
    units: dict[str, int] = {}
    for text in texts:
        for word in text.split(" "):
            units.setdefault(word, len(units) + 1)
    alone = np.full(len(units) + 1, -1)
    keys, rows = [], []
    for row, text in enumerate(texts):
        first, blank, second = text.partition(" ")
        if blank:
            keys.append((units[first] << 20) | units[second])
            rows.append(row)
        else:
            alone[units[text]] = row
    order = np.argsort(keys)
    weights = np.pad(weights, ((0, 1), (0, 0))).astype(np.float32)
    return Classifier(units, alone, np.array(keys)[order], np.array(rows)[order], weights, bias)


class _Tables(NamedTuple):
    row_of: dict[str, int]
    vectors: np.ndarray
    common: np.ndarray
    acts: Classifier
    """In hundredths of a logit."""
    questions: Classifier
    """To states, which `of_labels` takes to logits."""
    of_labels: np.ndarray


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
    bias = (acts["bias"] / 1000).astype(np.float32)
    stems = bytes(done["units"]).decode().split("\n")
    return _Tables(
        dict(zip(words, range(len(words)), strict=True)),
        np.pad(near["vectors"], ((0, 1), (0, 0))).astype(np.float32),
        np.unpackbits(near["common"], count=len(words)),
        make_classifier(stems, done["weights"], done["bias"].astype(np.float32)),
        make_classifier([*meta["words"], *meta["pairs"]], states, bias),
        (acts["of_labels"] / meta["scale"]).astype(np.float32),
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


def embed(rows: Sequence[int] | np.ndarray, starts: Sequence[int]) -> np.ndarray:
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


LEXICON = Lexicon()


def embed_lines(lines: Sequence[Sequence[str]]) -> np.ndarray:
    """The vectors of lines of words, one a row."""
    starts, words = [], []
    for line in lines:
        starts.append(len(words))
        words += line or ("",)
    numbers = LEXICON.find(words)
    return embed(LEXICON.row[numbers], starts)[:-1]


def _find_token(word: str) -> int:
    token = find_token_text(word)
    return hash_text(token) if token else 0


get_token = Memo(_find_token, _MOST_WORDS).__getitem__
"""What a lower-case word is about, by hash; 0 for nothing."""


def weigh_acts(units: np.ndarray, starts: Sequence[int]) -> np.ndarray:
    """The evidence that each sentence does each of ACTS, in logits."""
    acts = load_tables().acts
    rows = acts.find_rows(units)
    evidence = acts.weights.take(rows[0], 0) + acts.weights.take(rows[1], 0)
    return (np.add.reduceat(evidence, starts) + acts.bias) / 100


def classify(units: np.ndarray, starts: Sequence[int], counts: np.ndarray) -> np.ndarray:
    """How probably each of several masked sentences asks or does each of LABELS; `counts`: words."""
    tables = load_tables()
    rows = tables.questions.find_rows(units)
    states = tables.questions.weights.take(rows[0], 0) + tables.questions.weights.take(rows[1], 0)
    logits = np.add.reduceat(states, starts) @ tables.of_labels
    logits /= np.sqrt(counts)[:, None]
    logits += tables.questions.bias
    shares = np.exp(logits - logits.max(1, keepdims=True))
    return np.rint(shares * (4096 / shares.sum(1, keepdims=True))) / 4096
