"""Phrases that mark a dialogue act, found in one pass over the stems of a sentence.

Knows no person.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import compress, count
from typing import Any, NamedTuple, Self

from rlver_gym.core.words import FUNCTION_WORDS, stem
from rlver_gym.util.files import load_json

_GAP = 4
"""How many words a "*" in a phrase may skip."""
_NEGATIONS = frozenset(
    map(stem, ("not", "never", "no", "nobody", "nothing", "none", "without", "neither", "nor"))
)
_FUNCTION_STEMS = frozenset(map(stem, FUNCTION_WORDS))
_SCOPE = 7
"""How many words a negation reaches forward."""


class _Not(frozenset[str]):
    """Any word but these."""


Pattern = tuple[frozenset[str] | str, ...]


class Phrase(NamedTuple):
    """A phrase around the word that it is looked up by: what stands before that word, backwards,
    and what stands behind.
    """

    before: Pattern
    behind: Pattern
    act: str
    previous: frozenset[str] | None
    """The words that may stand right before, when it matters: most phrases are passed over by this
    and the next.
    """
    following: frozenset[str] | None

    @classmethod
    def around(cls, pattern: Pattern, at: int, act: str) -> Self:
        """The phrase around its token number `at`."""
        before, behind = pattern[:at][::-1], pattern[at + 1 :]
        return cls(
            before, behind, act, _find_plain_token(before[:1]), _find_plain_token(behind[:1])
        )


def _find_plain_token(tokens: Pattern) -> frozenset[str] | None:
    return next((token for token in tokens if type(token) is frozenset), None)


class Lexicon:
    """Dialogue acts by phrase, each looked up by its rarest word."""

    def __init__(self, acts: dict[str, list[str]], negatable: frozenset[str] = frozenset()) -> None:
        """`acts`: phrases by act; `negatable`: acts that a negation undoes.

        See the file's "about" for the syntax.
        """
        self._negatable = negatable
        self._by_word: dict[str, tuple[Phrase, ...]] = {}
        for act, phrases in acts.items():
            for phrase in phrases:
                pattern = tuple(map(_parse_pattern_token, phrase.split()))
                at = min(
                    (number for number, token in enumerate(pattern) if type(token) is frozenset),
                    key=lambda n: _rank_commonness(pattern[n]),
                )
                for word in pattern[at]:
                    self._by_word[word] = (
                        *self._by_word.get(word, ()),
                        Phrase.around(pattern, at, act),
                    )

    def phrases(self, stem: str) -> tuple[Phrase, ...]:
        return self._by_word.get(stem, ())

    def acts(
        self, stems: tuple[str, ...], phrases: tuple[tuple[Phrase, ...], ...]
    ) -> dict[str, str]:
        """The acts whose phrases stand in the sentence, each with the stems of the first phrase
        that did it, joined by spaces; `phrases` are those of each stem.
        """
        found: dict[str, str] = {}
        if not any(phrases):
            return found
        backwards = stems[::-1]
        padded = ("", *stems, "")
        for at in compress(count(), phrases):
            for before, behind, act, previous, following in phrases[at]:
                if following is not None and padded[at + 2] not in following:
                    continue
                if act in found or (previous is not None and padded[at] not in previous):
                    continue
                end = _match_pattern_end(behind, stems, at + 1) if behind else at + 1
                if end < 0:
                    continue
                start = (
                    len(stems) - _match_pattern_end(before, backwards, len(stems) - at)
                    if before
                    else at
                )
                if start > at:
                    continue
                if act not in self._negatable or _NEGATIONS.isdisjoint(
                    stems[max(0, start - _SCOPE) : start]
                ):
                    found[act] = " ".join(stems[start:end])
        return found


def _rank_commonness(words: Iterable[str]) -> tuple[int, int, int]:
    return (
        sum(word in _FUNCTION_STEMS for word in words),
        sum(1 for _ in words),
        -max(map(len, words)),
    )


def _parse_pattern_token(text: str) -> frozenset[str] | str:
    if text in ("_", "*", "^"):
        return text
    kind = _Not if text.startswith("~") else frozenset
    return kind(stem(word) for word in text.removeprefix("~").split("|"))


def _match_pattern_end(pattern: Pattern, stems: tuple[str, ...], at: int) -> int:
    """Where the pattern ends when it stands at `at`, else -1.

    Past the end, "^" and excluded words are satisfied.
    """
    for number, token in enumerate(pattern):
        if token == "*":
            rest = pattern[number + 1 :]
            for here in range(at, min(at + _GAP, len(stems)) + 1):
                end = _match_pattern_end(rest, stems, here)
                if end >= 0:
                    return end
            return -1
        if at >= len(stems):
            if token != "^" and not isinstance(token, _Not):
                return -1
        elif token == "^" or (token != "_" and (stems[at] in token) is isinstance(token, _Not)):
            return -1
        else:
            at += not isinstance(token, _Not) or number < len(pattern) - 1
    return at


def load_data(name: str) -> dict[str, Any]:
    """A JSON file that lies beside this module."""
    return load_json("rlver_gym.users.embedded.hearing", name)


@lru_cache(maxsize=1)
def load_lexicon() -> Lexicon:
    data = load_data("lexicon_en.json")
    return Lexicon(data["acts"], frozenset(data["negatable"]))
