"""The ear: how surely a sentence does a dialogue act, and whether it is one, by a linear model of its words. Whole numbers only, so the same on every machine.

Most kind replies imply what they do: "Nine pages, your own evenings." is credit without a phrase for it. And words that never stand side by side
("of you you", "that must you") show that nobody says anything. `tools/fit_ear.py` fits the model.
"""

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from sys import intern
from typing import Any

from rlver_gym.users.embedded.lexicon import load_data

_LANE = 32
"""All acts are added up at once: one whole number holds a lane of so many bits for each."""
_ZERO = 1 << _LANE - 1
_LONGEST = 60
"""Words of a sentence that are listened to. Longer than any that is followed; it keeps the lanes apart."""
_MOST = 1_000
"""Sentences that are listened to."""
_FAINT = -300
"""Evidence in hundredths of a logit below which an act is not heard at all: a sureness of 0.05."""
_NOTHING: dict[str, int] = {}
_BROKEN = 300
"""Evidence in hundredths of a logit from which words are taken not to hang together: none of 1,415 sentences of pairs that it did not learn from, two of 280 anchors of test people
(it sees no comma: "once he had blocked you, you left him in peace")."""
_CONTEXT = 2
"""A sentence counts this many times the mean of its utterance: what is said before and after tells what it does."""


def marked(stems: Sequence[str], ending: str) -> tuple[str, ...]:
    """The stems between "^" and an ending, "?" or "."; the model looks at each of them and at each pair of neighbours."""
    return ("^", *stems[:_LONGEST], ending)


class Ear:
    """A fitted model, ready to listen."""

    def __init__(self, data: dict[str, Any]) -> None:
        """`data`: the file's "bias" by act, and "weights" by act and size; the last of them is no act but "broken"; see its "about"."""
        *acts, last = data["bias"]
        self.acts = tuple(acts)
        self._bias = sum(bias << _LANE * lane for lane, bias in enumerate(data["bias"].values()))
        self._lift = sum(_ZERO << _LANE * lane for lane in range(len(data["bias"])))
        self._lanes = struct.Struct(f"<{len(data['bias'])}I")
        self._broken_from = _BROKEN << _LANE * len(acts)
        weights: dict[str, int] = {}
        for lane, act in enumerate((*acts, last)):
            for weight, found in data["weights"][act].items():
                for feature in found.split(", "):
                    weights[feature] = weights.get(feature, 0) + (int(weight) << _LANE * lane)
        self._alone = {intern(feature): weight for feature, weight in weights.items() if " " not in feature}
        self._after: dict[str, dict[str, int]] = {}
        for pair, weight in weights.items():
            first, blank, second = pair.partition(" ")
            if blank:
                self._after.setdefault(intern(first), {})[intern(second)] = weight + self._alone.get(second, 0)
        self._bias += self._alone.get("^", 0)

    def alone(self, stem: str) -> int:
        """The weight of a stem by itself."""
        return self._alone.get(stem, 0)

    def after(self, stem: str) -> dict[str, int]:
        """The weights of the stems that tell something right after that one, what they weigh by themselves included."""
        return self._after.get(stem, _NOTHING)

    def evidence(
        self, stems: tuple[str, ...], alone: tuple[int, ...], after: tuple[dict[str, int], ...], ending: str
    ) -> int:
        """The evidence of a sentence for all acts, packed; `alone` and `after` are what these functions say of each of its stems."""
        if len(stems) > _LONGEST:
            stems, alone, after = stems[:_LONGEST], alone[:_LONGEST], after[:_LONGEST]
        weights = map(dict.get, (self.after("^"), *after), (*stems, ending), (*alone, self.alone(ending)))
        return sum(weights, self._bias)

    def broken(self, evidence: int) -> bool:
        """Whether the words of a sentence do not hang together: the highest lane, which alone decides how large the whole number is."""
        return evidence >= self._broken_from

    def sureness(self, evidence: Sequence[int]) -> list[dict[str, float]]:
        """How surely each sentence of an utterance does each act, in (0.05, 1]; acts that are not heard are left out."""
        evidence = evidence[:_MOST]
        scale = len(evidence) * (_CONTEXT + 1)
        together, faint = sum(evidence, self._lift), _ZERO + _FAINT * scale
        heard = []
        for one in evidence:
            packed = _CONTEXT * len(evidence) * one + together
            lanes = self._lanes.unpack(packed.to_bytes(self._lanes.size, "little"))
            heard.append(
                {
                    act: _sure((lane - _ZERO) // scale)
                    for act, lane in zip(self.acts, lanes, strict=False)
                    if lane > faint
                }
            )
        return heard

    def leaning(self, evidence: Sequence[int]) -> dict[str, float]:
        """The evidence for each act in logits, the mean over the sentences of an utterance; nothing of none."""
        evidence = evidence[:_MOST]
        if not evidence:
            return {}
        lanes = self._lanes.unpack(sum(evidence, self._lift).to_bytes(self._lanes.size, "little"))
        return {act: (lane - _ZERO) / (100 * len(evidence)) for act, lane in zip(self.acts, lanes, strict=False)}


@lru_cache(maxsize=2_048)
def _sure(evidence: int) -> float:
    """Hundredths of a logit as a probability with two decimals."""
    return round(1 / (1 + math.exp(-max(-500, min(500, evidence)) / 100)), 2)


@lru_cache(maxsize=1)
def ear() -> Ear:
    """The shipped English ear."""
    return Ear(load_data("act_classifier_en.json"))
