"""Hear: a text, sentence by sentence, once: what it is about, what it asks and does, and the runs
of words by which copies are known. Score and speech ask this and nothing else. Knows no card.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, compress, pairwise, repeat
from typing import NamedTuple

import numpy as np

from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.users.embedded.english import (
    ACTS,
    LABELS,
    LEXICON,
    PERSON,
    WORDS,
    classify,
    embed,
    scale,
    weigh_acts,
    word_set,
)
from rlver_gym.util.frozen import Memo

NAME = re.compile(r"[A-Z](?<=[a-z,;:] .)[a-z]{2,}\b")
_MOST_SENTENCES = 40
"""Of an utterance, those that are heard."""
_SURE = 0.5
"""How probable what a sentence does must be to be named."""


def _compile(name: str) -> re.Pattern[str]:
    """A pattern of words.json; "<wh>" in it stands for that of the name "wh"."""
    text = re.sub(r"<(\w+)>", lambda match: WORDS[match[1]], WORDS[name])
    return re.compile(text, re.IGNORECASE)


_ASKS, _RELATIVE, _ABOUT, _SUGGESTS, _QUESTION_WORD, _PREFERS = map(
    _compile, ("asks", "relative", "about", "suggests", "first question word", "prefers")
)
# Sets of words without one of which a pattern does not match.
_MAY_ASK, _MAY_SUGGEST = word_set("may ask"), word_set("may suggest")
_WHOLE = (
    ("threat", _compile("threat"), word_set("may threaten"), word_set("threatens by")),
    ("meta", _compile("begging for points"), word_set("may beg"), word_set("begs for")),
)
_NO_END, _LITTLE, _FOREIGN = map(
    word_set, ("no end", "little words", "little words of other languages")
)


class _Hurt(NamedTuple):
    """What hurts in a plain sentence: one with a word that may hurt, without one that denies it or
    a mark of what is quoted, and short.
    """

    act: str
    pattern: re.Pattern[str]
    triggers: frozenset[str]
    denials: frozenset[str]
    marks: str
    most_words: int

    def is_in(self, sentence: "Sentence") -> bool:
        return (
            len(sentence.words) <= self.most_words
            and not self.triggers.isdisjoint(sentence.words)
            and not (sentence.ask and self.act != "insult")
            and self.denials.isdisjoint(sentence.words)
            and self.pattern.search(sentence.text) is not None
            and not any(mark in sentence.text for mark in self.marks)
        )


_NOT_PLAIN = word_set("not plain")
_HURTS = (
    _Hurt("insult", _compile("insults"), word_set("insulting"), word_set("denies"), '"“”?', 16),
    _Hurt(
        "blame", _compile("plainly blames"), word_set("may blame"), _NOT_PLAIN | {"not"}, '"', 14
    ),
    _Hurt("minimise", _compile("belittles"), word_set("may belittle"), _NOT_PLAIN, '"', 14),
)


class Sentence(NamedTuple):
    """One sentence of an utterance."""

    text: str
    words: tuple[str, ...]
    topics: tuple[int, ...]  # its tokens in order, a repeated one twice
    tokens: frozenset[int]
    runs: tuple[int, ...]  # hashes of its runs of three words, speaker and listener folded
    ask: str = ""  # the question word, "yes" for a yes or no, "about"; "" asks nothing
    suggests: bool = False
    act: str = ""  # what it probably asks or does, of `english.LABELS`; "" for no likely one


class Heard(NamedTuple):
    """A text, heard. A line of the person has no labels, evidence, acts and what follows them."""

    text: str
    sentences: tuple[Sentence, ...]
    words: tuple[str, ...]
    tokens: frozenset[int]
    runs: frozenset[int]
    vectors: np.ndarray  # what each sentence is about, and in the last row the whole
    labels: np.ndarray  # sentences × LABELS: how probably each asks or does it
    evidence: np.ndarray  # sentences × ACTS, in logits; the last act is to hang together badly
    mean: Sequence[float] = ()  # of the sentences' evidence, act by act
    most: Sequence[float] = ()
    acts: frozenset[str] = frozenset()  # insult, threat, meta, foreign, shouts, cut, …
    names: frozenset[str] = frozenset()  # within sentences, in lower case
    functions: int = 0  # how many of its words are too common to say what it is about
    neighbours: Sequence[int] = ()  # what each word is to its neighbours
    strange: Sequence[str] = ()  # words that are none

    @property
    def asks(self) -> bool:
        return any(sentence.ask for sentence in self.sentences)


class _Read(NamedTuple):
    """A sentence, its words looked up: a column each of what is known of them."""

    text: str
    words: tuple[str, ...]
    topics: tuple[int, ...]
    runs: tuple[int, ...]
    rows: tuple[int, ...]
    acts: tuple[str, ...]
    questions: tuple[str, ...]
    neighbours: tuple[int, ...]
    nones: tuple[bool, ...]
    functions: tuple[bool, ...]


def _read(text: str) -> list[_Read]:
    """The sentences of a text that have words."""
    reads = []
    for part in split_sentences(text.replace("’", "'"))[:_MOST_SENTENCES]:
        words = split_words(part)
        if words:
            columns = zip(*[LEXICON[word] for word in words], strict=True)
            words, tokens, folded, *rest = columns  # words of the lexicon: one object each
            runs = tuple(map(hash, zip(folded, folded[1:], folded[2:], strict=False)))
            reads.append(_Read(part, words, tuple(filter(None, tokens)), runs, *rest))
    return reads


def hear(text: str, names: frozenset[str] = frozenset(), *, is_line: bool = False) -> Heard:
    """Hear a text of an agent, or (`is_line`) one of the person, of which nobody asks what it
    does. `names`: those of the story, in lower case.
    """
    return _hear_line(text) if is_line else hear_many([text], [names])[0]


def hear_many(texts: Sequence[str], names: Sequence[frozenset[str]]) -> list[Heard]:
    """Hear texts of agents, each with the names of its story."""
    reads_of = [_read(text) for text in texts]
    spoken = [own for own in reads_of if own]
    if not spoken:
        return [_hear_nothing(text) for text in texts]
    reads = list(chain.from_iterable(spoken))
    starts = list(accumulate([len(own) for own in spoken[:-1]], initial=0))
    names_of = chain.from_iterable(map(repeat, names, map(len, reads_of)))
    labels, evidence = _classify(reads, names_of)
    parts = zip(
        starts,
        np.add.reduceat(evidence, starts).tolist(),
        np.maximum.reduceat(evidence, starts).tolist(),
        _embed(reads, starts),
        strict=True,
    )
    likely = dict(zip(*[at.tolist() for at in np.nonzero(labels >= _SURE)], strict=True))
    heard = []
    for text, own in zip(texts, reads_of, strict=True):
        if not own:
            heard.append(_hear_nothing(text))
            continue
        start, sums, most, vectors = next(parts)
        end = start + len(own)
        sentences = [
            _make_sentence(read, LABELS[likely[at]] if at in likely else "")
            for at, read in enumerate(own, start)
        ]
        words = [word for read in own for word in read.words]
        heard.append(
            Heard(
                text,
                tuple(sentences),
                tuple(words),
                frozenset([token for read in own for token in read.topics]),
                frozenset([run for read in own for run in read.runs]),
                vectors,
                labels[start:end],
                evidence[start:end],
                [value / len(own) for value in sums],
                most,
                _find_acts(text, sentences, words),
                frozenset(map(str.lower, NAME.findall(text))),
                sum([sum(read.functions) for read in own]),
                [unit for read in own for unit in read.neighbours],
                [w for read in own if True in read.nones for w in compress(read.words, read.nones)],
            )
        )
    return heard


def _embed(reads: list[_Read], starts: list[int]) -> list[np.ndarray]:
    """Of each text that begins at these, the vectors of its sentences and of the whole."""
    rows = list(chain.from_iterable([read.rows for read in reads]))
    parts = embed(rows, list(accumulate([len(read.rows) for read in reads[:-1]], initial=0)))
    vectors = scale(np.concatenate([parts, np.add.reduceat(parts, starts)]))
    if len(starts) == 1:
        return [vectors]
    sentences, wholes = vectors[: len(parts)], vectors[len(parts) :, None]
    bounds = pairwise([*starts, len(parts)])
    return [np.concatenate([sentences[a:b], w]) for (a, b), w in zip(bounds, wholes, strict=True)]


def _classify(reads: list[_Read], names: Iterable[frozenset[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Labels and evidence of sentences, between marks of their ends; for the labels names are
    PERSON, several running as one.
    """
    acts: list[str] = []
    questions: list[str] = []
    starts, question_starts, roots = [], [], []
    for read, own_names in zip(reads, names, strict=True):
        is_marked, units = "?" in read.text[-4:], read.questions
        starts.append(len(acts))
        acts += ("^", *read.acts, "?", "$") if is_marked else ("^", *read.acts, ".")
        if not own_names.isdisjoint(read.words):
            pairs = zip(read.words, units, strict=True)
            units = [PERSON if word in own_names else unit for word, unit in pairs]
        if PERSON in units:
            pairs = zip(("", *units), units, strict=False)
            units = [unit for before, unit in pairs if not before == unit == PERSON]
        question_starts.append(len(questions))
        roots.append((len(units) + is_marked) ** 0.5)
        questions += ("<", *units, "?", ">") if is_marked else ("<", *units, ">")
    return classify(questions, question_starts, roots), weigh_acts(acts, starts)


