"""The act classifier: how probably a sentence does a dialogue act, and whether it is one, by a
linear model of its words. Whole numbers only, so the same on every machine.

Most kind replies imply what they do: "Nine pages, your own evenings." is credit without a phrase
for it. And words that never stand side by side ("of you you", "that must you") show that nobody
says anything. `tools/fit_ear.py` fits the model.
"""

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from sys import intern
from typing import Any

from rlver_gym.text.lexicon import load_data

_LANE_BITS = 32
"""All acts are added up at once: one whole number holds a lane of so many bits for each."""
_ZERO = 1 << _LANE_BITS - 1
_MAX_WORDS = 60
"""Words of a sentence that are classified. Longer than any that is followed; it keeps the lanes
apart.
"""
_MAX_SENTENCES = 1_000
"""Sentences that are classified."""
_MIN_EVIDENCE = -300
"""Evidence in hundredths of a logit below which an act is left out: a probability of 0.05."""
_NO_WEIGHTS: dict[str, int] = {}
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
        *acts, last = data["bias"]
        self.acts = tuple(acts)
        self._bias = sum(
            bias << _LANE_BITS * lane for lane, bias in enumerate(data["bias"].values())
        )
        self._lift = sum(_ZERO << _LANE_BITS * lane for lane in range(len(data["bias"])))
        self._lanes = struct.Struct(f"<{len(data['bias'])}I")
        self._incoherent_from = _INCOHERENT_FROM << _LANE_BITS * len(acts)
        weights: dict[str, int] = {}
        for lane, act in enumerate((*acts, last)):
            for weight, found in data["weights"][act].items():
                for feature in found.split(", "):
                    weights[feature] = weights.get(feature, 0) + (int(weight) << _LANE_BITS * lane)
        self._unigrams = {
            intern(feature): weight for feature, weight in weights.items() if " " not in feature
        }
        self._bigrams: dict[str, dict[str, int]] = {}
        for pair, weight in weights.items():
            first, blank, second = pair.partition(" ")
            if blank:
                self._bigrams.setdefault(intern(first), {})[intern(second)] = (
                    weight + self._unigrams.get(second, 0)
                )
        self._bias += self._unigrams.get("^", 0)

    def get_unigram(self, stem: str) -> int:
        """The weight of a stem by itself."""
        return self._unigrams.get(stem, 0)

    def get_bigrams(self, stem: str) -> dict[str, int]:
        """The weights of the stems that may follow that one; their unigram weights are included."""
        return self._bigrams.get(stem, _NO_WEIGHTS)

    def sum_evidence(
        self,
        stems: tuple[str, ...],
        unigrams: tuple[int, ...],
        bigrams: tuple[dict[str, int], ...],
        ending: str,
    ) -> int:
        """The evidence of a sentence for all acts, packed; `unigrams` and `bigrams`: what the two
        functions above return for each of its stems.
        """
        if len(stems) > _MAX_WORDS:
            stems, unigrams, bigrams = (
                stems[:_MAX_WORDS],
                unigrams[:_MAX_WORDS],
                bigrams[:_MAX_WORDS],
            )
        followers, alone = (self.get_bigrams("^"), *bigrams), (*unigrams, self.get_unigram(ending))
        return sum(map(dict.get, followers, (*stems, ending), alone), self._bias)

    def is_incoherent(self, evidence: int) -> bool:
        """Whether the words of a sentence do not hang together: the highest lane, which alone
        decides how large the whole number is.
        """
        return evidence >= self._incoherent_from

    def act_probabilities(self, evidence: Sequence[int]) -> list[dict[str, float]]:
        """The probability that each sentence of an utterance does each act, in (0.05, 1]; less
        probable acts are left out.
        """
        evidence = evidence[:_MAX_SENTENCES]
        scale = len(evidence) * (_CONTEXT + 1)
        together, faint = sum(evidence, self._lift), _ZERO + _MIN_EVIDENCE * scale
        probabilities = []
        for one in evidence:
            packed = _CONTEXT * len(evidence) * one + together
            lanes = self._lanes.unpack(packed.to_bytes(self._lanes.size, "little"))
            likely = [
                (act, lane) for act, lane in zip(self.acts, lanes, strict=False) if lane > faint
            ]
            probabilities.append(
                {act: _to_probability((lane - _ZERO) // scale) for act, lane in likely}
            )
        return probabilities

    def mean_logits(self, evidence: Sequence[int]) -> dict[str, float]:
        """The evidence for each act in logits, the mean over the sentences of an utterance; nothing
        of none.
        """
        evidence = evidence[:_MAX_SENTENCES]
        if not evidence:
            return {}
        lanes = self._lanes.unpack(sum(evidence, self._lift).to_bytes(self._lanes.size, "little"))
        return {
            act: (lane - _ZERO) / (100 * len(evidence))
            for act, lane in zip(self.acts, lanes, strict=False)
        }


@lru_cache(maxsize=2_048)
def _to_probability(evidence: int) -> float:
    """Hundredths of a logit as a probability with two decimals."""
    return round(1 / (1 + math.exp(-max(-500, min(500, evidence)) / 100)), 2)


@lru_cache(maxsize=1)
def load_act_classifier() -> ActClassifier:
    """The shipped English classifier."""
    return ActClassifier(load_data("act_classifier_en.json"))
