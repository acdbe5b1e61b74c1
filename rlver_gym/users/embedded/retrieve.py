"""Retrieve: which of the card's lines answers a question, takes up a suggestion or a guess, or comes
next: one scorer over all that the person can say.
"""

import math
from typing import NamedTuple

import numpy as np

from rlver_gym.users.embedded.compile import Card
from rlver_gym.users.embedded.english import FEELING_OF, LABELS, SCALE
from rlver_gym.users.embedded.hear import Sentence, hear
from rlver_gym.users.embedded.recall import Moment, hash_sentences
from rlver_gym.util.frozen import Memo

_UNIT = float(SCALE * SCALE)
_UNKNOWN = 2.5
"""Nats of a token that a card does not have."""
_PHRASE, _COVERED, _ABOUT, _WAY, _LINE, _ASKS, _IS_FACT, _NOBODY = (
    5.9,
    2.9,
    2.2,
    4.5,
    2.1,
    4.0,
    4.4,
    16.5,
)
"""Weights in nats of a softmax over topics and "none of them"."""
_LEAST = -1.9
"""The logarithm of a probability from which a line is an answer."""
_FACTUAL = frozenset("who when where how many long old much".split())
_FEELING, _THREAD = math.log(0.35), math.log(0.2)
_SHARED, _ALIKE = 0.12, 1.2
"""What a nat of shared words and likeness add among lines for the same."""
_NO_TALK = frozenset(
    """advise belittle blame bye check cliche confide encourage explain greet insult joke listen machine
    motive offtopic permit praise reassure reflect reframe retell side sorry sympathy thanks
    validate happened more hear_me""".split()
)
"""Labels for which no card has lines of its own."""
_PRONOUNS = {"he": "he", "him": "he", "his": "he", "she": "she", "her": "she", "they": "they", "them": "they"}  # fmt: skip


class Candidate(NamedTuple):
    """A topic that may answer, and how probably (logarithm)."""

    score: float
    topic: int
    line: int
    """The best of its lines."""


def weigh_tokens(card: Card, tokens: frozenset[int]) -> float:
    get = card.weight.get
    return math.fsum([get(token, _UNKNOWN) for token in tokens])


def find_whom(moment: Moment, words: tuple[str, ...]) -> str:
    """Who of the story is meant: by name, by relation, or by a pronoun for the last one named."""
    card = moment.card
    for word in reversed(words):
        if word in card.people:
            return card.people[word]
    spoken = {_PRONOUNS[word] for word in words if word in _PRONOUNS}
    if not spoken:
        return ""
    lines = (*reversed(moment.heard.words), *reversed(moment.past.last.words))
    for word in lines:
        name = card.people.get(word)
        if name is not None and card.pronouns[name] in spoken:
            return name
    alone = [name for name, pronoun in card.pronouns.items() if pronoun in spoken]
    return alone[0] if len(alone) == 1 else ""


def rank_answers(moment: Moment, at: int) -> list[Candidate]:
    """What may answer the sentence at a place, best first."""
    card, sentence = moment.card, moment.heard.sentences[at]
    whom, vector = find_whom(moment, sentence.words), moment.heard.vectors[at]
    line_like = card.lines @ vector / _UNIT
    shares, none = _weigh_facts(card, sentence, whom, vector, line_like)
    found: list[Candidate] = []
    factual = (1 - none) * (sentence.ask.split()[-1] in _FACTUAL)
    for topic in np.argsort(-shares, kind="stable")[:4].tolist():
        if none <= 0.35:
            score = math.log(float(shares[topic]) + 1e-9)
            if score >= _LEAST:
                found.append(Candidate(score, topic, 0))
    if found:
        factual -= math.log(max(1 - math.exp(found[0].score), 0.1))
    row = moment.heard.labels[at]
    for label in row.argsort()[::-1][:5].tolist():
        name, share = LABELS[label], float(row[label])
        if name in _NO_TALK or share <= 0.02 or (name == "safe" and share < 0.7):
            continue
        kind = "person" if name.startswith("p_") else "inquiry"
        topic = card.by_key.get((kind, name, whom if kind == "person" else ""))
        if topic is None and name == "p_who" and whom:
            topic = card.by_key.get(("background", whom, whom))
        if topic is not None:
            base = math.log(share) - factual
            found.append(_best_line(card, sentence, line_like, topic, base))
    for word in sentence.words:
        topic = card.by_key.get(("feeling", FEELING_OF.get(word, ""), ""))
        if topic is not None:
            found.append(_best_line(card, sentence, line_like, topic, _FEELING))
    near = [card.about_index[token] for token in sentence.tokens if token in card.about_index]
    for topic in np.unique(np.concatenate(near)).tolist() if near else ():
        if card.topics[topic].kind == "thread":
            found.append(_best_line(card, sentence, line_like, topic, _THREAD - factual))
    return sorted([one for one in found if one.score >= _LEAST], key=lambda one: -one.score)


