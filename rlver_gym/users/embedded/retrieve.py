"""Retrieve: which of the card's lines answers a question, fits a guess or a suggestion, or comes
next: one scorer over all that the person can say. Says nothing itself.
"""

from typing import NamedTuple

import numpy as np

from rlver_gym.users.embedded.compile import Card
from rlver_gym.users.embedded.english import (
    DATA,
    FEELING_OF,
    LABEL,
    LABELS,
    RELATIONS,
    SCALE,
)
from rlver_gym.users.embedded.hear import Heard, hear
from rlver_gym.users.embedded.recall import Moment, hash_sentences
from rlver_gym.util.files import load_json
from rlver_gym.util.frozen import Memo, cache_by_identity

_RETRIEVAL: dict = load_json(DATA, "retrieval.json")
FEATURES: tuple[str, ...] = tuple(_RETRIEVAL["weights"])
"""What speaks for a topic: likeness to a way of asking and to a line, the share of what is said that
it has and that it is about, what the sentence probably asks, a feeling named, that it is about
another person; and its kind.
"""
_KINDS = FEATURES[7:]
_WEIGHTS = np.array(list(_RETRIEVAL["weights"].values()))
_NONE, _NONE_FACTUAL = _RETRIEVAL["none"], _RETRIEVAL["none_factual"]
"""The worth of none of the topics, and what more of it a question for a fact has."""
_UNIT = float(SCALE * SCALE)
_UNKNOWN, _BLAND, _CONTEXT = 2.5, 2.5, 0.4
"""Nats of a token that a card does not have; what the person's last line counts beside words that
point back to it.
"""
_POINTING = frozenset("that this it those these he she they him her them his their then there".split())
_FITS, _BEST, _NEAR_BEST = 1.0, 6, 3.0
"""What a line of the sort asked for adds; how many topics are looked at so; how far below the best
another is an answer too.
"""
_SORTS = {
    "when": "time", "how long": "time", "what time": "time", "what year": "time", "how many": "number",
    "how much": "number", "how old": "number", "who": "person", "whose": "person", "whom": "person",
}  # fmt: skip
_TIMES, _NUMBERS, _PEOPLE = (frozenset(_RETRIEVAL[name].split()) for name in ("times", "numbers", "people"))
_PRONOUNS = {"he": "he", "him": "he", "his": "he", "she": "she", "her": "she", "they": "they", "them": "they"}  # fmt: skip


class Query(NamedTuple):
    """What a line is looked for."""

    words: tuple[str, ...]
    tokens: frozenset[int]
    context: frozenset[int]
    """Tokens of the person's last line, where the words point back to it."""
    vector: np.ndarray
    labels: np.ndarray
    """How probably each of LABELS is asked."""
    ask: str
    whom: str


class Layout(NamedTuple):
    """A card's topics as the scorer needs them."""

    label: np.ndarray
    """The column in LABELS by which each is asked for; the one behind the last for none."""
    others: dict[str, np.ndarray]
    """By name, which topics are about somebody else."""
    kinds: np.ndarray
    """By kind of FEATURES, which topics are of it."""
    is_answer: np.ndarray
    feelings: dict[str, int]
    suggestions: np.ndarray
    told: np.ndarray
    """Disclosures and threads, in the card's order."""


@cache_by_identity
def lay_out(card: Card) -> Layout:
    kinds = np.array([topic.kind for topic in card.topics])
    whoms = [topic.whom for topic in card.topics]
    return Layout(
        np.array([LABEL.get(topic.key, len(LABELS)) for topic in card.topics]),
        {
            name: np.array(
                [
                    float(topic.whom not in ("", name) or (topic.is_personal and name != ""))
                    for topic in card.topics
                ]
            )
            for name in {"", *card.pronouns, *whoms}
        },
        np.array([kinds == kind for kind in _KINDS], float),
        np.where(kinds == "suggestion", -1e9, 0.0),
        {topic.key: at for at, topic in enumerate(card.topics) if topic.kind == "feeling"},
        np.flatnonzero(kinds == "suggestion"),
        np.flatnonzero((kinds == "disclosure") | (kinds == "thread")),
    )


def make_query(moment: Moment, heard: Heard, at: int) -> Query:
    """What a sentence of an utterance looks for, or (-1) all of it."""
    said, labels = (heard, _NO_LABELS) if at < 0 else (heard.sentences[at], heard.labels[at])
    points_back = at < 0 or not _POINTING.isdisjoint(said.words)
    context = moment.past.last.tokens - said.tokens if points_back else frozenset()
    ask = "" if at < 0 else heard.sentences[at].ask
    whom = find_whom(moment, said.words)
    return Query(said.words, said.tokens, context, heard.vectors[at], labels, ask, whom)


