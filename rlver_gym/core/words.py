"""Text into words and stems.

Frozen on purpose: a score must not move because a library's stemmer did. Knows no user.
"""

import re
from functools import lru_cache
from itertools import chain
from sys import intern

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_LETTERS = bytes(
    ord(" ") if _WORD.fullmatch(chr(code)) is None and code != ord("'") else code
    for code in range(256)
)
"""A table for `bytes.translate`: blanks for all that is in no word."""
_IRREGULAR_CONTRACTIONS = {
    "can't": ("can", "not"),
    "cannot": ("can", "not"),
    "won't": ("will", "not"),
    "shan't": ("shall", "not"),
    "let's": ("let", "us"),
    "i'm": ("i", "am"),
}
_CONTRACTION_ENDS = {"re": "are", "ve": "have", "ll": "will", "d": "would"}
_IS = frozenset({"it", "that", "there", "here", "what", "who", "how", "where", "he", "she"})
_SENTENCE = re.compile(r"[^.!?…\n]+[.!?…]*[\"'”’)]*")

FUNCTION_WORDS = frozenset(
    """a about above after again all almost alone along already also although always am among an
    and another any anyone anything are around as ask at away back be became because become
    been before began being below best better between both bring but by call came can come
    could day did do does done down during each either else enough even ever every everyone
    everything far feel felt few find first for from gave get getting give go goes going
    gone good got had has have having he hear heard her here hers herself him himself his
    how however i if in into is it its itself just keep kept kind know known last least less
    let like little long look made make many may maybe me mean might mine more most much
    must my myself need never next no nobody none nor not nothing now of off often oh ok
    okay on once one only onto or other others our ours out over own part people perhaps
    person please put quite rather really right said same saw say see seem seems seen sent
    set shall she should since so some somebody someone something sometimes soon sort still
    stop such sure take taken tell than thank thanks that the their theirs them themselves
    then there these they thing things think this those though thought through time to today
    together told too took toward try two under until up upon us use used very want wanted
    was way we well went were what whatever when where whether which while who whole whom
    whose why will with within without would yes yet you your yours yourself""".split()
)
"""Words too common to say what a text is about."""


_SHORT_SENTENCE = 3
"""Words."""


def is_short(sentence: str) -> bool:
    """Whether a sentence is one that people say again and again, such as "Yes." and "Thank
    you.".
    """
    return sentence.count(" ") < _SHORT_SENTENCE


_ENDINGS = (
    ("ies", "y"),
    ("ied", "y"),
    ("sses", "ss"),
    ("ing", ""),
    ("edly", ""),
    ("ed", ""),
    ("ly", ""),
    ("es", "e"),
    ("s", ""),
)
_SHORT_WITH_E = re.compile(r"[^aeiou][aeiou][^aeiouwxy]")


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A light English stem: plural, -ed, -ing, -ly and British -ise folded; `stem("promised") ==
    stem("promise")`.
    """
    if len(word) <= 3:
        return intern(word)
    stemmed = _strip_ending(word.replace("isation", "ization"))
    if len(stemmed) > 4 and stemmed[-1] == "e":
        stemmed = stemmed[:-1]
    return intern(stemmed[:-1] + "z" if len(stemmed) > 4 and stemmed.endswith("is") else stemmed)


def _strip_ending(word: str) -> str:
    for ending, tail in _ENDINGS:
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
    """The words of a run of letters, digits and apostrophes: "don't" is "do", "not"; a possessive
    loses its 's.
    """
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
    return (front, _CONTRACTION_ENDS[end]) if end in _CONTRACTION_ENDS else (front, end)


@lru_cache(maxsize=1_024)
def words(text: str) -> tuple[str, ...]:
    """The lower-case words of a text in order, contractions written out ("don't" is "do",
    "not").
    """
    return split_words(text)


def split_words(text: str) -> tuple[str, ...]:
    """As `words`, for texts that will not be asked about again."""
    plain = text.lower().replace("’", "'").replace("‘", "'")
    found = plain.encode("ascii", "replace").translate(_LETTERS).decode("ascii").split()
    if "'" in plain or "cannot" in plain:
        for at in reversed(
            [at for at, token in enumerate(found) if "'" in token or token == "cannot"]
        ):
            found[at : at + 1] = _expand_contractions(found[at])
    return tuple(found)


def stems(text: str) -> tuple[str, ...]:
    """The stems of a text's words, in order."""
    return tuple(map(stem, words(text)))


@lru_cache(maxsize=2_048)
def content_stems(text: str) -> frozenset[str]:
    """The stems that say what a text is about: everything but function words, single letters and
    numbers.
    """
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