def _weigh_facts(
    card: Card, sentence: Sentence, whom: str, vector: np.ndarray, line_like: np.ndarray
) -> tuple[np.ndarray, float]:
    """How probable each topic is what was asked for, and that none is."""
    size = len(card.topics)
    phrase, covered, about, way_like = np.zeros(len(card.way_sizes)), *np.zeros((3, size))
    for word in frozenset(sentence.words):
        ways = card.way_index.get(word)
        if ways is not None:
            phrase[ways] += 1.0
    total = weigh_tokens(card, sentence.tokens) or 1.0
    for token in sentence.tokens:
        if token in card.topics_with:
            covered[card.topics_with[token]] += card.weight[token] / total
        if token in card.about_index:
            about[card.about_index[token]] += card.weight[token] / total
    found = _COVERED * covered + _ABOUT * about + _IS_FACT * card.is_fact
    found += _LINE * np.maximum.reduceat(line_like, card.line_starts)
    if len(card.way_owners):
        phrase /= card.way_sizes * math.sqrt(max(1, len(frozenset(sentence.words))))
        value = _PHRASE * phrase + _WAY * (card.ways @ vector) / _UNIT
        way_like[card.way_owners] = np.maximum.reduceat(value, card.way_starts)
        found += way_like
    if sentence.ask in card.asks:
        found += _ASKS * card.asks[sentence.ask]
    if whom:
        found -= [1.0 if one.whom not in ("", whom) else 0.0 for one in card.topics]
    found[[one.kind not in ("fact", "disclosure", "background") for one in card.topics]] = -9.0
    top = max(float(found.max()), _NOBODY)
    shares, rest = np.exp(found - top), math.exp(_NOBODY - top)
    whole = float(shares.sum()) + rest
    return shares / whole, rest / whole


def _best_line(
    card: Card, sentence: Sentence, line_like: np.ndarray, topic: int, base: float
) -> Candidate:
    start, lines = int(card.line_starts[topic]), card.topics[topic].lines
    worth = [
        _SHARED * min(5.0, weigh_tokens(card, sentence.tokens & read_line(line).tokens))
        + _ALIKE * float(line_like[start + at])
        for at, line in enumerate(lines)
    ]
    best = max(range(len(lines)), key=worth.__getitem__)
    return Candidate(base + worth[best] * (base < 0), topic, best)


def find_suggestion(moment: Moment, at: int) -> int | None:
    """The topic in which the person speaks of what a sentence suggests."""
    card, sentence = moment.card, moment.heard.sentences[at]
    best, found = 0.62, None
    like = card.ways @ moment.heard.vectors[at] / _UNIT
    place = 0
    for number, topic in enumerate(card.topics):
        count = min(len(topic.ways), 8)
        if topic.kind == "suggestion":
            for way in range(count):
                named = read_line(topic.ways[way]).tokens
                shared = named & sentence.tokens
                share = weigh_tokens(card, shared) / (weigh_tokens(card, named) or 1.0)
                value = 0.7 * share + 0.5 * float(like[place + way])
                if value > best and (len(shared) >= 2 or share > 0.9):
                    best, found = value, number
        place += count
    return found


class ReadLine(NamedTuple):
    """A line of a card, ready to be known again."""

    tokens: frozenset[int]
    runs: frozenset[int]
    sentences: frozenset[int]


def _read_line(text: str) -> ReadLine:
    line = hear(text, is_line=True)
    return ReadLine(line.tokens, line.runs, hash_sentences(line))


read_line = Memo(_read_line, 30_000).__getitem__


def was_said(moment: Moment, line: str) -> bool:
    """Whether the person said a line, or most of it."""
    read = read_line(line)
    if not read.sentences.isdisjoint(moment.past.lines):
        return True
    return len(read.runs) >= 3 and len(read.runs & moment.past.told_runs) >= 0.6 * len(read.runs)