def _make_sentence(read: _Read, act: str = "", *, is_line: bool = False) -> Sentence:
    text, words, topics, runs, *_ = read
    if is_line:
        return Sentence(text, words, topics, frozenset(topics), runs)
    suggests = not _MAY_SUGGEST.isdisjoint(words[:4]) and _SUGGESTS.match(text) is not None
    ask = _find_ask(text, words, suggests=suggests)
    return Sentence(text, words, topics, frozenset(topics), runs, ask, suggests, act)


def _find_ask(text: str, words: Sequence[str], *, suggests: bool) -> str:
    is_marked = "?" in text[-4:]
    if not is_marked and _MAY_ASK.isdisjoint(words[:6]):
        return ""
    if "me" in words and _ABOUT.search(text):
        return "about"
    if not is_marked and (not _ASKS.match(text) or _RELATIVE.match(text)):
        return ""
    if suggests and not asks_preference(text):
        return ""
    word = _QUESTION_WORD.search(text)
    return word.group().lower() if word is not None else "yes"


def asks_preference(text: str) -> bool:
    """Whether a sentence asks what they want of this talk."""
    return _PREFERS.search(text) is not None


def _find_acts(text: str, sentences: Sequence[Sentence], words: list[str]) -> frozenset[str]:
    text, distinct = text.replace("’", "'"), frozenset(words)
    found = [
        hurt.act
        for hurt in _HURTS
        if not hurt.triggers.isdisjoint(distinct) and any(map(hurt.is_in, sentences))
    ]
    found += [
        act
        for act, pattern, *needed in _WHOLE
        if not any(map(distinct.isdisjoint, needed)) and pattern.search(text)
    ]
    if words[-1] in _NO_END and text.rstrip()[-1] not in "…—–?.":
        found.append("cut")
    if not text.isascii():
        letters = [char for char in text if char.isalpha()]
        if sum(map(str.isascii, letters)) < 0.6 * len(letters):
            found.append("foreign")
    if 3 <= len(words) <= 200 and not _FOREIGN.isdisjoint(distinct):
        foreign = sum(map(_FOREIGN.__contains__, words))
        if foreign >= 0.3 * len(words) > sum(map(_LITTLE.__contains__, words)):
            found.append("foreign")
    if len(words) >= 3 and text.isupper():
        found.append("shouts")
    return frozenset(found)


