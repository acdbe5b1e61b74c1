"""Choices: what an either-or question offers. A pure function of the text; knows no card."""

import re

from rlver_gym.core.words import split_words
from rlver_gym.users.embedded.hearing.utterance_parser import Ask, Sentence
from rlver_gym.users.embedded.hearing.words import PATTERNS

Alternatives = tuple[tuple[str, ...], ...]
"""The words of each thing that a question offers."""

_ASKS = frozenset({Ask.YES_NO, Ask.WHO, Ask.WHAT, Ask.WHERE, Ask.WHEN, Ask.HOW, Ask.ABOUT})
_MOST_WORDS = 12


def find_choices(sentence: Sentence) -> Alternatives:
    text = sentence.text.rstrip("?!.\"'”’) ")
    found = list(PATTERNS["or"].finditer(text))
    if sentence.ask not in _ASKS or "?" not in sentence.text or not found:
        return ()
    left, right = text[: found[-1].start()], text[found[-1].end() :]
    if (
        PATTERNS["harm"].search(text)
        or PATTERNS["no_choice"].match(right)
        or PATTERNS["no_first"].search(left)
    ):
        return ()
    second = split_words(PATTERNS["filler_of_choice"].sub("", right))
    whole = split_words(left)
    first = split_words(
        PATTERNS["filler_of_choice"].sub("", PATTERNS["before_choice"].sub("", left))
    )[-_MOST_WORDS:]
    if len(second) <= 3 and len(first) > len(second) + 3:
        first = first[-len(second) - 1 :]  # "Will you go with your mum or your dad?"
    if not first or not second or not whole or len(second) > _MOST_WORDS:
        return ()
    return first, second


def join_choices(text: str, sentences: tuple[Sentence, ...]) -> tuple[Sentence, ...]:
    """The sentences, those two as one that are an either-or: "Was he cross, or was he sad?"."""
    found: list[Sentence] = []
    plain = text.replace("’", "'").replace("‘", "'")
    for one in sentences:
        before = found[-1] if found else None
        if before is not None and Ask.YES_NO is before.ask is one.ask and before.text[-1] == "?":
            whole = re.search(
                rf"{re.escape(before.text[:-1])},?\s+or\s+{re.escape(one.text)}", plain
            )
            if whole and not PATTERNS["harm"].search(whole.group()):
                found[-1] = before._replace(
                    text=whole.group(),
                    words=(*before.words, "or", *one.words),
                    asked=(*before.asked, "or", *one.asked),
                    feelings=(*before.feelings, *one.feelings),
                )
                continue
        found.append(one)
    return tuple(found)
