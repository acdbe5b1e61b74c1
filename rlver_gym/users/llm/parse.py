"""From whatever a model answered to fields: JSON, or labelled lines, with prose around.

What is ambiguous is refused, never guessed.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import zip_longest
from typing import Any, NamedTuple

from rlver_gym.answers.markup import holds_markup
from rlver_gym.answers.reading import mend_surrogates, read_answer
from rlver_gym.users.llm.prompts import LANGUAGES, words
from rlver_gym.util.json_text import Pairs, find_objects, scan_objects

MAX_CHARS = 50_000
"""No answer is longer than this."""
_MAX_LISTED, _MAX_TEXT = 50, 2_000
_MORE_NAMES = {
    "meant_for": "meant_for",
    "took_up": "took_up|tookup",
    "thought": "thoughts|inner monologue|activity|内心|内心活动|心理活动",
    "feeling": "feelings|analyse|分析",
    "change": "emotion change|emotional change|mood change|change of mood"
    "|情绪变化|心情变化|变化值|变化分数",
    "aim": "goal|目的|目标",
    "reply": "response|回答|回应",
}
"""What models call the fields instead of the labels that they are given."""


class Vocabulary(NamedTuple):
    """The fields of an answer by every name that they go by, in lower case."""

    field_of: dict[str, str]
    label: re.Pattern[str]
    """A name at the start of a line, with what stands around it."""

    @classmethod
    def of(cls, names: Mapping[str, str]) -> "Vocabulary":
        """By field its names, with | between."""
        field_of = {name: field for field, many in names.items() for name in many.split("|")}
        label = (
            r"^[ \t>#*_`\"“\-•·\d.、)）]*("
            + "|".join(sorted(map(re.escape, field_of), key=len, reverse=True))
            + r")[ \t*_`\"”]*(?:[(（][^)）\n]{0,40}[)）])?[ \t*_`\"”]*[:：=＝]"
        )
        return cls(field_of, re.compile(label, re.IGNORECASE | re.MULTILINE))


_APPRAISAL = Vocabulary.of(
    {
        field: "|".join(
            [
                _MORE_NAMES.get(field, field),
                *(words(one).labels[field].lower() for one in LANGUAGES),
            ]
        )
        for field in words("en").labels
    }
)
_PLUS = re.compile(r"([:：]\s*)[+＋]\s*(?=\d)")
_SPACED_SIGN = re.compile(r"\A([+-])\s+(?=\d)")
_BULLET = re.compile(r"[-−–—﹣‐‑⁻][ \t]+\d")
_LISTED = re.compile(r"\d{1,3}[.)、][ \t]+\w")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)', re.DOTALL)
_LAST_COMMA = re.compile(r",(?=\s*[}\]])")
_BRACKETS = re.compile(r"\([^()]*\)?|\[[^\[\]]*\]?|（[^（）]*）?")
_MINUS = str.maketrans(dict.fromkeys("−–—﹣‐‑⁻", "-"))
_SIGN_IN_WORDS = re.compile(r"\A(?:([负减扣])|([正加增]))(?=\s*\d)")
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NUMBER = re.compile(r"\A([+-]?[0-9]{1,6})(?:\.([0-9]{1,6}))?(?![0-9.]*[0-9%])")


class Unreadable(ValueError):
    """An answer that cannot be used. `code` is a key of the prompts' `unreadable`."""

    def __init__(self, code: str) -> None:
        super().__init__(code.replace("_", " "))
        self.code = code


Claims = dict[str, list[Any]]
"""All that an answer says about each field."""


def read_claims(text: str, utterances: Iterable[str] = ()) -> Claims:
    """Every value that the answer gives for a field we know, in JSON objects and in labelled lines
    outside them.

    `utterances`: what the agent said. What the answer quotes of them counts for nothing beside what
    it says itself; of changes that are all quoted the lowest counts. Raises Unreadable.
    """
    if len(text) > MAX_CHARS:
        raise Unreadable("too_long")
    if not read_answer(text).words:
        raise Unreadable("empty")
    claims = _read(text)
    quotable = [one for one in utterances if _claims(one) or holds_markup(one)]
    if not quotable:
        return claims
    return _drop_quoted(claims, [_claims(one) for one in quotable]) | _read(
        _cut_quotes(text, quotable)
    )


