"""What is known of English words, in whole numbers, the same everywhere. Knows no card."""

import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate, chain, count, pairwise, repeat
from math import log
from typing import NamedTuple
from zlib import crc32

import numpy as np

from rlver_gym.core.inquiries import EXAMPLES
from rlver_gym.core.words import FUNCTION_WORDS, stem
from rlver_gym.util.files import load_json
from rlver_gym.util.frozen import Memo

DATA = "rlver_gym.users.embedded"
WORDS: dict[str, str] = load_json(DATA, "words.json")  # lists of words, and patterns, by name
SCALE = 127  # the length of a text's vector
UNIT = float(SCALE * SCALE)  # the product of two vectors of the same direction
RAREST, SLIP = 200, 30  # hundredths of a nat: of a word in one story, of one that nobody used
PERSON = "PERSON"  # any name and relation: "your sister" and "Marek" are asked about alike


def word_set(*names: str) -> frozenset[str]:
    return frozenset([word for name in names for word in WORDS[name].replace("|", " ").split()])


def word_groups(name: str) -> list[list[str]]:
    return [group.split() for group in WORDS[name].split("|")]


ACTS, LABELS = WORDS["acts"].split(), WORDS["labels"].split()
ACT, LABEL = ({name: at for at, name in enumerate(names)} for names in (ACTS, LABELS))
RELATIONS = word_set("relations")
FEELING_OF = {
    word: feeling for feeling, words in EXAMPLES["feeling"].items() for word in words.split()
}
ASKED_ALIKE = {word: group[0] for group in word_groups("alike asked") for word in group}
ASKED_ALIKE |= dict.fromkeys(word_set("masked relations"), PERSON)
"""What words are to the classifier of questions, where they are not themselves."""
_FOLDED = {word: group[0] for group in word_groups("folded") for word in group}
_SILENT = word_set("saying nothing about a matter", "question words", "pronouns")
_CANONICAL = {
    form: stem(group[0])
    for group in reversed(word_groups("synonyms"))
    for word in group
    for form in (stem(word), word)
}
_ENDINGS = ("ing", "ed", "ly", "s")
_MOST_WORDS, _AT_ONCE = 60_000, 40


class Word(NamedTuple):
    """All that is ever asked of a lower-case word."""

    text: str
    token: int  # what it is about, by hash; 0 for a word that says nothing about a matter
    folded: int  # by hash, with speaker and listener folded: "my" is "your"
    row: int  # in the table of vectors; 0 for none
    act: int  # its number for the classifier of acts
    question: int  # its number for the classifier of questions
    neighbour: int  # what it is to its neighbours: itself, or its ending
    is_none: bool  # whether it is no word that English, the corpus or a shipped card has
    is_function: bool
    is_small: bool  # whether it is written small, which no name is


def _look_up(word: str) -> Word:
    tables, root = load_tables(), stem(word)
    row = tables.row_of.get(word, 0)
    about = "" if word in _SILENT else _CANONICAL.get(word) or _CANONICAL.get(root) or root
    return Word(
        word,
        crc32(about.encode()) if about else 0,
        crc32(_FOLDED.get(word, word).encode()),
        row,
        tables.acts.number.get(root, 0),
        tables.questions.number.get(ASKED_ALIKE.get(word, word), 0),
        find_neighbour(word, tables.common),
        not row and len(word) > 3 and word not in tables.known and not word[0].isdigit(),
        word in FUNCTION_WORDS,
        bool(row and tables.is_small[row - 1]),
    )


LEXICON = Memo(_look_up, _MOST_WORDS)  # words, looked up once


def find_neighbour(word: str, common: dict[str, int]) -> int:
    if word in common:
        return common[word]
    return next((at for at, end in enumerate(_ENDINGS, 1) if word.endswith(end)), 0)


class _Classifier:
    """Sums of weights of words and of pairs of neighbours, in whole numbers."""

    def __init__(self, texts: Sequence[str], weights: np.ndarray, bias: np.ndarray) -> None:
        """`texts`: words, and pairs with a blank within, a row of the weights each."""
        rows = [(text.split(" "), row) for row, text in enumerate(texts, 1)]
        self.number = {text[0]: row for text, row in rows if len(text) == 1}
        pairs = [(text, row) for text, row in rows if len(text) == 2]
        words = dict.fromkeys([word for text, _ in pairs for word in text])
        others = [word for word in words if word not in self.number]
        self.number.update(zip(others, count(len(texts) + 1), strict=False))
        self.pairs = {(self.number[one], self.number[other]): row for (one, other), row in pairs}
        # the first row, of zeros, is of what is not known
        self.weights = np.pad(weights, ((1, len(others)), (0, 0))).astype(np.float32)
        self.bias = bias.astype(np.float32)

    def add_up(self, numbers: Sequence[int], starts: Sequence[int]) -> np.ndarray:
        """The sum of each sentence of those that begin at these words, a row each."""
        pairs = [0, *map(self.pairs.get, pairwise(numbers), repeat(0))]
        sums = np.add.reduceat(self.weights.take((numbers, pairs), 0), starts, 1)
        return sums[0] + sums[1]


