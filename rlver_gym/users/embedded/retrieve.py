"""Retrieve: how well each of the card's topics goes with what was said, for questions, suggestions
and what comes next: one scorer; and whether a line was said before. Says nothing itself.
"""

from typing import NamedTuple

import numpy as np

from rlver_gym.users.embedded.compile import Card
from rlver_gym.users.embedded.english import DATA, LABEL, SCALE
from rlver_gym.users.embedded.hear import Heard, hear
from rlver_gym.users.embedded.recall import Moment, hash_sentences
from rlver_gym.util.files import load_json
from rlver_gym.util.frozen import Memo, cache_by_identity

_DATA: dict = load_json(DATA, "retrieval.json")
WEIGHTS: dict[str, float] = _DATA["weights"]
"""What speaks for a topic, in logits: likeness to a way of asking and to a line, the share of what
was said that it has and is about, what is probably asked, that it is about another, and its kind.
"""
_UNIT = float(SCALE * SCALE)
_UNKNOWN, _BLAND, _CONTEXT = 2.5, 2.5, 1.0
"""Nats of a token that a card does not have, and of what is added, so that one token is not all;
what the person's last line counts beside words that point back to it.
"""
_BEST, _NEAR_BEST = 6, 3.0
"""How many topics answer at most, and how far below the best."""
_POINTING = frozenset(_DATA["pointing"].split())
FACTUAL, _TIMES = frozenset(_DATA["factual"].split(",")), frozenset(_DATA["times"].split())
_PRONOUNS: dict[str, str] = _DATA["pronouns"]


class Layout(NamedTuple):
    """A card's topics as the scorer needs them."""

    bias: dict[str, np.ndarray]
    """By who is spoken of, what each topic has from its kind and from being about another."""
    asked: np.ndarray
    """The topics that a label asks for, and below them the label's column."""
    of_words: np.ndarray
    """Of each way of asking, one by the root of how many words it has."""
    is_suggestion: np.ndarray
    told: np.ndarray
    """Disclosures and threads, in the card's order."""
    is_thread: np.ndarray
    worth: Memo[int, np.ndarray]
    """By token, its weight for each topic that has it."""


_NO_WAYS = np.zeros(0, np.int64)


@cache_by_identity
def lay_out(card: Card) -> Layout:
    kinds, having = np.array([topic.kind for topic in card.topics]), card.topics_with
    told = np.flatnonzero((kinds == "disclosure") | (kinds == "thread"))
    asked = [(at, LABEL[topic.key]) for at, topic in enumerate(card.topics) if topic.key in LABEL]
    of_kind = np.array([WEIGHTS.get(kind, 0.0) for kind in kinds.tolist()])
    whom = np.array(["you" if topic.is_personal else topic.whom for topic in card.topics])
    others = {name: (whom != "") & (whom != (name or "you")) for name in ("", *card.pronouns)}
    sizes = np.bincount(
        np.concatenate([_NO_WAYS, *card.ways_with.values()]), minlength=len(card.ways)
    )
    return Layout(
        {name: of_kind + WEIGHTS["whom"] * is_other for name, is_other in others.items()},
        np.array(asked, np.int64).reshape(-1, 2).T,
        np.maximum(1, sizes) ** -0.5,
        kinds == "suggestion",
        told,
        kinds[told] == "thread",
        Memo[int, np.ndarray](lambda at: np.full(len(having[at]), card.weight[at]), 4_000),
    )


def score_topics(moment: Moment, heard: Heard, at: int) -> np.ndarray:
    """How well each topic goes with a sentence of an utterance or (-1) all of it, in logits."""
    card, layout = moment.card, lay_out(moment.card)
    said, vector = heard if at < 0 else heard.sentences[at], heard.vectors[at]
    scores = np.maximum.reduceat(card.lines @ vector, card.line_starts)
    scores = scores * (WEIGHTS["line_like"] / _UNIT) + layout.bias[find_whom(moment, said.words)]
    words = frozenset(said.words)
    if at >= 0 and len(card.way_owners):
        likes = (card.ways @ vector) * (WEIGHTS["way_like"] / _UNIT)
        ways = [card.ways_with[word] for word in words if word in card.ways_with]
        if ways:
            shared = np.bincount(np.concatenate(ways), minlength=len(likes)) * layout.of_words
            likes += shared * (WEIGHTS["phrase"] / len(words) ** 0.5)
        scores[card.way_owners] += np.maximum.reduceat(likes, card.way_starts)
    if at >= 0:
        scores[layout.asked[0]] += heard.labels[at].take(layout.asked[1]) * WEIGHTS["label"]
    points_back = at < 0 or (len(said.tokens) < 3 and not _POINTING.isdisjoint(said.words))
    context = moment.past.last.tokens - said.tokens if points_back else ()
    for tokens, most in ((said.tokens, WEIGHTS["covered"]), (context, _CONTEXT)):
        share = most / (sum([card.weight.get(token, _UNKNOWN) for token in tokens]) + _BLAND)
        known = [token for token in tokens if token in card.topics_with]
        if known:
            topics = np.concatenate([card.topics_with[token] for token in known])
            worth = np.concatenate([layout.worth[token] for token in known])
            scores += np.bincount(topics, worth, len(scores)) * share
    return scores


def find_answers(moment: Moment, heard: Heard, at: int, *, suggests: bool = False) -> list[int]:
    """The topics that answer a question, that speak of what is suggested or (-1) of all that was
    said, best first.
    """
    scores = score_topics(moment, heard, at)
    scores[lay_out(moment.card).is_suggestion != suggests] = -np.inf
    kind = "suggested" if suggests else "explained"
    if not suggests and at >= 0:
        kind = "none_factual" if heard.sentences[at].ask in FACTUAL else "none"
    near = scores.argpartition(-min(_BEST, len(scores)))[-_BEST:].tolist()
    least = max(_DATA[kind], scores.max() - _NEAR_BEST)
    return sorted([at for at in near if scores[at] >= least], key=scores.__getitem__, reverse=True)


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

    has_time: bool
    tokens: frozenset[int]
    runs: frozenset[int]
    sentences: frozenset[tuple[str, ...]]


def _read_line(text: str) -> ReadLine:
    line = hear(text, is_line=True)
    has_time = not _TIMES.isdisjoint(line.words)
    return ReadLine(has_time, line.tokens, line.runs, hash_sentences(line))


read_line = Memo(_read_line, 30_000).__getitem__


def was_said(moment: Moment, line: str) -> bool:
    """Whether the person said a line, or most of it."""
    read = read_line(line)
    if not read.sentences.isdisjoint(moment.past.lines):
        return True
    return len(read.runs) >= 3 and len(read.runs & moment.past.told_runs) >= 0.6 * len(read.runs)
