"""From what a model answered to what it says of an utterance. Knows the fields by all their names.

What is ambiguous is refused, never guessed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from rlver_gym.answers.fields import (
    MAX_CHARS,
    Claims,
    Unreadable,
    Vocabulary,
    find_claims,
    iterate_fields,
    read_fields,
    whole_number,
)
from rlver_gym.answers.markup import holds_markup
from rlver_gym.answers.reading import mend_surrogates, read_answer
from rlver_gym.users.llm.prompts import LANGUAGES, words
from rlver_gym.util.json_text import Pairs, find_objects

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


_APPRAISAL = Vocabulary.of(
    {
        field: "|".join(
            [
                _MORE_NAMES.get(field, field),
                *(words(one).labels[field].lower() for one in LANGUAGES),
            ]
        )
        for field in words("en").labels
    },
    numbers=["change"],
)
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


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
    claims = read_fields(text, _APPRAISAL)
    quotable = list(filter(_is_quotable, utterances))
    if not quotable:
        return claims
    return _drop_quoted(claims, [find_claims(one, _APPRAISAL) for one in quotable]) | read_fields(
        _cut_quotes(text, quotable), _APPRAISAL
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
    said = _cut_quotes(said, filter(_is_quotable, utterances))
    claims: dict[str, Claims] = {}
    names = {key.casefold(): key for key in keys}
    for pairs, _, _ in find_objects(said):
        for key, judged in _find_keyed(pairs, names):
            for field, value in iterate_fields(judged, _APPRAISAL):
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
        if any(iterate_fields(pairs, _APPRAISAL)):
            return text[start:end]
    claims = find_claims(text, _APPRAISAL)
    for value in claims.get("meant_for", ()):
        return str(value)
    for value in claims.get("change", ()):
        with suppress(Unreadable):
            return f"{whole_number(value):+d}"
    return None


def _is_quotable(utterance: str) -> bool:
    """Whether it could be taken for part of an answer."""
    return bool(find_claims(utterance, _APPRAISAL)) or holds_markup(utterance)


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


def _strip_markup(text: str) -> str:
    """Without the quotation marks, asterisks and commas that models put around a value."""
    text = text.strip().removesuffix(",").strip().strip("*").strip()
    for opening, closing in ('""', "“”", "「」"):
        if len(text) > 1 and text[0] == opening and text[-1] == closing:
            text = text[1:-1].strip()
    return text
