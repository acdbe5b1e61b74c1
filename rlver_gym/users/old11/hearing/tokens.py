"""Words into tokens that questions and answers are compared by: stems, with synonyms taken
together. Knows no card.
"""

from collections.abc import Callable

from rlver_gym.core.words import stem
from rlver_gym.users.embedded.hearing.words import load_word_groups, load_word_set
from rlver_gym.util.frozen import Memo

QUESTION_WORDS = frozenset("who whom whose what which when where why how".split())
_STOP_WORDS = load_word_set("saying nothing about a matter")
_PRONOUNS = {
    **dict.fromkeys(("you", "your", "yours", "yourself", "u", "ur"), "YOU"),
    **dict.fromkeys(("he", "him", "his", "himself"), "he"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "she"),
    **dict.fromkeys(("they", "them", "their", "theirs", "themselves"), "they"),
}
PRONOUNS = frozenset({"he", "she", "they"})
YOU = "YOU"
"""The person who is spoken to; "I" in what they say themself."""


def _load_synonyms() -> dict[str, str]:
    found: dict[str, str] = {}
    for names in load_word_groups("synonyms"):
        for word in names:
            found.setdefault(word, stem(names[0]))
            found.setdefault(stem(word), stem(names[0]))
    return found


_CANONICAL_STEMS = _load_synonyms()


def _find_token(word: str) -> str:
    if word in _PRONOUNS:
        return _PRONOUNS[word]
    if word in _STOP_WORDS or word in QUESTION_WORDS:
        return ""
    root = stem(word)
    return _CANONICAL_STEMS.get(word) or _CANONICAL_STEMS.get(root) or root


token_of: Callable[[str], str] = Memo(_find_token, 50_000).__getitem__
"""The token of one lower-case word; empty when it says nothing about a matter."""


DAYS = {
    token: days
    for word, days in (
        ("minute", 1 / 1440),
        ("hour", 1 / 24),
        ("day", 1.0),
        ("week", 7.0),
        ("fortnight", 14.0),
        ("month", 30.4),
        ("year", 365.0),
    )
    if (token := _find_token(word))
}
"""Tokens of units of time, in days."""
