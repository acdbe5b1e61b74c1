"""The gate on word salad: how far words hang together. Pairs of neighbours that English has or has
not, words that are none, capitals within words, words twice. Fluent nonsense passes it: only a user
that reads hears that.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from rlver_gym.users.embedded.english import DATA, load_tables
from rlver_gym.users.embedded.hear import Heard
from rlver_gym.util.frozen import Memo

SIZE = 1 << 16
"""Cells of the table of pairs; two pairs may share one."""
_INNER_CAPITAL = re.compile(r"\b[a-z]+[A-Z]|\b[A-Z]{2,}[a-z]{2,}\b")
_TWICE = frozenset("that had no very so really now there yes ha bye oh please long".split())
_LETTERS = frozenset("aiouxy0123456789")
_ENDINGS = ("ing", "ed", "ly", "s")
_BROKEN = 3.0
"""The evidence, in logits, from which a sentence is taken for broken."""
_FEWEST = 5
"""Words from which on pairs say something."""


class Gate(NamedTuple):
    """The fitted gate."""

    common: dict[str, int]
    """Words that stand for themselves; others by their ending."""
    pairs: np.ndarray
    """By hashed pair, how much oftener it comes than its words say, in tenths of a nat."""
    known: frozenset[str]
    """Words that English, the corpus or a shipped card has, beside those with a vector."""
    weights: np.ndarray
    """Of `measure`, and a constant."""


@lru_cache(maxsize=1)
def load_gate() -> Gate:
    with files(DATA).joinpath("gate.npz").open("rb") as file, np.load(file) as data:
        words = bytes(data["common"]).decode().split("\n")
        known = frozenset(bytes(data["known"]).decode().split("\n"))
        common = {word: at for at, word in enumerate(words, len(_ENDINGS) + 2)}
        return Gate(common, data["pairs"], known, data["weights"])


def make_unit(word: str, common: dict[str, int]) -> int:
    """What a word is to its neighbours: itself, or its ending."""
    if word in common:
        return common[word]
    return next((at for at, end in enumerate(_ENDINGS, 1) if word.endswith(end)), 0)


def hash_pairs(units: np.ndarray) -> np.ndarray:
    return (units[:-1] * 40_503 + units[1:] * 9_973) % SIZE


_unit_of = Memo[str, int](lambda word: make_unit(word, load_gate().common), 50_000).__getitem__


def measure(
    heard: Heard,
    words_of_story: frozenset[str],
    gate: Gate,
    unit_of: Callable[[str], int] = _unit_of,
) -> list[float]:
    """How familiar its pairs are in the mean and how many are strange, the shares of words that are
    none, that are torn by capitals, that come twice running, and that stand in sentences of which
    the classifier of acts says that they do not hang together.
    """
    words = heard.words
    count = len(words)
    units = np.array([unit_of(word) for word in words]) if count else np.zeros(0, np.int64)
    pairs = gate.pairs[hash_pairs(units)] if count > 1 else np.zeros(1)
    row_of, known = load_tables().row_of, gate.known
    strange = [
        word
        for word in words
        if len(word) > 3
        and word not in row_of
        and word not in known
        and word not in words_of_story
        and not word[0].isdigit()
    ]
    names = sum([word in heard.names for word in strange])
    twice = sum(
        [one == other and one not in _TWICE for one, other in zip(words, words[1:], strict=False)]
    )
    lone = sum([len(word) == 1 and word not in _LETTERS for word in words])
    size = max(8, count)
    return [
        float(pairs.mean()) / 10,
        float((pairs < -5).mean()),
        max(0, len(strange) - names + lone + twice - 1) / size,  # one may be rare, or a slip
        len(_INNER_CAPITAL.findall(heard.text)) / size,
        twice / size,
        sum(
            [
                len(one.words)
                for one, sure in zip(heard.sentences, heard.evidence[:, -1].tolist(), strict=True)
                if sure >= _BROKEN and len(one.words) >= _FEWEST
            ]
        )
        / size,
    ]


def find_garble(heard: Heard, words_of_story: frozenset[str]) -> float:
    """How much of an utterance does not hang together, in [0, 1]: by the whole, or by its sentences,
    of which less has to be surer.
    """
    count = len(heard.words)
    if count < _FEWEST:
        return 0.0
    gate = load_gate()
    logit = _weigh(heard, words_of_story, gate)
    whole = min(1.0, max(0.0, (logit - _FREE) / 3))
    if len(heard.sentences) < 2 or logit < _SOUND:
        return whole
    torn = 0
    for one in heard.sentences:
        if len(one.words) >= _LONG:
            part = heard._replace(
                text=one.text, words=one.words, sentences=(), evidence=heard.evidence[:0],
                functions=0,
            )  # fmt: skip
            torn += len(one.words) * (_weigh(part, words_of_story, gate) >= _SURE)
    return max(whole, torn / count)


_LONG, _SURE, _FREE, _SOUND = 8, 2.0, 1.0, -3.0
"""Words of a sentence that is weighed alone; the logits from which it counts, and from which a whole
does: half of a percent of honest replies lie above."""


def _weigh(heard: Heard, words_of_story: frozenset[str], gate: Gate) -> float:
    """The logit of their being salad."""
    found = measure(heard, words_of_story, gate)
    return float(gate.weights[:-1] @ found + gate.weights[-1])