class _Tables:
    """What was fitted."""

    def __init__(self) -> None:
        near, asked, done, gate = map(_load, ("vectors", "recogniser", "acts", "gate"))
        words, meta = _split(near["words"]), json.loads(bytes(asked["meta"]))
        self.row_of = dict(zip(words, count(1), strict=False))
        self.vectors = np.pad(near["vectors"], ((1, 0), (0, 0))).astype(np.float32)
        self.is_small = np.unpackbits(near["common"], count=len(words))
        # in hundredths of a logit
        self.acts = _Classifier(_split(done["units"]), done["weights"], done["bias"])
        # to states, which `of_labels` takes to logits
        states = np.concatenate([asked["of_words"], asked["of_pairs"]])
        self.questions = _Classifier(meta["words"] + meta["pairs"], states, asked["bias"] / 1000)
        self.of_labels = (asked["of_labels"] / meta["scale"]).astype(np.float32)
        # words that stand for themselves to the gate; others by their ending
        self.common = dict(zip(_split(gate["common"]), count(len(_ENDINGS) + 2), strict=False))
        self.known = frozenset(_split(gate["known"]))  # words of the corpus and of cards
        self.pairs = memoryview(gate["pairs"].data)  # by hash, how familiar, in tenths of a nat
        self.gate: list[float] = gate["weights"].tolist()  # of `gate.measure_salad`; a constant


def _load(name: str) -> dict[str, np.ndarray]:
    with files(DATA).joinpath(f"{name}.npz").open("rb") as file, np.load(file) as data:
        return dict(data)


def _split(text: np.ndarray) -> list[str]:
    return bytes(text).decode().split("\n")


load_tables = lru_cache(maxsize=1)(_Tables)


@lru_cache(maxsize=1)
def load_weights() -> dict[int, int]:
    """Of tokens, log(situations / those in which supporters use it), in hundredths of a nat."""
    data = load_json(DATA, "spread.json")
    return {
        crc32(token.encode()): min(RAREST, round(100 * log(data["situations"] / int(many))))
        for many, tokens in data["spread"].items()
        for token in tokens.split()
    }


def weigh_rare(tokens: Collection[int]) -> int:
    """How much tokens say about which story they belong to, in hundredths of a nat."""
    get = load_weights().get
    return sum([get(token, RAREST) for token in tokens])


def embed(rows: Sequence[int], starts: Sequence[int]) -> np.ndarray:
    """The sums of the vectors of the parts of a text that begin at these words; whole numbers."""
    return np.add.reduceat(load_tables().vectors.take(rows, 0), starts)


def scale_vectors(sums: np.ndarray) -> np.ndarray:
    """Vectors of length SCALE; whole numbers, so that products are exact."""
    length = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    return np.rint(sums * (SCALE / np.maximum(length, 1.0))[:, None])


def embed_lines(lines: Sequence[Sequence[str]]) -> np.ndarray:
    """The vectors of lines of words, one a row."""
    if not lines:
        return np.zeros((0, load_tables().vectors.shape[1]), np.float32)
    rows = [[LEXICON[word].row for word in line] or [0] for line in lines]
    starts = list(accumulate(map(len, rows[:-1]), initial=0))
    return scale_vectors(embed(list(chain.from_iterable(rows)), starts))


def classify(numbers: Sequence[int], starts: Sequence[int], roots: Sequence[float]) -> np.ndarray:
    """How probably sentences ask or do each of LABELS; `roots`: of how many words each has."""
    tables = load_tables()
    states = tables.questions.add_up(numbers, starts)
    # in pieces: of larger matrices numpy makes several threads, which wait for one another
    parts = [states[at : at + _AT_ONCE] for at in range(0, len(states), _AT_ONCE)]
    logits = np.concatenate([part @ tables.of_labels for part in parts])
    logits /= np.array(roots, np.float32)[:, None]
    logits += tables.questions.bias
    shares = np.exp(logits - np.maximum.reduce(logits, 1, keepdims=True))
    return np.rint(shares * (4096 / np.add.reduce(shares, 1, keepdims=True))) / 4096
