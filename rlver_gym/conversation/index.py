"""Index: how much of some words each of many texts has, all at once. Knows no card."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files

import numpy as np

_NONE = np.zeros(0, dtype=np.intp)


@lru_cache(maxsize=1)
def related_tokens() -> Mapping[str, tuple[tuple[str, float], ...]]:
    """Of each token, those that mean nearly the same, with their similarity in (0, 1)."""
    text = files("rlver_gym.conversation").joinpath("related_en.json").read_text(encoding="utf-8")
    return {
        token: tuple(
            (name, int(share) / 100) for name, share in (pair.split(":") for pair in row.split())
        )
        for token, row in json.loads(text)["related"].items()
    }


class TokenIndex:
    """Texts as sets of tokens, by token."""

    def __init__(self, texts: Sequence[Iterable[str]]) -> None:
        """The texts, in their order."""
        self.size = len(texts)
        postings: dict[str, list[int]] = {}
        for number, tokens in enumerate(texts):
            for token in tokens:
                postings.setdefault(token, []).append(number)
        self._postings = {
            token: np.array(numbers, dtype=np.intp) for token, numbers in postings.items()
        }
        self._soft: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def weigh_common(self, weights: Mapping[str, float]) -> np.ndarray:
        """Of each text, the weights summed of those tokens that it has; float64, as long as there
        are texts.
        """
        found = [
            (self._postings[token], weight)
            for token, weight in weights.items()
            if token in self._postings
        ]
        return self._sum(
            [numbers for numbers, _ in found],
            [np.full(len(numbers), weight) for numbers, weight in found],
        )

    def weigh_nearly_common(self, weights: Mapping[str, float]) -> np.ndarray:
        """The same, where a token that a text lacks counts as much as the text's nearest related
        one is like it.
        """
        found = [(*self._nearest(token), weight) for token, weight in weights.items()]
        return self._sum(
            [numbers for numbers, _, _ in found], [shares * weight for _, shares, weight in found]
        )

    def _sum(self, numbers: list[np.ndarray], weights: list[np.ndarray]) -> np.ndarray:
        if not numbers:
            return np.zeros(self.size)
        return np.bincount(np.concatenate(numbers), np.concatenate(weights), self.size)

    def _nearest(self, token: str) -> tuple[np.ndarray, np.ndarray]:
        """The texts that have a token or one related to it, and how like it is.

        Kept, because words come again.
        """
        found = self._soft.get(token)
        if found is None:
            shares: dict[int, float] = {}
            for name, share in (*reversed(related_tokens().get(token, ())), (token, 1.0)):
                for number in self._postings.get(name, _NONE).tolist():
                    shares[number] = max(share, shares.get(number, 0.0))
            if len(self._soft) > 5_000:
                self._soft.clear()
            found = self._soft[token] = (
                np.fromiter(shares.keys(), np.intp, len(shares)),
                np.fromiter(shares.values(), float, len(shares)),
            )
        return found
