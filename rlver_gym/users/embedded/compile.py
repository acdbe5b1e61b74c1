"""Compile: a card, once, to arrays and indices: who is in it, what it tells, and every line that the
person can say with what it answers. Knows no dialogue.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from math import log
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.core.inquiries import PERSONAL_INQUIRIES
from rlver_gym.core.persona import AnchorKind, Fact, Person, Persona, Situation
from rlver_gym.core.words import split_many, split_sentences, split_words
from rlver_gym.users.embedded.english import LEXICON, RELATIONS, embed_lines
from rlver_gym.users.embedded.hear import find_ask, is_suggestion
from rlver_gym.util.frozen import cache_by_identity, cache_by_parts

KINDS: tuple[str, ...] = AnchorKind.__args__
_TITLES = frozenset("mr mrs ms dr miss".split())
_MOST_WAYS = 8
"""Ways of asking for one thing that are compared."""


class Topic(NamedTuple):
    """Something that the person can speak about."""

    kind: str
    """fact, inquiry, person, feeling, suggestion, thread, disclosure or background."""
    key: str
    """The id of a fact or disclosure, the label of an inquiry, a feeling, or a number."""
    lines: tuple[str, ...]
    toned: tuple[str | None, str | None]
    """The wording in a good and in a bad mood, where there is one."""
    depth: int
    whom: str
    """The name of the one of the story whom it is about; empty for none."""
    is_personal: bool
    ways: tuple[str, ...]
    about: tuple[str, ...]


class Card(NamedTuple):
    """A card, compiled."""

    topics: tuple[Topic, ...]
    lines: np.ndarray
    """Vectors of every line of every topic, a row each."""
    line_starts: np.ndarray
    """Where each topic's begin."""
    ways: np.ndarray
    """Vectors of ways of asking."""
    way_starts: np.ndarray
    way_owners: np.ndarray
    """The topics that have any, in order."""
    way_sizes: np.ndarray
    """The root of how many words each way has."""
    way_index: dict[str, np.ndarray]
    """By word, the ways that have it."""
    asks: dict[str, np.ndarray]
    """By question word, whether each topic is asked for so."""
    is_fact: np.ndarray
    topics_with: dict[int, np.ndarray]
    """By token, the topics that have it."""
    about_index: dict[int, np.ndarray]
    """The same of what topics are about."""
    weight: dict[int, float]
    """Of tokens, how much they tell topics apart, in nats."""
    disclosures: tuple[int, ...]
    """Topics that can be told without a question, in the card's order."""
    by_key: dict[tuple[str, str, str], int]
    """Topics by kind, key and whom."""
    names: frozenset[str]
    """Words of the names of those in the story, in lower case."""
    people: dict[str, str]
    """By name in lower case and by relation, where it is one's alone, the name as it is said."""
    pronouns: dict[str, str]
    vocabulary: frozenset[int]
    words: frozenset[str]
    """All words of the card."""
    text: str
    """All of them in order, between blanks."""
    text_lines: tuple[str, ...]
    """What the card tells, a sentence each."""
    anchor_kinds: tuple[int, ...]
    anchors: np.ndarray
    """Vectors of what a good answer could say, one a row."""
    anchor_sizes: tuple[int, ...]
    """How many tokens each has."""
    anchors_with: dict[int, list[int]]
    """By token, the anchors that have it."""
    marks: dict[int, list[tuple[int, int]]]
    """By token, the anchors of whose groups of words it is one, each with the group's bit."""
    marks_needed: tuple[int, ...]
    """Of each anchor, how many groups say it."""


class _Part(NamedTuple):
    """What a situation or a person can speak about, compiled."""

    topics: tuple[Topic, ...]
    lines: np.ndarray
    ways: np.ndarray
    way_owners: np.ndarray
    """Of each way, the number of its topic."""
    way_sizes: np.ndarray
    way_index: dict[str, np.ndarray]
    asks: dict[str, list[int]]
    topics_with: dict[int, np.ndarray]
    about_index: dict[int, np.ndarray]


class _Told(NamedTuple):
    """What else is on the card of a situation."""

    names: frozenset[str]
    people: dict[str, str]
    pronouns: dict[str, str]
    vocabulary: frozenset[int]
    words: frozenset[str]
    text: str
    text_lines: tuple[str, ...]
    anchor_kinds: tuple[int, ...]
    anchors: np.ndarray
    anchor_sizes: tuple[int, ...]
    anchors_with: dict[int, list[int]]
    marks: dict[int, list[tuple[int, int]]]
    marks_needed: tuple[int, ...]


