"""Phrases that mark a dialogue act, found in one pass over the stems of a sentence. Knows no person."""

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from rlver_gym.words import stem

_GAP = 4
"""How many words a "*" in a phrase may skip."""


class _Not(frozenset[str]):
    """Any word but these."""


Pattern = tuple[frozenset[str] | str, ...]


def load_data(name: str) -> dict[str, Any]:
    """A JSON file that lies beside this module."""
    return json.loads((files("rlver_gym.users.embedded") / name).read_text(encoding="utf-8"))


class Lexicon:
    """Dialogue acts by phrase, found by a phrase's first two words."""

    def __init__(self, acts: dict[str, list[str]]) -> None:
        """`acts`: phrases by act; see the file's "about" for their syntax."""
        self._by_word: dict[str, _Branch] = {}
        for act, phrases in acts.items():
            for phrase in phrases:
                first, *rest = _compiled(phrase)
                for word in first:
                    self._by_word.setdefault(word, _Branch([], {})).add(tuple(rest), act)

    def acts(self, stems: tuple[str, ...]) -> frozenset[str]:
        """The acts whose phrases stand in the sentence."""
        found: set[str] = set()
        for at, word in enumerate(stems, 1):
            branch = self._by_word.get(word)
            if branch is None:
                continue
            for rest, act in branch.phrases:
                if act not in found and _matches(rest, stems, at):
                    found.add(act)
            if at < len(stems):
                for rest, act in branch.by_second.get(stems[at], ()):
                    if act not in found and _matches(rest, stems, at + 1):
                        found.add(act)
        return frozenset(found)


class _Branch(NamedTuple):
    """The phrases that begin with one word: those whose second word can be looked up, and the others."""

    phrases: list[tuple[Pattern, str]]
    by_second: dict[str, list[tuple[Pattern, str]]]

    def add(self, rest: Pattern, act: str) -> None:
        if rest and type(rest[0]) is frozenset:
            for second in rest[0]:
                self.by_second.setdefault(second, []).append((rest[1:], act))
        else:
            self.phrases.append((rest, act))


def _compiled(phrase: str) -> Pattern:
    return tuple(map(_token, phrase.split()))


def _token(text: str) -> frozenset[str] | str:
    if text in ("_", "*"):
        return text
    kind = _Not if text.startswith("~") else frozenset
    return kind(stem(word) for word in text.removeprefix("~").split("|"))


def _matches(pattern: Pattern, stems: tuple[str, ...], at: int) -> bool:
    for number, token in enumerate(pattern):
        if token == "*":
            return any(_matches(pattern[number + 1 :], stems, at + skip) for skip in range(_GAP + 1))
        if at >= len(stems) or (token != "_" and (stems[at] in token) is isinstance(token, _Not)):
            return False
        at += 1
    return True


@lru_cache(maxsize=4)
def lexicon(language: str) -> Lexicon:
    """The shipped lexicon of a language."""
    return Lexicon(load_data(f"lexicon_{language}.json")["acts"])
