"""The ear: how surely a sentence does a dialogue act, by a linear model of its words. Whole numbers only, so the same on every machine.

Most kind replies imply what they do: "Nine pages, your own evenings." is credit without a phrase for it. `tools/fit_ear.py` fits the model.
"""

import math
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

from rlver_gym.users.embedded.lexicon import load_data

_HUNDREDTHS = 100
"""Weights are hundredths of a logit."""
_LANE = 64
"""All acts are added up at once: one big whole number holds a lane of so many bits for each."""
_FAINT = -200
"""Below this an act is not heard at all: a sureness of 0.12."""
_CONTEXT = 2
"""A sentence counts this many times the mean of its utterance: what is said before and after tells what it does."""


def features(stems: Sequence[str], ending: str, phrases: Iterable[str]) -> list[str | tuple[str, str]]:
    """What the model looks at: stems, pairs of neighbours, beginning and ending ("?" or "."), length, and the acts whose phrases were found."""
    marked = ("^", *stems, ending)
    length = f"<{min(6, len(stems) // 4)}>"
    return [*marked, *zip(marked, marked[1:], strict=False), length, *(f"<{act}>" for act in phrases)]


class Ear:
    """A fitted model, ready to listen."""

    def __init__(self, data: dict[str, Any]) -> None:
        """`data`: the file's "bias" by act and "weights" by act and size; see its "about"."""
        self.acts = tuple(data["bias"])
        self._bias = sum(bias << _LANE * lane for lane, bias in enumerate(data["bias"].values()))
        self._lift = sum(1 << _LANE * lane + _LANE - 1 for lane in range(len(self.acts)))
        self._lanes = struct.Struct(f"<{len(self.acts)}Q")
        self._weights: dict[str | tuple[str, ...], int] = {}
        for lane, act in enumerate(self.acts):
            for weight, found in data["weights"][act].items():
                for feature in found.split(", "):
                    key = tuple(feature.split(" ")) if " " in feature else feature
                    self._weights[key] = self._weights.get(key, 0) + (int(weight) << _LANE * lane)

    def evidence(self, stems: Sequence[str], ending: str, phrases: Iterable[str]) -> int:
        """The evidence of a sentence for all acts, packed."""
        return self._bias + sum(map(self._weights.get, features(stems, ending, phrases), repeat(0)))

    def sureness(self, evidence: list[int]) -> list[dict[str, float]]:
        """How surely each sentence of an utterance does each act, in (0.1, 1]; acts that are not heard are left out."""
        together = sum(evidence)
        scale = len(evidence) * (_CONTEXT + 1)
        heard = []
        for one in evidence:
            lanes = self._lanes.unpack(
                (_CONTEXT * len(evidence) * one + together + self._lift).to_bytes(self._lanes.size, "little")
            )
            heard.append(
                {
                    act: _sure((lane - _ZERO) // scale)
                    for act, lane in zip(self.acts, lanes, strict=True)
                    if lane > _ZERO + _FAINT * scale
                }
            )
        return heard


_ZERO = 1 << _LANE - 1


@lru_cache(maxsize=2_048)
def _sure(evidence: int) -> float:
    """A logit in hundredths as a probability with two decimals."""
    return round(1 / (1 + math.exp(-max(-500, min(500, evidence)) / _HUNDREDTHS)), 2)


@lru_cache(maxsize=4)
def ear(language: str) -> Ear:
    """The shipped ear of a language."""
    return Ear(load_data(f"ear_{language}.json"))
