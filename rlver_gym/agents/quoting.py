"""Quoting what somebody said: which sentences are worth it, and who and what they are about."""

import re
from collections.abc import Sequence

from rlver_gym.core.words import FUNCTION_WORDS, content_stems, sentences, words

_NO_NAMES = FUNCTION_WORDS | set(
    """monday tuesday wednesday thursday friday saturday sunday january february march april june
    july august september october november december christmas easter god english mum dad""".split()
)
_LONGEST = 16
_UNSAFE = re.compile(
    r"[\"“”*()?]|\b(?:you|your|yours|yourself|guess|suppose|dunno)\b", re.IGNORECASE
)
"""What should not be quoted: quotations, questions, words to the listener, and thinking aloud."""
_NAME = re.compile(r"(?<=[a-z] )([A-Z][a-z]{2,})\b(?!-)")
_STORY = re.compile(
    r"\b(?:\w{3,}ed|was|were|had|said|told|came|went|took|gave|left|knew|got|made|wrote|held|kept|stood|sat|found)\b",
    re.IGNORECASE,
)
_TALK = re.compile(r"\b(?:you|you're|you've|your|that's)\b", re.IGNORECASE)
_DID = re.compile(
    r"\b(?:i|i've|i'd|we)\s+(?:\w+ly\s+)?(?!am\b|was\b|feel\b|felt\b|don|can|think|know|want|wish|hate|suppose|guess)(\w+)",
    re.IGNORECASE,
)


def _is_quotable(sentence: str) -> bool:
    """Whether a sentence can be given back word for word: short, and told."""
    return 3 <= len(sentence.split()) <= _LONGEST and not _UNSAFE.search(sentence)


def find_names(lines: Sequence[str]) -> list[str]:
    """Names in the lines, the most frequent first: capitalised within sentences."""
    names = [
        name for line in lines for name in _NAME.findall(line) if name.lower() not in _NO_NAMES
    ]
    return sorted(set(names), key=lambda name: (-sum(line.count(name) for line in lines), name))


def rank_by_content(lines: Sequence[str], used: Sequence[str]) -> list[str]:
    """Sentences worth taking up and not in `used`, story before small talk."""
    spent = content_stems(" ".join(used))
    kept = [
        (
            len(content_stems(sentence) - spent)
            + 3 * bool(_STORY.search(sentence))
            - 3 * bool(_TALK.search(sentence))
            + 0.5 * age,
            sentence,
        )
        for age, line in enumerate(lines)
        for sentence in _select_new(line, spent)
    ]
    return [sentence for _, sentence in sorted(kept, key=lambda pair: -pair[0])]


def rank_by_recency(lines: Sequence[str], used: Sequence[str]) -> list[str]:
    """Sentences worth taking up and not yet taken up in `used`, the latest first."""
    spent = content_stems(" ".join(used))
    return [sentence for line in reversed(lines) for sentence in reversed(_select_new(line, spent))]


def _select_new(line: str, spent: frozenset[str]) -> list[str]:
    return [
        sentence
        for sentence in sentences(line)
        if _is_quotable(sentence)
        and len(content_stems(sentence) - spent) >= max(1, 0.6 * len(content_stems(sentence)))
    ]


def select_deeds(facts: Sequence[str]) -> list[str]:
    """Those in which the person tells something they did."""
    return [sentence for sentence in facts if _DID.search(sentence)]


def select_about(facts: Sequence[str], who: Sequence[str]) -> list[str]:
    others = {"he", "she", "they", "his", "her", "their", *(name.lower() for name in who)}
    return [sentence for sentence in facts if others & set(words(sentence))]
