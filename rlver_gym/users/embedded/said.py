"""What was said, word by word: stems, what it is about, and the 4-grams by which copies are found. Knows no act and no person."""

from functools import lru_cache
from typing import NamedTuple

from rlver_gym.words import FUNCTION_WORDS, content_stem, stem, words

# Pronouns and "to be" folded, so that giving somebody's words back with "you" for "I" still counts as a copy.
_FOLDED = {
    **dict.fromkeys(("i", "me", "you", "myself", "yourself"), "you"),
    **dict.fromkeys(("my", "your", "mine", "yours"), "your"),
    **dict.fromkeys(("am", "are", "is"), "are"),
    **dict.fromkeys(("was", "were"), "were"),
}
_MOST_WORDS = 50_000


class _Word(NamedTuple):
    stem: str
    content: str
    """The stem again, or empty when it does not say what a text is about."""
    folded: str
    function: bool


class _Vocabulary(dict[str, _Word]):
    """Words met so far. A plain look-up, because it costs two thirds of one in `lru_cache`, which keeps a queue."""

    def __missing__(self, word: str) -> _Word:
        """Work it out; forget the others when they are too many."""
        if len(self) >= _MOST_WORDS:
            self.clear()
        found = self[word] = _Word(stem(word), content_stem(word), _FOLDED.get(word, word), word in FUNCTION_WORDS)
        return found


_VOCABULARY = _Vocabulary()


class Said(NamedTuple):
    """A text in words."""

    words: tuple[str, ...]
    stems: tuple[str, ...]
    content: frozenset[str]
    """The stems that say what it is about."""
    folded: tuple[str, ...]
    function_words: int


class Line(NamedTuple):
    """What stays of a text that others are compared with."""

    content: frozenset[str]
    fourgrams: frozenset[int]


def said(text: str) -> Said:
    """A text in words; every word is looked up once."""
    spoken = words(text)
    if not spoken:
        return Said((), (), frozenset(), (), 0)
    stems, about, folded, function = zip(*map(_VOCABULARY.__getitem__, spoken), strict=True)
    return Said(spoken, stems, frozenset(filter(None, about)), folded, sum(function))


@lru_cache(maxsize=2_048)
def line(text: str) -> Line:
    """Cached, because every turn looks back at all earlier lines."""
    _, _, content, folded, _ = said(text)
    return Line(content, fourgrams_of(folded))


def fourgrams(text: str) -> frozenset[int]:
    """The word 4-grams of a text, pronouns folded, as hashes: only equality within one process is asked of them, and integers cost the garbage collector little."""
    return fourgrams_of(said(text).folded)


def fourgrams_of(folded: tuple[str, ...]) -> frozenset[int]:
    """The same of folded words."""
    return frozenset(map(hash, zip(folded, folded[1:], folded[2:], folded[3:], strict=False)))
