"""A sentence classifier: what a supporter asks or does in one sentence, whatever the story. A
linear classifier over words and pairs of words, in whole numbers: the same on every machine.

Fitted by `benchmarks/recogniser.py` on sentences that were written by language models in the role
of supporters. Knows no card.
"""

import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

PERSON = "PERSON"
"""Stands for any name and any relation, so that "your sister" and "Marek" are asked about alike."""
_RELATIONS = frozenset(
    """mum mother mom dad father parents parent sister brother son daughter aunt uncle gran
    grandmother grandma grandad grandfather wife husband partner boyfriend girlfriend friend
    mate boss manager colleague flatmate neighbour landlord teacher ex cousin niece nephew
    lawyer""".split()
)
_PRONOUNS = {
    **dict.fromkeys(("he", "she"), "he"),
    "him": "him",
    **dict.fromkeys(("his", "her", "hers"), "her"),
}
_MAX_WORDS = 40
_TOP_LABELS = 5


class Classification(NamedTuple):
    """What a sentence most probably asks or does."""

    ranked: tuple[tuple[str, float], ...]
    """The best labels with their probabilities, best first. A label is a value of `Inquiry`, of
    `Remark`, or "p_" and a value of `InquiryAboutOther`.
    """

    @property
    def label(self) -> str:
        """The best one."""
        return self.ranked[0][0]

    @property
    def probability(self) -> float:
        """That of the best one."""
        return self.ranked[0][1]


class _Weights(NamedTuple):
    labels: tuple[str, ...]
    words: dict[str, int]
    pairs: dict[str, int]
    of_words: np.ndarray
    """Words × dimensions: whole numbers of at most three figures, as float32, whose sums are exact
    and fast.
    """
    of_pairs: np.ndarray
    of_labels: np.ndarray
    """Dimensions × labels: whole numbers as float64, whose products and sums are exact in any
    order.
    """
    bias: np.ndarray
    scale: float
    """What one whole step of a logit is worth, in nats."""


def _with_none(rows: np.ndarray) -> np.ndarray:
    """With a last row of zeros, for what the weights don't know."""
    return np.vstack([rows, np.zeros_like(rows[:1])]).astype(np.float32)


@lru_cache(maxsize=1)
def _weights() -> _Weights:
    weights = files("rlver_gym.text.english").joinpath("recogniser.npz")
    with weights.open("rb") as file, np.load(file, allow_pickle=False) as data:
        meta = json.loads(bytes(data["meta"]).decode())
        return _Weights(
            tuple(meta["labels"]),
            {word: at for at, word in enumerate(meta["words"])},
            {pair: at for at, pair in enumerate(meta["pairs"])},
            _with_none(data["of_words"]),
            _with_none(data["of_pairs"]),
            data["of_labels"].astype(np.float64),
            data["bias"] / 1000,
            float(meta["scale"]),
        )


def generalise(words: Sequence[str], names: Collection[str], *, asks: bool = False) -> list[str]:
    """The words with every name and relation as PERSON, pronouns of one person alike; `asks`: with
    a question mark as the last one. `names`: lower-case.
    """
    found: list[str] = []
    for word in words[:_MAX_WORDS]:
        base = word[:-2] if word.endswith("'s") else word
        if base in names or base in _RELATIONS:
            if not found or found[-1] != PERSON:
                found.append(PERSON)
        else:
            found.append(_PRONOUNS.get(word, word))
    if asks:
        found.append("?")
    return found


def pairs_of(words: Sequence[str]) -> list[str]:
    """Neighbouring words, with a mark at both ends."""
    return [f"{one} {other}" for one, other in zip(["<", *words], [*words, ">"], strict=True)]


class SentenceInput(NamedTuple):
    """A sentence, or a clause of one, to be classified."""

    words: Sequence[str]
    """Lower-case."""
    asks: bool
    """Whether it has a question mark."""


def classify(
    sentences: Sequence[SentenceInput], names: Collection[str] = ()
) -> list[Classification]:
    """What each of several sentences asks or does, all at once.

    `names`: words that are people's names.
    """
    weights = _weights()
    of_words, of_pairs, counts = [], [], []
    word_starts, pair_starts = [], []
    none_word, none_pair = len(weights.words), len(weights.pairs)
    for words, asks in sentences:
        general = generalise(words, names, asks=asks)
        word_starts.append(len(of_words))
        pair_starts.append(len(of_pairs))
        of_words += [weights.words.get(word, none_word) for word in general] or [none_word]
        of_pairs += [weights.pairs.get(pair, none_pair) for pair in pairs_of(general)]
        counts.append(max(1, len(general)))
    states = np.add.reduceat(weights.of_words[of_words], word_starts)
    states += np.add.reduceat(weights.of_pairs[of_pairs], pair_starts)
    logits = (
        states.astype(np.float64) @ weights.of_labels / (np.sqrt(counts)[:, None] * weights.scale)
        + weights.bias
    )
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    best = np.argpartition(shares, -_TOP_LABELS, axis=1)[:, -_TOP_LABELS:].tolist()
    return [
        Classification(
            tuple(
                (label, -share)
                for share, label in sorted([(-float(row[at]), weights.labels[at]) for at in top])
            )
        )
        for row, top in zip(shares, best, strict=True)
    ]