def find_sure_acts(heard: Heard) -> list[dict[str, float]]:
    """How surely each sentence does each act, in [0, 1]; what stands beside it counts as well."""
    odds = (5 * heard.evidence + heard.evidence.mean(0)) / 6
    sure = 1 / (1 + np.exp(-np.clip(odds, -20, 20)))
    rows = [dict(zip(ACTS, row, strict=True)) for row in sure.tolist()]
    return rows if heard.sentences else []


_NO_LABELS = np.zeros((1, len(LABELS)), np.float32)
_NO_EVIDENCE = np.full((1, len(ACTS)), -3.0, np.float32)
_NO_VECTOR = np.zeros((1, 64), np.float32)


def _read_line_sentence(text: str) -> tuple[Sentence, np.ndarray] | None:
    return next(
        ((_make_sentence(read, is_line=True), embed(read.rows, (0,))[0]) for read in _read(text)),
        None,
    )


_LINE_SENTENCES = Memo(_read_line_sentence, 20_000)


def _hear_line(text: str) -> Heard:
    parts = [_LINE_SENTENCES[part] for part in split_sentences(text)[:_MOST_SENTENCES]]
    parts = [part for part in parts if part is not None]
    if not parts:
        return _hear_nothing(text)
    sentences, sums = zip(*parts, strict=True)
    return Heard(
        text,
        sentences,
        tuple([word for sentence in sentences for word in sentence.words]),
        frozenset().union(*[sentence.tokens for sentence in sentences]),
        frozenset().union(*[sentence.runs for sentence in sentences]),
        scale(np.array((*sums, sum(sums)))),
        _NO_LABELS,
        _NO_EVIDENCE,
    )


def _hear_nothing(text: str) -> Heard:
    acts = frozenset(("silence" if not text.strip(" .!?…\n\t") else "foreign",))
    nothing: frozenset[int] = frozenset()
    return Heard(
        text, (), (), nothing, nothing, _NO_VECTOR, _NO_LABELS, _NO_EVIDENCE,
        _NO_EVIDENCE[0].tolist(), _NO_EVIDENCE[0].tolist(), acts,
    )  # fmt: skip
