"""Hear: a text word by word and sentence by sentence: what it is about, what its sentences do, the
runs of words by which copies are found. A pure function of the text; knows no card.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain, repeat
from math import log
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.core.words import FUNCTION_WORDS, split_sentences, split_words, stem
from rlver_gym.users.embedded.hearing.act_classifier import is_incoherent, load_act_classifier
from rlver_gym.users.embedded.hearing.lexicon import Phrase, load_lexicon
from rlver_gym.users.embedded.hearing.tokens import PRONOUNS, YOU, token_of
from rlver_gym.users.embedded.hearing.utterance_parser import Utterance, parse_utterance
from rlver_gym.users.embedded.hearing.vectors import embed_parts, find_row
from rlver_gym.util.files import load_json
from rlver_gym.util.frozen import Memo

_FOLDED = {
    **dict.fromkeys(("i", "me", "we", "us", "you", "myself", "ourselves", "yourself"), "you"),
    **dict.fromkeys(("my", "our", "your", "mine", "ours", "yours"), "your"),
    **dict.fromkeys(("am", "is", "are"), "are"),
    **dict.fromkeys(("was", "were"), "were"),
}
"""Speaker and listener folded: "we had our list" given back is "you had your list"."""
_NOBODY = PRONOUNS | {YOU, ""}
_ASKING = frozenset("what how which where when who why".split())
_OPEN_ENDED = frozenset("the a an my your our their and or but because".split())
"""Words with which no sentence ends."""
_LONG = 40
"""Words that one says in one breath."""
_SHORT = 6
_CLEAR = 0.5
"""An act done as surely as this is done; a phrase does its act at least so surely."""
_RAREST = 200
"""Of a word in one or two situations, and of one in none: the words of a story that nobody has met
weigh as much as those of one that all have.
"""
_SLIP = 30


@lru_cache(maxsize=1)
def _load_token_weights() -> dict[str, int]:
    """Of tokens, log(situations / those in which supporters use it), in hundredths of a nat."""
    data = load_json("rlver_gym.users.embedded.hearing", "spread.json")
    return {
        token: min(_RAREST, round(100 * log(data["situations"] / int(count))))
        for count, tokens in data["spread"].items()
        for token in tokens.split()
    }


def sum_weights(tokens: frozenset[str], unknown: int = _RAREST) -> int:
    """How much tokens say about which story they belong to, in hundredths of a nat: whole numbers,
    so that their order does not matter.
    """
    return sum(map(_load_token_weights().get, tokens, repeat(unknown))) if tokens else 0


def sum_foreign_story_weights(tokens: frozenset[str]) -> int:
    """The same of tokens of no story: one that nobody ever used may be a slip of the finger or a
    figure of speech, and proves little.
    """
    return sum_weights(tokens, _SLIP)


class _Word(NamedTuple):
    """All that is ever asked of a word, worked out once."""

    stem: str
    token: str
    """What it is about; empty for a word that says nothing about a matter."""
    folded: str
    row: int
    """In the table of word vectors; -1 for a word that it has not."""
    phrases: tuple[Phrase, ...]
    is_function: bool
    unigram: int
    """The row of its weights in the act classifier."""
    bigrams: dict[str, int]
    """Those of the stems that may follow."""


def _compile_word(word: str) -> _Word:
    token, root, ear = token_of(word), stem(word), load_act_classifier()
    return _Word(
        root,
        "" if token in _NOBODY else token,
        _FOLDED.get(word, word),
        find_row(word),
        load_lexicon().phrases(root),
        word in FUNCTION_WORDS,
        ear.get_unigram(root),
        ear.get_bigrams(root),
    )


_WORDS = Memo(_compile_word, 50_000)


class LineFeatures(NamedTuple):
    """A text, word by word."""

    words: tuple[str, ...]
    tokens: frozenset[str]
    """What it is about."""
    runs: frozenset[int]
    """Its runs of three words, speaker and listener folded, by hash."""
    raw: frozenset[int]
    """The same as they stand."""
    vectors: np.ndarray
    """What each sentence is about, and in the last row the whole."""
    asks: bool
    functions: int
    """How many of its words only hold others together."""


class SentenceFeatures(NamedTuple):
    """One sentence of an utterance."""

    text: str
    words: tuple[str, ...]
    stems: tuple[str, ...]
    tokens: frozenset[str]
    runs: tuple[int, ...]
    """In order."""
    acts: dict[str, float]
    """How surely it does each act, in (0.05, 1]."""
    phrases: dict[str, str]
    """The acts that a phrase of the lexicon does, each with its stems."""
    is_fluent: bool
    """Whether it reads like language rather than a string of keywords."""
    is_broken: bool
    """Whether its words do not hang together."""
    is_cut: bool
    """Whether it stops in the middle."""

    @property
    def clear_acts(self) -> list[str]:
        return [act for act, share in self.acts.items() if share >= _CLEAR]


class UtteranceFeatures(NamedTuple):
    """An utterance, apart from any person."""

    listened: Utterance
    line: LineFeatures
    pieces: tuple[SentenceFeatures, ...]
    acts: dict[str, tuple[float, str]]
    """How surely the whole does each act, with the sentence that does it most."""
    logits: dict[str, float]
    """The evidence for each act, the mean over its sentences."""
    said: frozenset[str]
    """Its sentences of more than two words, to be known again."""


class _Columns(NamedTuple):
    """What is known of each word of a text, and where its sentences begin."""

    words: tuple[str, ...]
    stems: tuple[str, ...]
    tokens: tuple[str, ...]
    rows: tuple[int, ...]
    phrases: tuple[tuple[Phrase, ...], ...]
    functions: tuple[bool, ...]
    unigrams: tuple[int, ...]
    bigrams: tuple[dict[str, int], ...]
    runs: tuple[int, ...]
    """By hash, each run of three words at its first; the last two words begin none."""
    bounds: list[int]
    """One more than there are sentences."""


def _look_up_words(each: Sequence[tuple[str, ...]]) -> _Columns | None:
    words = tuple(chain.from_iterable(each))
    if not words:
        return None
    stems, tokens, folded, rows, phrases, functions, unigrams, bigrams = zip(
        *map(_WORDS.__getitem__, words), strict=True
    )
    bounds = [0, *accumulate(map(len, each))]
    return _Columns(
        words,
        stems,
        tokens,
        rows,
        phrases,
        functions,
        unigrams,
        bigrams,
        _hash_trigrams(folded),
        bounds,
    )


def _hash_trigrams(words: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(map(hash, zip(words, words[1:], words[2:], strict=False)))


@lru_cache(maxsize=512)
def extract_line_features(text: str) -> LineFeatures:
    """A line of a person; kept, because lines come again."""
    each = [words for one in split_sentences(text) if (words := split_words(one))]
    return _build_line_features(_look_up_words(each), "?" in text)


def _build_line_features(columns: _Columns | None, asks: bool) -> LineFeatures:
    if columns is None:
        return LineFeatures((), _NOTHING, _NOTHING, _NOTHING, embed_parts((), ()), asks, 0)
    return LineFeatures(
        columns.words,
        frozenset(columns.tokens) - _NONE,
        frozenset(columns.runs),
        frozenset(_hash_trigrams(columns.words)),
        embed_parts(columns.rows, columns.bounds[:-1]),
        asks,
        sum(columns.functions),
    )


_NOTHING: frozenset[Any] = frozenset()
_NONE = frozenset({""})


@lru_cache(maxsize=256)
def extract_utterance_features(text: str) -> UtteranceFeatures:
    """Hear an utterance. Kept for a moment, because the next turn looks back at it; few are: what
    is kept has to be walked by the garbage collector.
    """
    listened, ear = parse_utterance(text), load_act_classifier()
    sentences = listened.sentences
    each = [one.words for one in sentences]
    columns = _look_up_words(each)
    line = _build_line_features(columns, "?" in text)
    if columns is None:
        return UtteranceFeatures(listened, line, (), {}, {}, _NOTHING)
    rows: list[int] = []
    starts = []
    for one, start, end in zip(sentences, columns.bounds, columns.bounds[1:], strict=False):
        starts.append(len(rows))
        rows += ear.find_rows(
            columns.stems[start:end],
            columns.unigrams[start:end],
            columns.bigrams[start:end],
            "?" if "?" in one.text[-4:] else ".",
        )
    evidence = ear.sum_evidence(rows, starts)
    pieces = tuple(
        [
            _extract_sentence_features(one.text, one.words, columns, start, incoherent)
            for one, start, incoherent in zip(
                sentences, columns.bounds, is_incoherent(evidence), strict=False
            )
        ]
    )
    fluent = evidence[[piece.is_fluent for piece in pieces]]
    sure = iter(ear.act_probabilities(fluent))
    acts: dict[str, tuple[float, float, str]] = {}
    for piece in pieces:
        if piece.is_fluent:
            piece.acts.update(next(sure, {}))
        for act in piece.phrases:
            least = _CLEAR if act in ear.acts else 1.0
            piece.acts[act] = max(least, piece.acts.get(act, 0.0))
        for act, share in piece.acts.items():
            left, most, best = acts.get(act, (1.0, 0.0, ""))
            best = piece.text if share > most else best
            acts[act] = left * (1 - share), max(share, most), best
    return UtteranceFeatures(
        listened,
        line,
        pieces,
        {act: (1 - left, best) for act, (left, _, best) in acts.items()},
        ear.mean_logits(fluent),
        frozenset([" ".join(one) for one in each if len(one) > 2]),
    )


def _extract_sentence_features(
    text: str, words: tuple[str, ...], columns: _Columns, start: int, is_incoherent: bool
) -> SentenceFeatures:
    count = len(words)
    end = start + count
    stems, phrases = columns.stems[start:end], columns.phrases[start:end]
    is_broken = count >= _SHORT and is_incoherent
    found = load_lexicon().acts(stems, phrases) if any(phrases) else {}
    if "?" in text[-4:] and not _ASKING.isdisjoint(words):
        found["open_question"] = "?"
    is_fluent = not is_broken and (
        count < 4
        or (
            4 * sum(columns.functions[start:end]) >= count
            and (count <= _LONG or count <= _LONG * (1 + _count_pause_marks(text)))
        )
    )
    is_cut = count > 2 and words[-1] in _OPEN_ENDED and text[-1] not in "…—–?" and "..." not in text
    about = frozenset(columns.tokens[start:end]) - _NONE
    runs = columns.runs[start : max(start, end - 2)]
    return SentenceFeatures(
        text, words, stems, about, runs, {}, found, is_fluent, is_broken, is_cut
    )


def _count_pause_marks(text: str) -> int:
    return sum(map(text.count, ",;:–—-("))
