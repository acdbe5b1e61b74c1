"""The act classifier: how probably a sentence does a dialogue act, and whether it is one, by a
linear model of its words. Whole numbers only, so the same on every machine.

Most kind replies imply what they do: "Nine pages, your own evenings." is credit without a phrase
for it. And words that never stand side by side ("of you you", "that must you") show that nobody
says anything. `tools/fit_ear.py` fits the model.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import compress
from sys import intern
from typing import Any

import numpy as np

from rlver_gym.users.embedded.hearing.lexicon import load_data

_MAX_WORDS = 60
"""Words of a sentence that are classified. Longer than any that is followed."""
_MAX_SENTENCES = 1_000
"""Sentences that are classified."""
_MIN_EVIDENCE = -300
"""Evidence in hundredths of a logit below which an act is left out: a probability of 0.05."""
_NO_ROWS: dict[str, int] = {}
_INCOHERENT_FROM = 300
"""Evidence in hundredths of a logit from which words are taken not to hang together: none of 1,415
sentences of pairs that it did not learn from, two of 280 anchors of test people (it sees no comma:
"once he had blocked you, you left him in peace").
"""
_CONTEXT = 2
"""A sentence counts this many times the mean of its utterance: what is said before and after tells
what it does.
"""


def add_boundary_tokens(stems: Sequence[str], ending: str) -> tuple[str, ...]:
    """The stems between "^" and an ending, "?" or "."; the model looks at each of them and at each
    pair of neighbours.
    """
    return ("^", *stems[:_MAX_WORDS], ending)


class ActClassifier:
    """A fitted model, ready to classify."""

    def __init__(self, data: dict[str, Any]) -> None:
        """`data`: the file's "bias" by act, and "weights" by act and size; the last of them is no
        act but "broken"; see its "about".
        """
        self.acts = tuple(data["bias"])[:-1]
        rows: dict[str, int] = {}
        entries = [
            (rows.setdefault(feature, len(rows)), lane, int(weight))
            for lane, act in enumerate(data["bias"])
            for weight, found in data["weights"][act].items()
            for feature in found.split(", ")
        ]
        at_L, lane_L, weight_L = np.array(entries).T
        self._weights = np.zeros((len(rows) + 1, len(data["bias"])), np.int16)
        """One more row than features, of zeros."""
        np.add.at(self._weights, (at_L, lane_L), weight_L)
        self.no_row = len(rows)
        self._unigrams: dict[str, int] = {}
        self._bigrams: dict[str, dict[str, int]] = {}
        pairs, seconds = [], []
        for feature, row in rows.items():
            first, blank, second = feature.partition(" ")
            if not blank:
                self._unigrams[intern(feature)] = row
                continue
            self._bigrams.setdefault(intern(first), {})[intern(second)] = row
            pairs.append(row)
            seconds.append(rows.get(second, self.no_row))
        self._weights[pairs] += self._weights[seconds]
        self._bias = [*data["bias"].values()] + self._weights[rows.get("^", self.no_row)]

    def get_unigram(self, stem: str) -> int:
        """The row of the weights of a stem by itself."""
        return self._unigrams.get(stem, self.no_row)

    def get_bigrams(self, stem: str) -> dict[str, int]:
        """Those of the stems that may follow that one; their unigram weights are included."""
        return self._bigrams.get(stem, _NO_ROWS)

    def find_rows(
        self,
        stems: Sequence[str],
        unigrams: Sequence[int],
        bigrams: Sequence[dict[str, int]],
        ending: str,
    ) -> Iterator[int]:
        """The rows of the weights of a sentence; `unigrams` and `bigrams`: what the two functions
        above return for each of its stems.
        """
        if len(stems) > _MAX_WORDS:
            stems, unigrams = stems[:_MAX_WORDS], unigrams[:_MAX_WORDS]
            bigrams = bigrams[:_MAX_WORDS]
        followers, alone = (self.get_bigrams("^"), *bigrams), (*unigrams, self.get_unigram(ending))
        return map(dict.get, followers, (*stems, ending), alone)

    def sum_evidence(self, rows: Sequence[int], starts: Sequence[int]) -> np.ndarray:
        """The evidence of sentences, whose rows begin at `starts`, for all acts and, last, for
        their being broken, in hundredths of a logit.
        """
        return np.add.reduceat(self._weights.take(rows, 0).astype(np.int64), starts) + self._bias

    def act_probabilities(self, evidence: np.ndarray) -> list[dict[str, float]]:
        """The probability that each sentence of an utterance does each act, in (0.05, 1]; less
        probable acts are left out.
        """
        evidence = evidence[:_MAX_SENTENCES, :-1]
        scale = len(evidence) * (_CONTEXT + 1)
        lanes = _CONTEXT * len(evidence) * evidence + np.add.reduce(evidence)
        likely = (lanes > _MIN_EVIDENCE * scale).tolist()
        shares = _PROBABILITIES.take(lanes // scale + _STEEPEST, mode="clip").tolist()
        return [
            dict(compress(zip(self.acts, one, strict=True), which))
            for one, which in zip(shares, likely, strict=True)
        ]

    def mean_logits(self, evidence: np.ndarray) -> dict[str, float]:
        """The evidence for each act in logits, the mean over the sentences of an utterance; nothing
        of none.
        """
        evidence = evidence[:_MAX_SENTENCES, :-1]
        if not len(evidence):
            return {}
        mean = np.add.reduce(evidence) / (100 * len(evidence))
        return dict(zip(self.acts, mean.tolist(), strict=True))


_STEEPEST = 500
_PROBABILITIES = np.array(
    [round(1 / (1 + math.exp(-at / 100)), 2) for at in range(-_STEEPEST, _STEEPEST + 1)]
)
"""Of hundredths of a logit from -500 to 500, with two decimals."""


def is_incoherent(evidence: np.ndarray) -> list[bool]:
    """Whether the words of each sentence do not hang together."""
    return (evidence[:, -1] >= _INCOHERENT_FROM).tolist()


@lru_cache(maxsize=1)
def load_act_classifier() -> ActClassifier:
    return ActClassifier(load_data("act_classifier_en.json"))
