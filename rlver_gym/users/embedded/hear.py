"""Hear: what a text is about, asks and does, once, for score and speech. Knows no card."""

import re
from collections.abc import Sequence
from itertools import accumulate, chain, compress, pairwise
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.users.embedded import english
from rlver_gym.users.embedded.english import ACTS, LABELS, LEXICON, PERSON, WORDS, word_set
from rlver_gym.util.frozen import Memo

NAME = re.compile(r"[A-Z](?<=[a-z,;:] .)[a-z]{2,}\b")
_MOST_SENTENCES = 40  # of a text, those that are heard
_SURE = 0.5  # how probable what a sentence does must be to be named


def _compile(name: str) -> re.Pattern[str]:
    """A pattern of words.json; "<wh>" in it stands for that of the name "wh"."""
    text = re.sub(r"<(\w+)>", lambda match: WORDS[match[1]], WORDS[name])
    return re.compile(text, re.IGNORECASE)


_ASKS, _RELATIVE, _ABOUT, _SUGGESTS, _QUESTION_WORD, PREFERS = map(
    _compile, ("asks", "relative", "about", "suggests", "first question word", "prefers")
)  # the last asks what they want of this talk
# Sets of words without one of which a pattern does not match.
_MAY_ASK, _MAY_SUGGEST = word_set("may ask"), word_set("may suggest")
_WHOLE = (
    ("threat", _compile("threat"), word_set("may threaten"), word_set("threatens by")),
    ("meta", _compile("begging for points"), word_set("may beg"), word_set("begs for")),
)
_NOT_PLAIN = word_set("not plain")
_NOT_BLAMING, _SAFE = word_set("not plain", "denies blame"), word_set("denies self-harm")
_HURTS = (  # a pattern, words of which it needs one, that deny it, marks of quotes, most words
    ("insult", _compile("insults"), word_set("insulting"), word_set("denies"), '"“”?', 16),
    ("blame", _compile("plainly blames"), word_set("may blame"), _NOT_BLAMING, '"', 14),
    ("minimise", _compile("belittles"), word_set("may belittle"), _NOT_PLAIN, '"', 14),
    ("self_harm", _compile("urges self-harm"), word_set("may urge self-harm"), _SAFE, '"', 24),
)
_NO_END, _LITTLE = word_set("no end"), word_set("little words")
_FOREIGN = word_set("little words of other languages")
_NO_VECTOR = np.zeros((1, 64), np.float32)
_NO_LABELS = np.zeros((1, len(LABELS)), np.float32)
_NO_EVIDENCE = np.full((1, len(ACTS)), -3.0, np.float32)


class Sentence(NamedTuple):
    """A sentence, its words looked up."""

    text: str
    words: tuple[str, ...]
    topics: tuple[int, ...]  # its tokens in order, a repeated one twice
    tokens: frozenset[int]
    runs: tuple[int, ...]  # hashes of its runs of three words, speaker and listener folded
    neighbours: tuple[int, ...]  # what each word is to its neighbours
    strange: tuple[str, ...]  # words that are none
    functions: int  # how many words are too common to say what it is about
    ask: str = ""  # the question word, "yes" for a yes or no, "about"; "" asks nothing
    suggests: bool = False
    act: str = ""  # what it probably asks or does, of `english.LABELS`; "" for no likely one


class Heard(NamedTuple):
    """A text, heard; a line of the person without labels and what follows them."""

    text: str
    sentences: tuple[Sentence, ...]
    words: tuple[str, ...]
    tokens: frozenset[int]
    runs: frozenset[int]
    vectors: np.ndarray  # what each sentence is about, and in the last row the whole
    labels: np.ndarray = _NO_LABELS  # sentences × LABELS: how probably each asks or does it
    evidence: np.ndarray = _NO_EVIDENCE  # sentences × ACTS, in logits; the last is to be broken
    acts: frozenset[str] = frozenset()  # insult, threat, meta, foreign, shouts, cut, …
    names: frozenset[str] = frozenset()  # within sentences, in lower case


class _Read(NamedTuple):
    """A sentence, and what its words are in the table of vectors and to the classifiers."""

    sentence: Sentence
    rows: tuple[int, ...]
    acts: tuple[int, ...]
    questions: tuple[int, ...]


