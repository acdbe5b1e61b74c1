"""What was said, word by word: all that is ever asked of a word, looked up once, and the 4-grams by which copies are found. Knows no person."""

from functools import lru_cache
from itertools import chain
from sys import intern
from typing import NamedTuple

from rlver_gym.core.words import FUNCTION_WORDS, content_stem, sentences, split_words, stem
from rlver_gym.users.embedded.act_classifier import ear
from rlver_gym.users.embedded.lexicon import Phrase, lexicon

# Pronouns and "to be" folded, so that giving somebody's words back with "you" for "I" still counts as a copy.
_FOLDED = {
    **dict.fromkeys(("i", "me", "you", "myself", "yourself"), "you"),
    **dict.fromkeys(("my", "your", "mine", "yours"), "your"),
    **dict.fromkeys(("am", "are", "is"), "are"),
    **dict.fromkeys(("was", "were"), "were"),
}
_MOST_WORDS = 50_000


class _Word(NamedTuple):
    """All that is ever asked of a word, worked out once."""

    stem: str
    content: str
    """The stem again, or empty when it does not say what a text is about."""
    folded: str
    function: bool
    phrases: tuple[Phrase, ...]
    """Phrases of the lexicon that are looked up by it."""
    alone: int
    """What it tells the ear by itself."""
    after: dict[str, int]
    """What the stems that may follow tell the ear."""


class _Vocabulary(dict[str, _Word]):
    """Words met so far. A plain look-up, because it costs two thirds of one in `lru_cache`, which keeps a queue."""

    def __missing__(self, word: str) -> _Word:
        """Work it out; forget the others when they are too many."""
        if len(self) >= _MOST_WORDS:
            self.clear()
        word = intern(word)  # mostly its own stem and folding: one place in memory to look at instead of three
        found = self[word] = _word(word)
        return found


_VOCABULARY = _Vocabulary()


def _word(word: str) -> _Word:
    root = stem(word)
    return _Word(
        stem=root,
        content=content_stem(word),
        folded=_FOLDED.get(word, word),
        function=word in FUNCTION_WORDS,
        phrases=lexicon().phrases(root),
        alone=ear().alone(root),
        after=ear().after(root),
    )


class Said(NamedTuple):
    """A text in words."""

    stems: tuple[str, ...]
    content: frozenset[str]
    """The stems that say what it is about."""
    folded: tuple[str, ...]
    function_words: int
    phrases: tuple[tuple[Phrase, ...], ...]
    """Of each word, the phrases that are looked up by it."""
    alone: tuple[int, ...]
    """Of each word, what it tells the ear by itself."""
    after: tuple[dict[str, int], ...]
    """Of each word, what those that may follow tell the ear."""


class Line(NamedTuple):
    """What stays of a text that others are compared with."""

    content: frozenset[str]
    fourgrams: frozenset[int]


def said(text: str) -> Said:
    """A text in words. Not cached: hardly a sentence is said twice, and what is kept has to be walked by the garbage collector."""
    spoken = split_words(text)
    if not spoken:
        return _NOTHING
    stems, about, folded, function, phrases, alone, after = zip(*map(_VOCABULARY.__getitem__, spoken), strict=True)
    return Said(stems, frozenset(filter(None, about)), folded, sum(function), phrases, alone, after)


_NOTHING = Said((), frozenset(), (), 0, (), (), ())


@lru_cache(maxsize=2_048)
def line(text: str) -> Line:
    """Cached, because every turn looks back at all earlier lines."""
    parts = list(map(_of_a_card, sentences(text)))
    content = frozenset().union(*[part.content for part in parts])
    return Line(content, fourgrams(tuple(chain.from_iterable([part.folded for part in parts]))))


class _Part(NamedTuple):
    """A sentence of a line."""

    content: frozenset[str]
    folded: tuple[str, ...]


@lru_cache(maxsize=8_192)
def _of_a_card(sentence: str) -> _Part:
    """Cached, because what people say is put together from the sentences of their cards."""
    spoken = said(sentence)
    return _Part(spoken.content, spoken.folded)


def fourgrams(folded: tuple[str, ...]) -> frozenset[int]:
    """The 4-grams of folded words, as hashes: only equality within one process is asked of them, and integers cost the garbage collector little."""
    return frozenset(map(hash, zip(folded, folded[1:], folded[2:], folded[3:], strict=False)))
