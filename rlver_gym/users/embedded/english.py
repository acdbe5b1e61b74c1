"""What is known of English words: what they are about, their vectors, what they are to classifiers
of what a sentence asks or does. Whole numbers, the same on every machine. Knows no card.
"""

import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate, chain, pairwise, repeat
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
"""Lists of words, and patterns, by name."""
SCALE = 127
"""The length of a text's vector."""
UNIT = float(SCALE * SCALE)
"""The product of two vectors of the same direction."""
RAREST, SLIP = 200, 30
"""Hundredths of a nat: of a word in one story, and of one that no supporter ever used."""
PERSON = "PERSON"
"""Stands for any name and any relation: "your sister" and "Marek" are asked about alike."""


def word_set(name: str) -> frozenset[str]:
    return frozenset(WORDS[name].replace("|", " ").split())


def word_groups(name: str) -> list[list[str]]:
    return [group.split() for group in WORDS[name].split("|")]


ACTS = tuple(WORDS["acts"].split())
ACT = {act: at for at, act in enumerate(ACTS)}
LABELS = tuple(WORDS["labels"].split())
LABEL = {label: at for at, label in enumerate(LABELS)}
RELATIONS = word_set("relations")
FEELING_OF = {
    word: feeling for feeling, words in EXAMPLES["feeling"].items() for word in words.split()
}
_MASKED = word_set("masked relations")
_SILENT = word_set("saying nothing about a matter") | word_set("question words")
_SILENT |= word_set("pronouns")
_CANONICAL = {
    form: stem(group[0])
    for group in reversed(word_groups("synonyms"))
    for word in group
    for form in (stem(word), word)
}
_FOLDED = {word: group[0] for group in word_groups("folded") for word in group}
_SAME_TO_CLASSIFIER = {word: group[0] for group in word_groups("alike asked") for word in group}
_ENDINGS = ("ing", "ed", "ly", "s")
_MOST_WORDS = 60_000
_AT_ONCE = 40


def hash_text(text: str) -> int:
    return crc32(text.encode())


def find_token_text(word: str) -> str:
    """What a lower-case word is about, as a stem with synonyms taken together; empty for none."""
    if word in _SILENT:
        return ""
    root = stem(word)
    return _CANONICAL.get(word) or _CANONICAL.get(root) or root


class Word(NamedTuple):
    """All that is ever asked of a lower-case word."""

    text: str
    token: int  # what it is about, by hash; 0 for a word that says nothing about a matter
    folded: int  # by hash, with speaker and listener folded: "my" is "your"
    row: int  # in the table of vectors, whose last row is of zeros
    act: str  # what it is to the classifier of acts
    question: str  # what it is to the classifier of questions
    neighbour: int  # what it is to its neighbours: itself, or its ending
    is_none: bool  # whether it is no word that English, the corpus or a shipped card has
    is_function: bool


def _look_up(word: str) -> Word:
    tables, token = load_tables(), find_token_text(word)
    row = tables.row_of.get(word, -1)
    return Word(
        word,
        hash_text(token) if token else 0,
        hash_text(_FOLDED.get(word, word)),
        row,
        stem(word),
        PERSON if word in _MASKED else _SAME_TO_CLASSIFIER.get(word, word),
        find_neighbour(word, tables.common),
        row < 0 and len(word) > 3 and word not in tables.known and not word[0].isdigit(),
        word in FUNCTION_WORDS,
    )


LEXICON = Memo(_look_up, _MOST_WORDS)
"""Words, looked up once."""


def get_token(word: str) -> int:
    """What a lower-case word is about, by hash; 0 for nothing."""
    return LEXICON[word].token


def find_neighbour(word: str, common: dict[str, int]) -> int:
    if word in common:
        return common[word]
    return next((at for at, end in enumerate(_ENDINGS, 1) if word.endswith(end)), 0)


_NONE = repeat(-1)
"""The row of what is not known."""


class Classifier(NamedTuple):
    """Sums of weights of words and of pairs of neighbours."""

    alone: dict[str, int]  # by word, the row of its weights
    pairs: dict[tuple[str, ...], int]
    weights: np.ndarray  # the last row is of zeros
    bias: np.ndarray

    def add_up(self, units: Sequence[str], starts: Sequence[int]) -> np.ndarray:
        """The sum of each sentence of those that begin at these words, a row each."""
        rows = (
            list(map(self.alone.get, units, _NONE)),
            [-1, *map(self.pairs.get, pairwise(units), _NONE)],
        )
        sums = np.add.reduceat(self.weights.take(rows, 0), starts, 1)
        return sums[0] + sums[1]


