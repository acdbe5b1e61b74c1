"""What was said, word by word: all that is ever asked of a word, looked up once, and the 4-grams by
which copies are found. Knows no person.
"""

from functools import lru_cache
from itertools import chain
from sys import intern
from typing import NamedTuple

from rlver_gym.core.words import FUNCTION_WORDS, content_stem, sentences, split_words, stem
from rlver_gym.text.act_classifier import load_act_classifier
from rlver_gym.text.lexicon import Phrase, load_lexicon

# Pronouns and "to be" folded, so that giving somebody's words back with "you" for "I" still counts
# as a copy.
_FOLDED = {
    **dict.fromkeys(("i", "me", "you", "myself", "yourself"), "you"),
    **dict.fromkeys(("my", "your", "mine", "yours"), "your"),
    **dict.fromkeys(("am", "are", "is"), "are"),
    **dict.fromkeys(("was", "were"), "were"),
}
_MAX_VOCABULARY = 50_000


class _Word(NamedTuple):
    """All that is ever asked of a word, worked out once."""

    stem: str
    content: str
    """The stem again, or empty when it does not say what a text is about."""
    folded: str
    function: bool
    phrases: tuple[Phrase, ...]
    """Phrases of the lexicon that are looked up by it."""
    unigrams: int
    """Its weight in the act classifier."""
    bigrams: dict[str, int]
    """The classifier's weights of the stems that may follow."""


class _Vocabulary(dict[str, _Word]):
    """Words met so far.

    A plain look-up, because it costs two thirds of one in `lru_cache`, which keeps a queue.
    """

    def __missing__(self, word: str) -> _Word:
        """Work it out; forget the others when they are too many."""
        if len(self) >= _MAX_VOCABULARY:
            self.clear()
        # Mostly its own stem and folding: one place in memory to look at instead of three.
        word = intern(word)
        found = self[word] = _look_up_word(word)
        return found


_VOCABULARY = _Vocabulary()


def _look_up_word(word: str) -> _Word:
    root = stem(word)
    return _Word(
        stem=root,
        content=content_stem(word),
        folded=_FOLDED.get(word, word),
        function=word in FUNCTION_WORDS,
        phrases=load_lexicon().phrases(root),
        unigrams=load_act_classifier().get_unigram(root),
        bigrams=load_act_classifier().get_bigrams(root),
    )


class TokenizedText(NamedTuple):
    """A text in words."""

    stems: tuple[str, ...]
    content: frozenset[str]
    """The stems that say what it is about."""
    folded: tuple[str, ...]
    function_words: int
    phrases: tuple[tuple[Phrase, ...], ...]
    """Of each word, the phrases that are looked up by it."""
    unigrams: tuple[int, ...]
    """Of each word, its weight in the act classifier."""
    bigrams: tuple[dict[str, int], ...]
    """Of each word, the classifier's weights of the stems that may follow."""


class LineSummary(NamedTuple):
    """What stays of a text that others are compared with."""

    content: frozenset[str]
    fourgrams: frozenset[int]


def tokenize(text: str) -> TokenizedText:
    """A text in words.

    Not cached: hardly a sentence is said twice, and what is kept has to be walked by the garbage
    collector.
    """
    spoken = split_words(text)
    if not spoken:
        return _NO_TOKENS
    stems, about, folded, function, phrases, unigrams, bigrams = zip(
        *map(_VOCABULARY.__getitem__, spoken), strict=True
    )
    return TokenizedText(
        stems, frozenset(filter(None, about)), folded, sum(function), phrases, unigrams, bigrams
    )


_NO_TOKENS = TokenizedText((), frozenset(), (), 0, (), (), ())


@lru_cache(maxsize=2_048)
def summarise_line(text: str) -> LineSummary:
    """Cached, because every turn looks back at all earlier lines."""
    parts = list(map(_tokenize_card_sentence, sentences(text)))
    content = frozenset().union(*[part.content for part in parts])
    return LineSummary(
        content, fourgrams(tuple(chain.from_iterable([part.folded for part in parts])))
    )


class _SentenceTokens(NamedTuple):
    """A sentence of a line."""

    content: frozenset[str]
    folded: tuple[str, ...]


@lru_cache(maxsize=8_192)
def _tokenize_card_sentence(sentence: str) -> _SentenceTokens:
    """Cached, because what people say is put together from the sentences of their cards."""
    spoken = tokenize(sentence)
    return _SentenceTokens(spoken.content, spoken.folded)


def fourgrams(folded: tuple[str, ...]) -> frozenset[int]:
    """The 4-grams of folded words, as hashes: only equality within one process is asked of them,
    and integers cost the garbage collector little.
    """
    return frozenset(map(hash, zip(folded, folded[1:], folded[2:], folded[3:], strict=False)))