@cache_by_parts("person", "situation")
def compile_card(persona: Persona) -> Card:
    """The same for copies with another need. People answer for themselves what is personal, and
    else what their situation has no answer to.
    """
    situation, person = persona.situation, persona.person
    personal = frozenset(PERSONAL_INQUIRIES & person.answers.keys())
    story, told = _compile_situation(situation, personal)
    own = _compile_person(person, frozenset(situation.answers.keys() - personal))
    topics, shift = story.topics + own.topics, len(story.topics)
    owners = np.concatenate([story.way_owners, own.way_owners + shift])
    way_owners, way_starts = np.unique(owners, return_index=True)
    asks: dict[str, np.ndarray] = {}
    for part, first in ((story, 0), (own, shift)):
        for word, at in part.asks.items():
            asks.setdefault(word, np.zeros(len(topics)))[np.array(at) + first] = 1.0
    topics_with = _join(story.topics_with, own.topics_with, shift)
    return Card(
        topics,
        np.concatenate([story.lines, own.lines]),
        np.cumsum([0, *[len(topic.lines) for topic in topics[:-1]]]),
        np.concatenate([story.ways, own.ways]),
        way_starts,
        way_owners,
        np.concatenate([story.way_sizes, own.way_sizes]),
        _join(story.way_index, own.way_index, len(story.ways)),
        asks,
        np.array([float(topic.kind == "fact") for topic in topics]),
        topics_with,
        _join(story.about_index, own.about_index, shift),
        {token: log(1 + len(topics) / len(at)) for token, at in topics_with.items()},
        tuple([at for at, topic in enumerate(topics) if topic.kind == "disclosure"]),
        {(topic.kind, topic.key, topic.whom): at for at, topic in enumerate(topics)},
        *told._replace(words=told.words.union(split_words(person.name))),
    )


def _join(
    first: dict[Any, np.ndarray], second: dict[Any, np.ndarray], shift: int
) -> dict[Any, np.ndarray]:
    joined = dict(first)
    for key, at in second.items():
        at = at + shift
        joined[key] = np.concatenate([first[key], at]) if key in first else at
    return joined


@cache_by_identity
def _compile_situation(situation: Situation, left_out: frozenset[str]) -> tuple[_Part, _Told]:
    """`left_out`: inquiries that the person answers."""
    anchors = list(situation.anchors.each())
    texts = list(_list_texts(situation.model_dump()))
    topics = tuple(_list_topics(situation, left_out))
    words_of = _Words([
        *texts, *_list_texts([topic[2:] for topic in topics]),
        *[part for _, anchor in anchors for group in anchor.words for part in group.split("|")],
        *[other.who.split(",")[0] for other in situation.people],
    ])  # fmt: skip
    people = _find_people(situation, words_of)
    lines = [situation.cause, situation.now, *situation.tried]
    lines += [disclosure.normal for disclosure in situation.disclosures]
    anchor_tokens = [words_of.tokens(anchor.text) for _, anchor in anchors]
    words = [word for text in texts for word in words_of[text]]
    told = _Told(
        frozenset(people) - RELATIONS,
        people,
        {other.name: other.pronoun for other in situation.people},
        words_of.tokens(*texts),
        frozenset(words),
        f" {' '.join(words)} ",
        tuple(lines),
        tuple([KINDS.index(kind) for kind, _ in anchors]),
        embed_lines([words_of[anchor.text] for _, anchor in anchors] or [()]),
        tuple([max(1, len(tokens)) for tokens in anchor_tokens]),
        _collect(anchor_tokens),
        _list_marks([anchor.words for _, anchor in anchors], words_of),
        tuple([max(2, len(anchor.words) - 1) for _, anchor in anchors]),
    )
    return _compile_part(topics, words_of), told


@cache_by_identity
def _compile_person(person: Person, left_out: frozenset[str]) -> _Part:
    """`left_out`: inquiries that the situation answers."""
    topics = tuple(_list_own_topics(person, left_out))
    return _compile_part(topics, _Words(list(_list_texts([topic[2:] for topic in topics]))))


def _compile_part(topics: tuple[Topic, ...], words_of: "_Words") -> _Part:
    ways = [(at, way) for at, topic in enumerate(topics) for way in topic.ways[:_MOST_WAYS]]
    way_words = [words_of[way] for _, way in ways]
    asks: dict[str, list[int]] = {}
    for (at, way), words in zip(ways, way_words, strict=True):
        word = find_ask(way, words, is_suggestion(way, words))
        if word:
            asks.setdefault(word, []).append(at)
    every = [words_of.tokens(*topic.lines, *topic.ways, *topic.about) for topic in topics]
    return _Part(
        topics,
        embed_lines([words_of[line] for topic in topics for line in topic.lines]),
        embed_lines(way_words),
        np.array([at for at, _ in ways], np.int64),
        np.sqrt([max(1, len(frozenset(words))) for words in way_words]),
        _index([frozenset(words) for words in way_words]),
        asks,
        _index(every),
        _index([words_of.tokens(*topic.about) for topic in topics]),
    )