def _read(text: str, *, is_line: bool = False) -> list[_Read]:
    """The sentences of a text that have words; of a line of the person without what they ask."""
    reads = []
    for part in split_sentences(text.replace("’", "'"))[:_MOST_SENTENCES]:
        words = split_words(part)
        if words:
            columns = zip(*[LEXICON[word] for word in words], strict=True)  # one object each
            words, tokens, folded, rows, acts, asks, neighbours, nones, functions, _ = columns
            topics, size = tuple(filter(None, tokens)), sum(functions)
            runs = tuple(map(hash, zip(folded, folded[1:], folded[2:], strict=False)))
            strange = tuple(compress(words, nones)) if True in nones else ()
            about = topics, frozenset(topics), runs, neighbours, strange, size
            ask = ("", False) if is_line else _find_ask(part, words)
            reads.append(_Read(Sentence(part, words, *about, *ask), rows, acts, asks))
    return reads


def _find_ask(text: str, words: Sequence[str]) -> tuple[str, bool]:
    """What a sentence asks for, and whether it suggests: see `Sentence`."""
    is_marked = "?" in text[-4:]
    suggests = not _MAY_SUGGEST.isdisjoint(words[:4]) and _SUGGESTS.match(text) is not None
    if not is_marked and _MAY_ASK.isdisjoint(words[:6]):
        return "", suggests
    if "me" in words and _ABOUT.search(text):
        return "about", suggests
    is_question = is_marked or (_ASKS.match(text) and not _RELATIVE.match(text))
    if not is_question or (suggests and not PREFERS.search(text)):
        return "", suggests
    word = _QUESTION_WORD.search(text)
    return word.group().lower() if word is not None else "yes", suggests


class Piece(NamedTuple):
    """A sentence of a line of the person, shared by all lines that have it; vectors are rows."""

    sentence: Sentence
    sum: np.ndarray  # of the vectors of its words
    vector: np.ndarray


def _make_piece(text: str) -> Piece:
    [sentence] = _SENTENCES[text]
    sums = english.embed([LEXICON[word].row for word in sentence.words], (0,))
    return Piece(sentence, sums, english.scale_vectors(sums))


_SENTENCES = Memo[str, Any](lambda text: [r.sentence for r in _read(text, is_line=True)], 20_000)
_PIECES = Memo(_make_piece, 20_000)


def read_line(text: str) -> Heard:
    """A line of the person, without its vectors."""
    parts = split_sentences(text)[:_MOST_SENTENCES]
    return _join(text, [sentence for part in parts for sentence in _SENTENCES[part]], _NO_VECTOR)


def split_line(text: str) -> tuple[Piece, ...]:
    """What a line of the person says, sentence by sentence."""
    return tuple([_PIECES[sentence.text] for sentence in read_line(text).sentences])


def join_pieces(text: str, pieces: Sequence[Piece]) -> Heard:
    """The line, heard."""
    total = sum([piece.sum for piece in pieces], _NO_VECTOR)
    vectors = np.concatenate([*[piece.vector for piece in pieces], english.scale_vectors(total)])
    return _join(text, [piece.sentence for piece in pieces], vectors)


def _join(text: str, sentences: Sequence[Sentence], *more: Any) -> Heard:
    words = [word for sentence in sentences for word in sentence.words]
    tokens = [token for sentence in sentences for token in sentence.topics]
    runs = [run for sentence in sentences for run in sentence.runs]
    return Heard(text, tuple(sentences), tuple(words), frozenset(tokens), frozenset(runs), *more)


def hear(text: str, names: frozenset[str] = frozenset()) -> Heard:
    """Hear a text of an agent. `names`: those of the story, in lower case."""
    return hear_many([text], [names])[0]


def hear_many(texts: Sequence[str], names: Sequence[frozenset[str]]) -> list[Heard]:
    """Hear texts of agents, each with the names of its story."""
    reads_of = [_read(text) for text in texts]
    reads = list(chain.from_iterable(reads_of))
    if not reads:
        return list(map(_hear_nothing, texts))
    starts = list(accumulate([len(own) for own in reads_of if own][:-1], initial=0))
    names_of = [own for own, read in zip(names, reads_of, strict=True) for _ in read]
    labels, evidence = _classify(reads, names_of)
    parts = zip(starts, _embed(reads, starts), strict=True)
    likely = dict(zip(*[at.tolist() for at in np.nonzero(labels >= _SURE)], strict=True))
    heard = []
    for text, own in zip(texts, reads_of, strict=True):
        if not own:
            heard.append(_hear_nothing(text))
            continue
        start, vectors = next(parts)
        end, named = start + len(own), frozenset(map(str.lower, NAME.findall(text)))
        sentences = [
            read.sentence._replace(act=LABELS[likely[at]]) if at in likely else read.sentence
            for at, read in enumerate(own, start)
        ]
        about = vectors, labels[start:end], evidence[start:end], _find_acts(text, sentences), named
        heard.append(_join(text, sentences, *about))
    return heard