def _make_classifier(texts: Sequence[str], weights: np.ndarray, bias: Any) -> Classifier:
    """`texts`: words, and pairs with a blank within, a row of the weights each."""
    alone = {text: at for at, text in enumerate(texts) if " " not in text}
    pairs = {tuple(text.split(" ")): at for at, text in enumerate(texts) if " " in text}
    return Classifier(alone, pairs, _pad(weights), np.asarray(bias, np.float32))


def _pad(weights: np.ndarray) -> np.ndarray:
    return np.pad(weights, ((0, 1), (0, 0))).astype(np.float32)


class _Tables(NamedTuple):
    row_of: dict[str, int]
    vectors: np.ndarray
    is_small: np.ndarray  # whether a word with a vector is written small
    acts: Classifier  # in hundredths of a logit
    questions: Classifier  # to states, which `of_labels` takes to logits
    of_labels: np.ndarray
    common: dict[str, int]  # words that stand for themselves to the gate; others by their ending
    known: frozenset[str]  # words that the corpus or a card has, beside those with a vector
    pairs: memoryview  # by hashed pair of neighbours, how familiar it is, in tenths of a nat
    gate: list[float]  # weights of `rules.measure_salad`, and a constant


@lru_cache(maxsize=1)
def load_tables() -> _Tables:
    """Vectors, classifiers and gate; matrices end with a row of zeros, for what is not known."""

    def load(name: str) -> dict[str, np.ndarray]:
        with files(DATA).joinpath(name).open("rb") as file, np.load(file) as data:
            return dict(data)

    def number(texts: Sequence[str], first: int = 0) -> dict[str, int]:
        return dict(zip(texts, range(first, first + len(texts)), strict=True))

    near, acts, done, gate = map(load, ("vectors.npz", "recogniser.npz", "acts.npz", "gate.npz"))
    meta = json.loads(bytes(acts["meta"]).decode())
    if tuple(meta["labels"]) != LABELS:
        raise ValueError("recogniser.npz has other labels than words.json")
    words = bytes(near["words"]).decode().split("\n")
    states = np.concatenate([acts["of_words"], acts["of_pairs"]])
    units = bytes(done["units"]).decode().split("\n")
    return _Tables(
        number(words),
        _pad(near["vectors"]),
        np.unpackbits(near["common"], count=len(words)),
        _make_classifier(units, done["weights"], done["bias"]),
        _make_classifier([*meta["words"], *meta["pairs"]], states, acts["bias"] / 1000),
        (acts["of_labels"] / meta["scale"]).astype(np.float32),
        number(bytes(gate["common"]).decode().split("\n"), len(_ENDINGS) + 2),
        frozenset(bytes(gate["known"]).decode().split("\n")),
        memoryview(gate["pairs"].data),
        gate["weights"].tolist(),
    )


def is_common_word(word: str) -> bool:
    """Whether a lower-case word is written small, which no name is."""
    row = LEXICON[word].row
    return row >= 0 and bool(load_tables().is_small[row])


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
    """The sums of the vectors of the parts of a text that begin at these words; whole numbers."""
    vectors = load_tables().vectors
    if not rows:
        return np.zeros((0, vectors.shape[1]), np.float32)
    return np.add.reduceat(vectors.take(rows, 0), starts)


def scale(sums: np.ndarray) -> np.ndarray:
    """Vectors of length SCALE; whole numbers, so that products are exact."""
    length = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    return np.rint(sums * (SCALE / np.maximum(length, 1.0))[:, None])


def embed_lines(lines: Sequence[Sequence[str]]) -> np.ndarray:
    """The vectors of lines of words, one a row."""
    rows = [[LEXICON[word].row for word in line] or [-1] for line in lines]
    starts = list(accumulate(map(len, rows[:-1]), initial=0)) if rows else []
    return scale(embed(list(chain.from_iterable(rows)), starts))


def weigh_acts(units: Sequence[str], starts: Sequence[int]) -> np.ndarray:
    """The evidence that each sentence does each of ACTS, in logits."""
    acts = load_tables().acts
    return (acts.add_up(units, starts) + acts.bias) / 100


def classify(units: Sequence[str], starts: Sequence[int], roots: Sequence[float]) -> np.ndarray:
    """How probably each of several masked sentences asks or does each of LABELS; `roots`: of how
    many words each has.
    """
    tables = load_tables()
    states = tables.questions.add_up(units, starts)
    if len(states) <= _AT_ONCE:
        logits = states @ tables.of_labels
    else:  # in pieces: of larger matrices numpy makes several threads, which wait for one another
        parts = [states[at : at + _AT_ONCE] for at in range(0, len(states), _AT_ONCE)]
        logits = np.concatenate([part @ tables.of_labels for part in parts])
    logits /= np.array(roots, np.float32)[:, None]
    logits += tables.questions.bias
    shares = np.exp(logits - np.maximum.reduce(logits, 1, keepdims=True))
    return np.rint(shares * (4096 / np.add.reduce(shares, 1, keepdims=True))) / 4096