class _Words(dict[str, Sequence[str]]):
    """The words of each of many texts, split at once."""

    def __init__(self, texts: Sequence[str]) -> None:
        distinct = dict.fromkeys(texts)
        super().__init__(zip(distinct, split_many(distinct), strict=True))
        every = frozenset().union(*self.values())
        self.token = {word: LEXICON[word].token for word in every}

    def tokens(self, *texts: str) -> frozenset[int]:
        words = frozenset().union(*[self[text] for text in texts])
        return frozenset(map(self.token.__getitem__, words)) - {0}


def _list_marks(
    anchors: Sequence[Sequence[str]], words_of: _Words
) -> dict[int, list[tuple[int, int]]]:
    """Of alternatives of several words, the longest is the mark."""
    marks: dict[int, list[tuple[int, int]]] = {}
    for at, groups in enumerate(anchors):
        for number, group in enumerate(groups):
            for part in group.split("|"):
                token = words_of.token[max(words_of[part], key=len)]
                if token:
                    marks.setdefault(token, []).append((at, 1 << number))
    return marks


def _collect(texts: Sequence[frozenset[Any]]) -> dict[Any, list[int]]:
    """By part, the numbers of the texts that have it."""
    numbers: dict[Any, list[int]] = {}
    for at, parts in enumerate(texts):
        for part in parts:
            numbers.setdefault(part, []).append(at)
    return numbers


def _index(texts: Sequence[frozenset[Any]]) -> dict[Any, np.ndarray]:
    """The same as parts of one array."""
    numbers = _collect(texts)
    joined = np.array(list(chain.from_iterable(numbers.values())), np.int64)
    ends = list(accumulate(map(len, numbers.values()), initial=0))
    return {part: joined[a:b] for part, (a, b) in zip(numbers, pairwise(ends), strict=True)}


def _find_people(situation: Situation, words_of: _Words) -> dict[str, str]:
    others = situation.people
    people = {
        word: other.name for other in others for word in words_of[other.name] if word not in _TITLES
    }
    relations = [
        (word, other.name)
        for other in others
        for word in dict.fromkeys(words_of[other.who.split(",")[0]])
    ]
    for word, name in relations:
        if word in RELATIONS and sum([word == other for other, _ in relations]) == 1:
            people.setdefault(word, name)
    return people


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _list_texts(part)


def _list_topics(situation: Situation, left_out: Collection[str]) -> Iterator[Topic]:
    names = [other.name for other in situation.people]
    yield from _list_facts(situation.facts, names, is_personal=False)
    for label, lines in situation.answers.items():
        if label not in left_out:
            yield _plain("inquiry", str(label), lines)
    for name, answers in situation.about_people.items():
        for label, lines in answers.items():
            yield _plain("person", f"p_{label}", lines, whom=name, about=(name,))
    for feeling, lines in situation.feelings.items():
        yield _plain("feeling", str(feeling), lines, about=(str(feeling),))
    for at, suggestion in enumerate(situation.suggestions):
        yield _plain("suggestion", str(at), suggestion.reply, ways=suggestion.to)
    for at, thread in enumerate(situation.threads):
        yield _plain("thread", str(at), thread.lines, about=thread.about)
    for told in situation.disclosures:
        yield _plain("disclosure", told.id, (told.normal,), depth=told.depth)._replace(
            toned=(told.high, told.low)
        )
    for other in situation.people:
        if other.name not in situation.about_people:
            line, way = f"{other.name} is {other.who}.", f"Who is {other.name}?"
            yield _plain("background", other.name, (line,), whom=other.name, ways=(way,))
    for at, moment in enumerate(situation.timeline):
        yield _plain("background", f"timeline.{at}", (moment.what,), about=(moment.when,))
    for at, text in enumerate((*situation.tried, *split_sentences(situation.now))):
        yield _plain("background", f"tried.{at}", (text,), depth=2)


def _list_own_topics(person: Person, left_out: Collection[str]) -> Iterator[Topic]:
    yield from _list_facts(person.facts, (), is_personal=True)
    for label, lines in person.answers.items():
        if label not in left_out:
            yield _plain("inquiry", str(label), lines)


def _list_facts(
    facts: Sequence[Fact], names: Sequence[str], *, is_personal: bool
) -> Iterator[Topic]:
    for fact in facts:
        named = [name for name in names if any(name in text for text in fact.about)]
        yield Topic(
            "fact", fact.id, tuple(fact.answers), (fact.high, fact.low), fact.depth,
            named[0] if len(named) == 1 else "", is_personal, tuple(fact.asked), tuple(fact.about),
        )  # fmt: skip


def _plain(
    kind: str,
    key: str,
    lines: Sequence[str],
    *,
    whom: str = "",
    ways: Sequence[str] = (),
    about: Sequence[str] = (),
    depth: int = 1,
) -> Topic:
    return Topic(
        kind, key, tuple(lines), (None, None), depth, whom, False, tuple(ways), tuple(about)
    )
