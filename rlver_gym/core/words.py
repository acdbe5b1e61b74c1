"""Text into words and stems. Frozen: a score must not move because a library's stemmer did."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from sys import intern
from typing import Any

from rlver_gym.util.yaml_file import load_yaml

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_LETTERS = bytes(
    ord(" ") if _WORD.fullmatch(chr(code)) is None and code != ord("'") else code
    for code in range(256)
)
_LETTERS_IN_LINES = _LETTERS[:10] + b"\n" + _LETTERS[11:]
"""Tables for `bytes.translate`: blanks for all that is in no word, or but for the ends of lines."""
_DATA: dict[str, Any] = load_yaml("rlver_gym.core", "words.yaml")
_IRREGULAR_CONTRACTIONS = {
    word: tuple(written_out.split()) for word, written_out in _DATA["contractions"].items()
}
_IS = frozenset(_DATA["takes_is"].split())
_SENTENCE = re.compile(r"[^.!?…\n]+[.!?…]*[\"'”’)]*")

FUNCTION_WORDS = frozenset(_DATA["function_words"].split())
"""Words too common to say what a text is about."""


_SHORT_SENTENCE = 3
"""Words."""


def is_short(sentence: str) -> bool:
    """Whether people say it again and again, such as "Yes." and "Thank you."."""
    return sentence.count(" ") < _SHORT_SENTENCE


_SHORT_WITH_E = re.compile(r"[^aeiou][aeiou][^aeiouwxy]")


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A light English stem: endings and British -ise folded, as "promised" to "promise"."""
    if len(word) <= 3:
        return intern(word)
    stemmed = _strip_ending(word.replace("isation", "ization"))
    if len(stemmed) > 4 and stemmed[-1] == "e":
        stemmed = stemmed[:-1]
    return intern(stemmed[:-1] + "z" if len(stemmed) > 4 and stemmed.endswith("is") else stemmed)


def _strip_ending(word: str) -> str:
    for ending, tail in _DATA["endings"]:
        if (
            word.endswith(ending)
            and len(word) - len(ending) >= 3
            and not (ending == "s" and word.endswith(("ss", "us", "is")))
        ):
            word = word[: -len(ending)] + tail
            if ending in ("ing", "ed"):
                if len(word) > 3 and word[-1] == word[-2] and word[-1] in "bdgmnprt":
                    return word[:-1]
                if len(word) == 3 and _SHORT_WITH_E.fullmatch(word):
                    return word + "e"
            break
    return word


@lru_cache(maxsize=4_096)
def _expand_contractions(token: str) -> tuple[str, ...]:
    """The words of a run of letters and apostrophes: "don't" is "do", "not"."""
    return tuple(chain.from_iterable(map(_expand_contraction, _WORD.findall(token))))


def _expand_contraction(word: str) -> tuple[str, ...]:
    if word in _IRREGULAR_CONTRACTIONS:
        return _IRREGULAR_CONTRACTIONS[word]
    front, mark, end = word.partition("'")
    if not mark:
        return (word,)
    if end == "t" and front.endswith("n"):
        return (front[:-1], "not")
    if end == "s":
        return (front, "is") if front in _IS else (front,)
    return (front, _DATA["contraction_ends"].get(end, end))


@lru_cache(maxsize=1_024)
def words(text: str) -> tuple[str, ...]:
    """The lower-case words of a text, contractions written out ("don't" is "do", "not")."""
    return split_words(text)


def split_words(text: str) -> tuple[str, ...]:
    """As `words`, for texts that will not be asked about again."""
    return _split_plain(_fold(text, _LETTERS))


def is_named(name: str, text: str) -> bool:
    """Whether a name stands in a text, and not inside another word."""
    return name in text and bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))


def split_each(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """`split_words` of each of many texts, faster at once."""
    lines = "\n".join([text.replace("\n", " ") for text in texts])
    return list(map(_split_plain, _fold(lines, _LETTERS_IN_LINES).split("\n"))) if texts else []


def _fold(text: str, letters: bytes) -> str:
    plain = text.lower().replace("’", "'").replace("‘", "'")
    return plain.encode("ascii", "replace").translate(letters).decode("ascii")


def _split_plain(plain: str) -> tuple[str, ...]:
    tokens = plain.split()
    if "'" in plain or "cannot" in plain:
        for at in reversed(
            [at for at, token in enumerate(tokens) if "'" in token or token == "cannot"]
        ):
            tokens[at : at + 1] = _expand_contractions(tokens[at])
    return tuple(tokens)


def stems(text: str) -> tuple[str, ...]:
    """The stems of a text's words, in order."""
    return tuple(map(stem, words(text)))


@lru_cache(maxsize=2_048)
def content_stems(text: str) -> frozenset[str]:
    """The stems that say what a text is about: no function words, letters and numbers."""
    return frozenset(filter(None, map(content_stem, words(text))))


@lru_cache(maxsize=50_000)
def content_stem(word: str) -> str:
    """The stem of a word that says what a text is about; empty for others."""
    return "" if word in FUNCTION_WORDS or len(word) <= 2 else stem(word)


@lru_cache(maxsize=2_048)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, split at . ! ? … and line ends, blanks left out."""
    return split_sentences(text)


def split_sentences(text: str) -> tuple[str, ...]:
    """As `sentences`, for texts that will not be asked about again."""
    return tuple(filter(None, map(str.strip, _SENTENCE.findall(text))))


@lru_cache(maxsize=1 << 14)
def fold_sentences(text: str) -> str:
    """The words of each sentence behind a mark: equal for a text however it is typed, and within
    the fold of a text that holds it.
    """
    return "".join([f"| {' '.join(words)} " for words in split_each(split_sentences(text))])