def read_keyed_claims(
    text: str, keys: Iterable[str], utterances: Iterable[str] = ()
) -> dict[str, Claims]:
    """What an answer claims of each of several replies: the fields of the object under its key, in
    whatever object that stands. A key that it says nothing of is left out.

    `utterances` as for `read_claims`; what is quoted of them is cut out. Raises Unreadable for an
    answer that is too long, empty or holds no words.
    """
    if len(text) > MAX_CHARS:
        raise Unreadable("too_long")
    said = read_answer(text).words
    if not said:
        raise Unreadable("empty")
    said = _cut_quotes(said, [x for x in utterances if _claims(x) or holds_markup(x)])
    claims: dict[str, Claims] = {}
    names = {key.casefold(): key for key in keys}
    for pairs, _, _ in find_objects(said):
        for key, judged in _find_keyed(pairs, names):
            for field, value in _fields(judged):
                claims.setdefault(key, {}).setdefault(field, []).append(
                    mend_surrogates(value) if isinstance(value, str) else value
                )
    return claims


def _find_keyed(
    pairs: Pairs, names: Mapping[str, str], depth: int = 0
) -> Iterator[tuple[str, Pairs]]:
    for name, value in pairs:
        key = names.get(name.strip(" *_`").casefold())
        if key and isinstance(value, Pairs):
            yield key, value
        elif isinstance(value, Pairs) and depth < 2:
            yield from _find_keyed(value, names, depth + 1)


def find_fields(text: str) -> str | None:
    """Where a text would be read as an answer: a JSON object with a field we know, a change that is
    a number, or whom the words are meant for. None for other text, words after an everyday label
    among them.
    """
    for pairs, start, end in find_objects(text):
        if any(True for _ in _fields(pairs)):
            return text[start:end]
    claims = _claims(text)
    for value in claims.get("meant_for", ()):
        return str(value)
    for value in claims.get("change", ()):
        with suppress(Unreadable):
            return f"{whole_number(value):+d}"
    return None


def read_fields(text: str, vocabulary: Vocabulary) -> Claims:
    """Every value for a field of that vocabulary, likewise; empty when there is none. Whoever asks
    sees to it that no text quoted in the answer can name them.
    """
    return _read(text[:MAX_CHARS], vocabulary)


def _read(text: str, vocabulary: Vocabulary = _APPRAISAL) -> Claims:
    words = read_answer(text).words
    found = _claims(words, vocabulary)
    return found or _claims(_LAST_COMMA.sub("", _PLUS.sub(r"\1", words)), vocabulary)


def _cut_quotes(text: str, utterances: Iterable[str]) -> str:
    """The text without what it repeats word for word: a whole utterance, or else those of its lines
    and JSON objects that could be taken for part of an answer.
    """
    for one in utterances:
        lines = [
            line for line in one.splitlines() if _APPRAISAL.label.search(line) or holds_markup(line)
        ]
        parts = [*(one[start:end] for _, start, end in find_objects(one)), *lines]
        for quotes in ([one], parts):
            before = text
            for quote in filter(None, map(str.strip, quotes)):
                text = re.sub(re.escape(quote) + r"(?!\d)", " ", text, count=1)
            if text != before:
                break
    return text


def _drop_quoted(claims: Claims, quoted: list[Claims]) -> Claims:
    """The claims that stand in no utterance, or all of a field that has no others: of changes the
    lowest.
    """
    kept: Claims = {}
    for field, values in claims.items():
        said = {_comparable(one) for found in quoted for one in found.get(field, ())}
        own = [one for one in values if _comparable(one) not in said]
        numbers = [one for one in map(_comparable, values) if isinstance(one, int)]
        kept[field] = own or ([min(numbers)] if field == "change" and numbers else values)
    return kept