def _hear_nothing(text: str) -> Heard:
    act = "silence" if not text.strip(" .!?…\n\t") else "foreign"
    return join_pieces(text, ())._replace(acts=frozenset([act]))


def _embed(reads: list[_Read], starts: list[int]) -> list[np.ndarray]:
    """Of each text that begins at these, the vectors of its sentences and of the whole."""
    rows = list(chain.from_iterable([read.rows for read in reads]))
    ends = accumulate([len(read.rows) for read in reads[:-1]], initial=0)
    parts = english.embed(rows, list(ends))
    vectors = english.scale_vectors(np.concatenate([parts, np.add.reduceat(parts, starts)]))
    sentences, wholes = vectors[: len(parts)], vectors[len(parts) :, None]
    bounds = pairwise([*starts, len(parts)])
    return [np.concatenate([sentences[a:b], w]) for (a, b), w in zip(bounds, wholes, strict=True)]


def _classify(reads: list[_Read], names: list[frozenset[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Labels and evidence of sentences; for labels names are PERSON, several running as one."""
    tables = english.load_tables()
    begin, end, stop, ask = [tables.acts.number.get(mark, 0) for mark in "^$.?"]
    first, last, mark, person = map(tables.questions.number.__getitem__, ("<", ">", "?", PERSON))
    acts: list[int] = []
    questions: list[int] = []
    starts, question_starts, roots = [], [], []
    for (sentence, _, own_acts, units), own_names in zip(reads, names, strict=True):
        is_marked = "?" in sentence.text[-4:]
        starts.append(len(acts))
        acts += (begin, *own_acts, ask, end) if is_marked else (begin, *own_acts, stop)
        if not own_names.isdisjoint(sentence.words):
            pairs = zip(sentence.words, units, strict=True)
            units = [person if word in own_names else unit for word, unit in pairs]
        if person in units:
            pairs = zip((0, *units), units, strict=False)
            units = [unit for before, unit in pairs if not before == unit == person]
        question_starts.append(len(questions))
        roots.append((len(units) + is_marked) ** 0.5)
        questions += (first, *units, mark, last) if is_marked else (first, *units, last)
    evidence = (tables.acts.add_up(acts, starts) + tables.acts.bias) / 100
    return english.classify(questions, question_starts, roots), evidence


def _find_acts(text: str, sentences: Sequence[Sentence]) -> frozenset[str]:
    """What is plainly done: an act of `_HURTS` or `_WHOLE`, cut, foreign or shouts."""
    words, acts = [word for sentence in sentences for word in sentence.words], []
    text, distinct = text.replace("’", "'"), frozenset(words)
    for act, pattern, triggers, denials, marks, most in _HURTS:
        for part in () if triggers.isdisjoint(distinct) else sentences:
            if (
                len(part.words) <= most
                and not triggers.isdisjoint(part.words)
                and denials.isdisjoint(part.words)
                and (act == "insult" or not part.ask)
                and pattern.search(part.text)
                and not any(mark in part.text for mark in marks)
            ):
                acts.append(act)
    for act, pattern, *needed in _WHOLE:
        if not any(map(distinct.isdisjoint, needed)) and pattern.search(text):
            acts.append(act)
    if words[-1] in _NO_END and text.rstrip()[-1] not in "…—–?.":
        acts.append("cut")
    letters = [] if text.isascii() else [char for char in text if char.isalpha()]
    if sum(map(str.isascii, letters)) < 0.6 * len(letters):
        acts.append("foreign")
    foreign, little = (sum(map(own.__contains__, words)) for own in (_FOREIGN, _LITTLE))
    if 3 <= len(words) <= 200 and foreign >= 0.3 * len(words) > little:
        acts.append("foreign")
    if len(words) >= 3 and text.isupper():
        acts.append("shouts")
    return frozenset(acts)
