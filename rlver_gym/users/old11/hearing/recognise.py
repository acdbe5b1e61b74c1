"""A sentence classifier: what a supporter asks or does in one sentence, whatever the story. A
linear classifier over words and pairs of words, in whole numbers: the same on every machine.

Fitted by `benchmarks/recogniser.py` on sentences that were written by language models in the role
of supporters. Knows no card.
"""

import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise, repeat
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
        return self.ranked[0][0]

    @property
    def probability(self) -> float:
        return self.ranked[0][1]


class _Weights(NamedTuple):
    labels: tuple[str, ...]
    row_of: dict[str, int]
    """Of words and of pairs, which have a blank within."""
    rows: np.ndarray
    """Words and pairs × dimensions: whole numbers of a byte, and a last row of zeros for what is
    not known.
    """
    of_labels: np.ndarray
    """Dimensions × labels: whole numbers as float64, whose products and sums are exact in any
    order.
    """
    bias: np.ndarray
    scale: float
    """What one whole step of a logit is worth, in nats."""


@lru_cache(maxsize=1)
def _load_weights() -> _Weights:
    weights = files("rlver_gym.users.embedded.hearing").joinpath("recogniser.npz")
    with weights.open("rb") as file, np.load(file, allow_pickle=False) as data:
        meta = json.loads(bytes(data["meta"]).decode())
        return _Weights(
            tuple(meta["labels"]),
            {feature: at for at, feature in enumerate([*meta["words"], *meta["pairs"]])},
            np.pad(np.concatenate([data["of_words"], data["of_pairs"]]), ((0, 1), (0, 0))),
            data["of_labels"].astype(np.float64),
            data["bias"] / 1000,
            float(meta["scale"]),
        )


def mask_names(words: Sequence[str], names: Collection[str], *, asks: bool = False) -> list[str]:
    """The words with every name and relation as PERSON, pronouns of one person alike; `asks`: with
    a question mark as the last one. `names`: lower-case.
    """
    found: list[str] = []
    for word in words[:_MAX_WORDS]:
        base = word[:-2] if word[-2:] == "'s" else word
        if base in _RELATIONS or base in names:
            if not found or found[-1] != PERSON:
                found.append(PERSON)
        else:
            found.append(_PRONOUNS.get(word, word))
    if asks:
        found.append("?")
    return found


def list_word_pairs(words: Sequence[str]) -> list[str]:
    """Neighbouring words, with a mark at both ends."""
    return [f"{one} {other}" for one, other in pairwise(("<", *words, ">"))]


class SentenceInput(NamedTuple):
    """A sentence, or a clause of one, to be classified."""

    words: Sequence[str]
    """Lower-case."""
    asks: bool
    """Whether it has a question mark."""


def classify_sentences(
    sentences: Sequence[SentenceInput], names: Collection[str] = ()
) -> list[Classification]:
    """What each of several sentences asks or does, all at once.

    `names`: words that are people's names.
    """
    weights = _load_weights()
    rows, starts, counts = [], [], []
    unknown = repeat(-1)
    for words, asks in sentences:
        general = mask_names(words, names, asks=asks)
        starts.append(len(rows))
        rows += map(weights.row_of.get, general + list_word_pairs(general), unknown)
        counts.append(max(1, len(general)))
    states = np.add.reduceat(weights.rows.take(rows, 0).astype(np.float32), starts)
    logits = states.astype(np.float64) @ weights.of_labels
    logits /= np.sqrt(counts)[:, None] * weights.scale
    logits += weights.bias
    logits -= np.maximum.reduce(logits, 1, keepdims=True)
    shares = np.exp(logits)
    shares /= np.add.reduce(shares, 1, keepdims=True)
    best = shares.argpartition(-_TOP_LABELS, 1)[:, -_TOP_LABELS:].tolist()
    return [
        Classification(
            tuple(sorted([(weights.labels[at], share[at]) for at in top], key=_sort_key))
        )
        for top, share in zip(best, shares.tolist(), strict=True)
    ]


def _sort_key(labelled: tuple[str, float]) -> tuple[float, str]:
    return -labelled[1], labelled[0]