def _comparable(value: Any) -> int | str:
    """A number where it is one, or else the words without what stands around them."""
    try:
        return whole_number(value)
    except Unreadable:
        return " ".join(re.findall(r"\w+", str(value).casefold()))


def change_in(claims: Claims) -> int:
    """The one change that they all agree on, as the model gave it, in [-100, 100].

    Raises Unreadable.
    """
    changes = {whole_number(value) for value in claims.get("change", ())}
    if not changes:
        raise Unreadable("no_change")
    if len(changes) > 1:
        raise Unreadable("several_changes")
    return changes.pop()


def text_in(claims: Claims, field: str) -> str:
    """What the answer gives for a field of text, a list of texts in its order; empty when it gives
    nothing. Raises Unreadable when it gives different texts.
    """
    texts = [_strip_markup(" ".join(_texts(value))) for value in claims.get(field, ())]
    told = {_comparable(text): text for text in reversed(texts) if text}
    if len(told) > 1:
        raise Unreadable("several_values")
    return next(iter(told.values()), "")[:_MAX_TEXT]


def _texts(value: Any) -> list[str]:
    parts = value if isinstance(value, list) else [value]
    return [one for one in parts if isinstance(one, str)]


def ids_in(claims: Claims, field: str, known: Iterable[str]) -> tuple[str, ...] | None:
    """Which of the known ids the answer names, in their order; None when it says nothing of them.

    All other ids are left out. Raises Unreadable when it names them differently.
    """
    values = [value for value in claims.get(field, ()) if isinstance(value, (str, list))]
    if not values:
        return None
    ids = tuple(dict.fromkeys(known))
    named = {tuple(one for one in ids if one in set(_ids(value))) for value in values}
    if len(named) > 1:
        raise Unreadable("several_values")
    return named.pop()


def _ids(value: str | list[Any]) -> Iterator[str]:
    for text in [value] if isinstance(value, str) else value[:_MAX_LISTED]:
        if isinstance(text, str):
            yield from _ID.findall(text[:_MAX_TEXT].casefold())


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


def _claims(text: str, vocabulary: Vocabulary = _APPRAISAL) -> Claims:
    claims: Claims = {}
    text = text[: _find_unfinished(text)]
    outside, at = [], 0
    for pairs, start, end in find_objects(text):
        outside.append(text[at:start])
        at = end
        for field, value in _fields(pairs, vocabulary):
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


def _fields(
    pairs: Pairs, vocabulary: Vocabulary = _APPRAISAL, depth: int = 0
) -> Iterator[tuple[str, Any]]:
    for key, value in pairs:
        field = vocabulary.field_of.get(key.strip(" *_`").casefold())
        if field:
            yield field, value
        elif isinstance(value, Pairs) and depth < 2:
            yield from _fields(value, vocabulary, depth + 1)


def _parse_labelled_lines(text: str, vocabulary: Vocabulary) -> Iterator[tuple[str, str | None]]:
    """What stands after each label, up to the next label or a blank line."""
    labels = list(vocabulary.label.finditer(text))
    for label, following in zip_longest(labels, labels[1:]):
        end = following.start() if following else len(text)
        field = vocabulary.field_of[label.group(1).casefold()]
        after = text[label.end() : end]
        value = re.split(r"\n\s*\n", after.lstrip(" \t*_`\n"), maxsplit=1)[0]
        label_gap = after[: len(after) - len(after.lstrip())]
        if field == "change":
            value = value.split("\n")[0]
            if "\n" in label_gap and _LISTED.match(value):
                continue  # a list with this heading, not a number
            yield field, None if _BULLET.match(value) else value  # a minus, or a bullet
        else:
            yield field, value


def _strip_markup(text: str) -> str:
    """Without the quotation marks, asterisks and commas that models put around a value."""
    text = text.strip().removesuffix(",").strip().strip("*").strip()
    for opening, closing in ('""', "“”", "「」"):
        if len(text) > 1 and text[0] == opening and text[-1] == closing:
            text = text[1:-1].strip()
    return text
