"""Quantities: the numbers of a sentence and what they count. Knows no card."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rlver_gym.users.embedded.hearing.tokens import DAYS, token_of
from rlver_gym.users.embedded.hearing.words import load_word_groups, load_word_set


class Quantity(NamedTuple):
    """A number and what it counts."""

    value: float
    unit: str
    """The token of the word behind it."""
    text: str
    is_hedged: bool
    """Whether it is meant roughly: "nearly two weeks"."""
    is_vague: bool
    """Whether it is no number of anything: "one of them", "a day"."""

    @property
    def kind(self) -> str:
        """What it can be compared with: days stand for all units of time."""
        return _DAY if self.unit in DAYS else self.unit


_UNITS = {word: float(at) for at, word in enumerate(load_word_groups("numbers to nineteen")[0])}
_TENS = {word: 10.0 * at for at, word in enumerate(load_word_groups("tens")[0], 2)}
_SCALES = {"hundred": 100.0, "thousand": 1000.0}
_NUMBERS = frozenset({*_UNITS, *_TENS, *_SCALES, "twice"}) | load_word_set("units of time")
_HEDGES = load_word_set("hedges")


_DAY = token_of("day")
_DIGIT = re.compile(r"\d")


def may_contain_number(words: Sequence[str]) -> bool:
    return not _NUMBERS.isdisjoint(words) or _DIGIT.search(" ".join(words)) is not None


def find_quantities(words: Sequence[str]) -> tuple[Quantity, ...]:
    """The numbers of a sentence and what they count."""
    if not may_contain_number(words):
        return ()
    found = []
    at = 0
    while at < len(words):
        value, end = _parse_number(words, at)
        if value is None:
            at += 1
            continue
        if words[end : end + 3] == ("and", "a", "half"):
            value, end = value + 0.5, end + 3
        unit_word = words[end] if end < len(words) else ""
        unit = token_of(unit_word) if unit_word else ""
        if unit and end + 1 < len(words) and unit not in DAYS and words[end] in _ADJECTIVES:
            unit = token_of(words[end + 1])
        if not unit and end + 1 < len(words) and unit_word in ("more", "of"):
            unit = token_of(words[end + 1])
        if words[end : end + 2] == ("out", "of"):
            unit = "out of"
        elif not unit and value >= 100:
            unit = "sum"
        before = words[max(0, at - 2) : at]
        found.append(
            Quantity(
                value,
                unit,
                " ".join(words[at:end] if unit in ("", "sum", "out of") else words[at : end + 1]),
                not _HEDGES.isdisjoint(before),
                (value <= 1 and unit not in DAYS)
                or unit_word in ("of", "or", "another", "thing")
                or words[max(0, at - 2) : at] == ("out", "of"),
            )
        )
        at = max(end, at + 1)
    return tuple(found)


_ADJECTIVES = load_word_set("adjectives before what is counted")


def _parse_number(words: Sequence[str], at: int) -> tuple[float | None, int]:
    """The number that begins at a place, and where it ends."""
    word = words[at]
    if word == "twice":
        return 2.0, at + 1
    if word in ("a", "an") and at + 1 < len(words):
        after = words[at + 1]
        if after in _SCALES:
            return _SCALES[after], at + 2
        if after == "fortnight":
            return 2.0, at + 1
        if token_of(after) in DAYS:
            return 1.0, at + 1
        return None, at
    total, part, start = 0.0, 0.0, at
    while at < len(words):
        word = words[at]
        if word.isdigit() and len(word) < 9:
            is_grouped = at > start and len(word) == 3 and words[at - 1].isdigit()  # "4,200"
            part = part * 1000 + float(word) if is_grouped else part + float(word)
        elif word in _TENS:
            part += _TENS[word]
        elif word in _UNITS:
            part += _UNITS[word]
        elif word in _SCALES and at > start:
            part *= _SCALES[word]
            if word == "thousand":
                total, part = total + part, 0.0
        elif (
            word == "and"
            and at > start
            and words[at - 1] in _SCALES
            and at + 1 < len(words)
            and words[at + 1] in (*_UNITS, *_TENS)
        ):
            pass
        else:
            break
        at += 1
    return (total + part, at) if at > start else (None, start)
