"""From whatever a model answered to fields: JSON, or labelled lines, with prose around. The LLM
user and the judge read by it.

What is ambiguous is refused, never guessed.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple, Self

from rlver_gym.answers.reading import mend_surrogates, read_answer
from rlver_gym.util.json_text import Pairs, find_objects, scan_objects

MAX_CHARS = 50_000
"""No answer is longer than this."""
_PLUS = re.compile(r"([:：]\s*)[+＋]\s*(?=\d)")
_SPACED_SIGN = re.compile(r"\A([+-])\s+(?=\d)")
_BULLET = re.compile(r"[-−–—﹣‐‑⁻][ \t]+\d")
_LISTED = re.compile(r"\d{1,3}[.)、][ \t]+\w")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)', re.DOTALL)
_LAST_COMMA = re.compile(r",(?=\s*[}\]])")
_BRACKETS = re.compile(r"\([^()]*\)?|\[[^\[\]]*\]?|（[^（）]*）?")
_MINUS = str.maketrans(dict.fromkeys("−–—﹣‐‑⁻", "-"))
_SIGN_IN_WORDS = re.compile(r"\A(?:([负减扣])|([正加增]))(?=\s*\d)")
_NUMBER = re.compile(r"\A([+-]?[0-9]{1,6})(?:\.([0-9]{1,6}))?(?![0-9.]*[0-9%])")


class Unreadable(ValueError):
    """An answer that cannot be used. `code` names why."""

    def __init__(self, code: str) -> None:
        super().__init__(code.replace("_", " "))
        self.code = code


Claims = dict[str, list[Any]]
"""All that an answer says about each field."""


class Vocabulary(NamedTuple):
    """The fields of an answer by every name that they go by, in lower case."""

    field_of: dict[str, str]
    label: re.Pattern[str]
    """A name at the start of a line, with what stands around it."""
    numbers: frozenset[str] = frozenset()
    """Fields that hold one number, on the line of the label."""

    @classmethod
    def of(cls, names: Mapping[str, str], numbers: Iterable[str] = ()) -> Self:
        """By field its names, with | between."""
        field_of = {name: field for field, many in names.items() for name in many.split("|")}
        label = (
            r"^[ \t>#*_`\"“\-•·\d.、)）]*("
            + "|".join(sorted(map(re.escape, field_of), key=len, reverse=True))
            + r")[ \t*_`\"”]*(?:[(（][^)）\n]{0,40}[)）])?[ \t*_`\"”]*[:：=＝]"
        )
        return cls(field_of, re.compile(label, re.IGNORECASE | re.MULTILINE), frozenset(numbers))


def read_fields(text: str, vocabulary: Vocabulary) -> Claims:
    """Every value that the words of a text give for the fields, in JSON objects and in labelled
    lines outside them; empty when there is none. Whoever asks sees to it that no text quoted in it
    can name them.
    """
    words = read_answer(text[:MAX_CHARS]).words
    found = find_claims(words, vocabulary)
    return found or find_claims(_LAST_COMMA.sub("", _PLUS.sub(r"\1", words)), vocabulary)


def find_claims(text: str, vocabulary: Vocabulary) -> Claims:
    """As `read_fields`, of words that are read already and taken as they are."""
    claims: Claims = {}
    text = text[: _find_unfinished(text)]
    outside, at = [], 0
    for pairs, start, end in find_objects(text):
        outside.append(text[at:start])
        at = end
        for field, value in iterate_fields(pairs, vocabulary):
            claims.setdefault(field, []).append(
                mend_surrogates(value) if isinstance(value, str) else value
            )
    outside.append(text[at:])
    for field, value in _parse_labelled_lines("\n".join(outside), vocabulary):
        claims.setdefault(field, []).append(value)
    return claims


def _find_unfinished(text: str) -> int:
    """Where an object begins that never ends, so that its last value may be half of one; the length
    of a text without any.
    """
    for value, at, end in scan_objects(text):
        if value is None and text[end:].lstrip()[:1] == '"':
            rest = _STRING.sub("", text[at:])
            if rest.count("{") > rest.count("}"):
                return at
    return len(text)


def iterate_fields(
    pairs: Pairs, vocabulary: Vocabulary, depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """The fields of a JSON object and their values, also two objects deep."""
    for key, value in pairs:
        field = vocabulary.field_of.get(key.strip(" *_`").casefold())
        if field:
            yield field, value
        elif isinstance(value, Pairs) and depth < 2:
            yield from iterate_fields(value, vocabulary, depth + 1)


def _parse_labelled_lines(text: str, vocabulary: Vocabulary) -> Iterator[tuple[str, str | None]]:
    """What stands after each label, up to the next label or a blank line."""
    labels = list(vocabulary.label.finditer(text))
    for label, following in zip_longest(labels, labels[1:]):
        end = following.start() if following else len(text)
        field = vocabulary.field_of[label.group(1).casefold()]
        after = text[label.end() : end]
        value = re.split(r"\n\s*\n", after.lstrip(" \t*_`\n"), maxsplit=1)[0]
        label_gap = after[: len(after) - len(after.lstrip())]
        if field in vocabulary.numbers:
            value = value.split("\n")[0]
            if "\n" in label_gap and _LISTED.match(value):
                continue  # a list with this heading, not a number
            yield field, None if _BULLET.match(value) else value  # a minus, or a bullet
        else:
            yield field, value


def whole_number(value: Any) -> int:
    """A whole number in [-100, 100] from JSON or from words such as "＋5分" or "-3 (because…)".

    Raises Unreadable for fractions, ranges and words.
    """
    if isinstance(value, str):
        number = _parse_number(value)
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unreadable("no_number")
    elif isinstance(value, float) and not value.is_integer():
        raise Unreadable("not_whole")
    else:
        number = int(value)
    if abs(number) > 100:
        raise Unreadable("no_change_at_all")
    return number


def _parse_number(text: str) -> int:
    plain = unicodedata.normalize("NFKC", text.translate(_MINUS)).translate(_MINUS)
    plain = _BRACKETS.sub(" ", re.sub(r"[*_`\"'“”‘’,]", " ", plain)).strip()
    plain = _SIGN_IN_WORDS.sub(lambda sign: "-" if sign.group(1) else "+", plain)
    plain = _SPACED_SIGN.sub(r"\1", plain)
    found = _NUMBER.match(plain)
    if not found:
        raise Unreadable("no_number")
    if found.group(2) and int(found.group(2)):
        raise Unreadable("not_whole")
    if re.search(r"\d", plain[found.end() :]):
        raise Unreadable("several_changes")
    return int(found.group(1))