_NO_LABELS = np.zeros(len(LABELS))


def measure_topics(card: Card, query: Query) -> np.ndarray:
    """FEATURES × topics."""
    layout, size = lay_out(card), len(card.topics)
    found = np.zeros((len(FEATURES), size))
    if len(card.way_owners):
        likes = card.ways @ query.vector
        found[0, card.way_owners] = np.maximum.reduceat(likes, card.way_starts) / _UNIT
    found[1] = np.maximum.reduceat(card.lines @ query.vector, card.line_starts) / _UNIT
    known = card.weight
    for tokens, most in ((query.tokens, 1.0), (query.context, _CONTEXT)):
        total = sum([known.get(token, _UNKNOWN) for token in tokens], _BLAND)
        for token in tokens:
            if token in card.topics_with:
                share = most * known[token] / total
                found[2, card.topics_with[token]] += share
                if token in card.about_index:
                    found[3, card.about_index[token]] += share
    found[4] = (np.log1p(50 * np.append(query.labels, 0.0)) / np.log(51)).take(layout.label)
    for word in query.words:
        at = layout.feelings.get(FEELING_OF.get(word, ""))
        if at is not None:
            found[5, at] = 1.0
    found[6] = layout.others[query.whom]
    found[7:] = layout.kinds
    return found


def score_topics(card: Card, query: Query) -> np.ndarray:
    """How well each topic goes with what was said, in logits; `_NONE` is none of them."""
    return _WEIGHTS @ measure_topics(card, query)


def find_answers(moment: Moment, query: Query) -> list[int]:
    """The topics that answer a question, best first."""
    card = moment.card
    scores = score_topics(card, query) + lay_out(card).is_answer
    sort = _SORTS.get(query.ask, "")
    least = _NONE + (_NONE_FACTUAL if sort else 0.0)
    found = []
    for at in np.argpartition(scores, -min(_BEST, len(scores)))[-_BEST:].tolist():
        score = float(scores[at])
        if sort:
            fits = any(is_of_sort(moment, line, sort) for line in card.topics[at].lines)
            score += _FITS if fits else -_FITS
        if score >= least:
            found.append((-score, at))
    found.sort()
    return [at for score, at in found if score <= found[0][0] + _NEAR_BEST]


def find_suggestion(moment: Moment, query: Query) -> int | None:
    """The topic in which the person speaks of what is suggested."""
    card = moment.card
    places = lay_out(card).suggestions
    if not len(places):
        return None
    found = measure_topics(card, query)[:, places]
    worth = found[0] + found[2]
    best = int(worth.argmax())
    return int(places[best]) if worth[best] >= _SUGGESTED else None


_SUGGESTED = 1.1
"""Likeness to a way of suggesting it and the share of words, from where they mean the same."""


def is_of_sort(moment: Moment, line: str, sort: str) -> bool:
    """Whether a line has a time, a number or a person in it, as was asked."""
    words = read_line(line).words
    if sort == "person":
        return not words.isdisjoint(moment.card.people) or not words.isdisjoint(RELATIONS | _PEOPLE)
    return not words.isdisjoint(_TIMES if sort == "time" else _NUMBERS) or any(
        word.isdigit() for word in words
    )


def find_whom(moment: Moment, words: tuple[str, ...]) -> str:
    """Who of the story is meant: by name, by relation, or by a pronoun for the last one named."""
    card = moment.card
    for word in reversed(words):
        if word in card.people:
            return card.people[word]
    spoken = {_PRONOUNS[word] for word in words if word in _PRONOUNS}
    if not spoken:
        return ""
    for word in (*reversed(moment.heard.words), *reversed(moment.past.last.words)):
        name = card.people.get(word)
        if name is not None and card.pronouns[name] in spoken:
            return name
    alone = [name for name, pronoun in card.pronouns.items() if pronoun in spoken]
    return alone[0] if len(alone) == 1 else ""


class ReadLine(NamedTuple):
    """A line of a card, ready to be known again."""

    words: frozenset[str]
    tokens: frozenset[int]
    runs: frozenset[int]
    sentences: frozenset[int]


def _read_line(text: str) -> ReadLine:
    line = hear(text, is_line=True)
    return ReadLine(frozenset(line.words), line.tokens, line.runs, hash_sentences(line))


read_line = Memo(_read_line, 30_000).__getitem__


def was_said(moment: Moment, line: str) -> bool:
    """Whether the person said a line, or most of it."""
    read = read_line(line)
    if not read.sentences.isdisjoint(moment.past.lines):
        return True
    return len(read.runs) >= 3 and len(read.runs & moment.past.told_runs) >= 0.6 * len(read.runs)
