"""From a judge's answer to scores and quotations, by fields that hold the request's code."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from rlver_gym.answers.fields import Unreadable, Vocabulary, read_fields, whole_number
from rlver_gym.answers.reading import explain_missing_words, read_answer
from rlver_gym.core.capabilities import HIGHEST, JUDGED, LOWEST
from rlver_gym.core.dialogue import Message
from rlver_gym.llm_client.body_fields import THINKING_SWITCH
from rlver_gym.llm_client.values import ChatAnswer
from rlver_gym.util.lookalikes import strip_invisible

_MAX_QUOTATIONS = 10
_AROUND = " \t*`'\"“”「」"


class Quotation(NamedTuple):
    """Words of a dialogue, exactly."""

    turn: int
    """The message that they stand in, counted from 1: odd ones are the person's."""
    text: str


class Judgement(NamedTuple):
    """What one answer says, by dimension."""

    scores: dict[str, int]
    quotations: dict[str, tuple[Quotation, ...]]
    num_dropped: int
    """Quotations that stand nowhere in the dialogue."""


class UnusableAnswer(ValueError):
    """An answer that cannot be used, and why."""


def format_field_name(dimension: str, code: str, *, quotes: bool = False) -> str:
    return f"{dimension}_quotes_{code}" if quotes else f"{dimension}_{code}"


def read_judgement(answer: ChatAnswer, code: str, messages: Sequence[Message]) -> Judgement:
    """The judgement in an answer. UnusableAnswer for one that is cut, or lacks a score."""
    content = read_answer(answer.text, answer.finish_reason)
    if content.silence:
        raise UnusableAnswer(explain_missing_words(content.silence, switch=THINKING_SWITCH))
    if content.ending != "finished":
        raise UnusableAnswer("it breaks off before its end. Raise max_tokens")
    names = [
        format_field_name(name, code, quotes=quotes) for name in JUDGED for quotes in (False, True)
    ]
    said = read_fields(answer.text, Vocabulary.of({n: f"{n}|{n.replace('_', ' ')}" for n in names}))
    texts = [" ".join(strip_invisible(message.text).split()) for message in messages]
    scores, kept, dropped = {}, {}, 0
    for name in JUDGED:
        scores[name] = _read_score(name, said.get(format_field_name(name, code), []))
        quotes = _list_quotes(said.get(format_field_name(name, code, quotes=True), []))
        located = [_locate_quote(quote, texts) for quote in quotes]
        kept[name] = tuple(quote for quote in dict.fromkeys(located) if quote)
        dropped += located.count(None)
    return Judgement(scores, kept, dropped)


def _read_score(name: str, values: Sequence[Any]) -> int:
    try:
        scores = {whole_number(value) for value in values}
    except Unreadable:
        scores = set()
    if len(scores) != 1 or not LOWEST <= min(scores) <= HIGHEST:
        raise UnusableAnswer(
            f"{name} must be given once, as a whole number from {LOWEST} to {HIGHEST}"
        )
    return scores.pop()


def _list_quotes(values: Sequence[Any]) -> list[str]:
    parts = [re.split(r"\s\|\s", value) if isinstance(value, str) else value for value in values]
    quotes = [quote for part in parts if isinstance(part, list) for quote in part]
    return [quote for quote in quotes if isinstance(quote, str) and quote.strip(_AROUND)][
        :_MAX_QUOTATIONS
    ]


def _locate_quote(quote: str, texts: Sequence[str]) -> Quotation | None:
    """Where the words stand, but for line breaks and the marks around them; None for nowhere."""
    plain = " ".join(strip_invisible(quote).split())
    for words in (plain, plain.strip(_AROUND)):
        for turn, text in enumerate(texts, 1):
            if re.search(r"\w", words) and words in text:
                return Quotation(turn, words)
    return None
