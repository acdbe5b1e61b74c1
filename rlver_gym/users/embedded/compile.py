"""Compile: a card, once, to arrays and indices: who is in it, what it tells, and every line that
the person can say with what it answers. Knows no dialogue.
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
from rlver_gym.util.frozen import cache_by_identity, cache_by_parts

KINDS: tuple[str, ...] = AnchorKind.__args__
Index = dict[Any, np.ndarray]
"""By token, or by word, the numbers of what has it."""
_TITLES = frozenset("mr mrs ms dr miss".split())
_MOST_WAYS = 10
"""Ways of asking for one thing that are compared."""


class Topic(NamedTuple):
    """Something that the person can speak about."""

    kind: str  # fact, inquiry, person, feeling, suggestion, thread, disclosure or background
    key: str  # the id of a fact or disclosure, the label of an inquiry, a feeling, or a number
    lines: tuple[str, ...]
    toned: tuple[str | None, str | None] = (None, None)  # the wording in a good and a bad mood
    depth: int = 1
    whom: str = ""  # the name of the one of the story whom it is about
    is_personal: bool = False
    ways: tuple[str, ...] = ()  # of asking for it
    about: tuple[str, ...] = ()


class Card(NamedTuple):
    """A card, compiled. Vectors are rows of an array."""

    topics: tuple[Topic, ...]
    lines: np.ndarray  # of every line of every topic
    line_starts: np.ndarray  # where each topic's begin
    ways: np.ndarray  # of every way of asking
    way_starts: np.ndarray
    way_owners: np.ndarray  # the topics that have any, in order
    topics_with: Index
    ways_with: Index  # by word, the ways of asking that have it
    weight: dict[int, float]  # of tokens, how much they tell topics apart, in nats
    by_key: dict[tuple[str, str, str], int]  # topics by kind, key and whom
    names: frozenset[str]  # words of the names of those in the story, in lower case
    people: dict[str, str]  # names by each of their words, and by relation where it is one's alone
    pronouns: dict[str, str]  # by name
    vocabulary: frozenset[int]
    words: frozenset[str]
    text: str  # all words of the situation in order, between blanks
    text_lines: tuple[str, ...]  # what it tells
    anchor_kinds: tuple[int, ...]
    anchors: np.ndarray  # of what a good answer could say
    anchor_sizes: tuple[int, ...]  # how many tokens each has
    anchors_with: dict[int, list[int]]  # by token
    marks: dict[
        int, list[tuple[int, int]]
    ]  # by token, the anchors that it marks, with a group's bit
    marks_needed: tuple[int, ...]  # of each anchor, how many groups say it


class _Part(NamedTuple):
    """What a situation or a person can speak about: see `Card`."""

    topics: tuple[Topic, ...]
    lines: np.ndarray
    ways: np.ndarray
    way_owners: np.ndarray  # of each way, the number of its topic
    topics_with: Index
    ways_with: Index


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
    way_owners, way_starts = np.unique(
        np.concatenate([story.way_owners, own.way_owners + shift]), return_index=True
    )
    topics_with = _join(story.topics_with, own.topics_with, shift)
    return Card(
        topics=topics,
        lines=np.concatenate([story.lines, own.lines]),
        line_starts=np.cumsum([0, *[len(topic.lines) for topic in topics[:-1]]]),
        ways=np.concatenate([story.ways, own.ways]),
        way_starts=way_starts,
        way_owners=way_owners,
        topics_with=topics_with,
        ways_with=_join(story.ways_with, own.ways_with, len(story.ways)),
        weight={token: log(1 + len(topics) / len(at)) for token, at in topics_with.items()},
        by_key={(topic.kind, topic.key, topic.whom): at for at, topic in enumerate(topics)},
        **{**told, "words": told["words"].union(split_words(person.name))},
    )


def _join(first: Index, second: Index, shift: int) -> Index:
    joined = dict(first)
    for key, at in second.items():
        at = at + shift
        joined[key] = np.concatenate([first[key], at]) if key in first else at
    return joined


@cache_by_identity
def _compile_situation(
    situation: Situation, left_out: frozenset[str]
) -> tuple[_Part, dict[str, Any]]:
    """What it can speak about but for inquiries `left_out`, and its fields of a `Card`."""
    topics = tuple(_list_topics(situation, left_out))
    anchors = list(situation.anchors.each())
    texts = list(_list_texts(situation.model_dump()))
    words_of = _Words([
        *texts, *_list_texts([topic[2:] for topic in topics]),
        *[part for _, anchor in anchors for group in anchor.words for part in group.split("|")],
        *[other.who.split(",")[0] for other in situation.people],
    ])  # fmt: skip
    people = _find_people(situation, words_of)
    tokens = [words_of.tokens(anchor.text) for _, anchor in anchors]
    words = [word for text in texts for word in words_of[text]]
    told = [disclosure.normal for disclosure in situation.disclosures]
    return _compile_part(topics, words_of), {
        "names": frozenset(people) - RELATIONS,
        "people": people,
        "pronouns": {other.name: other.pronoun for other in situation.people},
        "vocabulary": words_of.tokens(*texts),
        "words": frozenset(words),
        "text": f" {' '.join(words)} ",
        "text_lines": (situation.cause, situation.now, *situation.tried, *told),
        "anchor_kinds": tuple([KINDS.index(kind) for kind, _ in anchors]),
        "anchors": embed_lines([words_of[anchor.text] for _, anchor in anchors] or [()]),
        "anchor_sizes": tuple([max(1, len(own)) for own in tokens]),
        "anchors_with": _collect(tokens),
        "marks": _list_marks([anchor.words for _, anchor in anchors], words_of),
        "marks_needed": tuple([max(2, len(anchor.words) - 1) for _, anchor in anchors]),
    }


@cache_by_identity
def _compile_person(person: Person, left_out: frozenset[str]) -> _Part:
    facts = _list_facts(person.facts, (), is_personal=True)
    topics = (*facts, *_list_answers(person.answers, left_out))
    return _compile_part(topics, _Words(list(_list_texts([topic[2:] for topic in topics]))))


def _compile_part(topics: tuple[Topic, ...], words_of: "_Words") -> _Part:
    ways = [(at, way) for at, topic in enumerate(topics) for way in topic.ways[:_MOST_WAYS]]
    every = [words_of.tokens(*topic.lines, *topic.ways, *topic.about) for topic in topics]
    return _Part(
        topics,
        embed_lines([words_of[line] for topic in topics for line in topic.lines]),
        embed_lines([words_of[way] for _, way in ways]),
        np.array([at for at, _ in ways], np.int64),
        _index(every),
        _index([frozenset(words_of[way]) for _, way in ways]),
    )


class _Words(dict[str, Sequence[str]]):
    """The words of each of many texts, split at once."""

    def __init__(self, texts: Sequence[str]) -> None:
        distinct = dict.fromkeys(texts)
        super().__init__(zip(distinct, split_many(distinct), strict=True))
        self.token = {word: LEXICON[word].token for word in frozenset().union(*self.values())}

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


def _collect(texts: Sequence[frozenset[int]]) -> dict[int, list[int]]:
    """By token, the numbers of the texts that have it."""
    numbers: dict[int, list[int]] = {}
    for at, tokens in enumerate(texts):
        for token in tokens:
            numbers.setdefault(token, []).append(at)
    return numbers


def _index(texts: Sequence[frozenset[Any]]) -> Index:
    """The same as parts of one array."""
    numbers = _collect(texts)
    joined = np.array(list(chain.from_iterable(numbers.values())), np.int64)
    ends = pairwise(accumulate(map(len, numbers.values()), initial=0))
    return {token: joined[a:b] for token, (a, b) in zip(numbers, ends, strict=True)}


def _find_people(situation: Situation, words_of: _Words) -> dict[str, str]:
    others = situation.people
    people = {
        word: other.name for other in others for word in words_of[other.name] if word not in _TITLES
    }
    relations = [
        (word, other.name)
        for other in others
        for word in dict.fromkeys(words_of[other.who.split(",")[0]])
        if word in RELATIONS
    ]
    for word, name in relations:
        if sum([word == other for other, _ in relations]) == 1:
            people.setdefault(word, name)
    return people


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _list_texts(part)


def _list_topics(situation: Situation, left_out: Collection[str]) -> Iterator[Topic]:
    yield from _list_facts(
        situation.facts, [other.name for other in situation.people], is_personal=False
    )
    yield from _list_answers(situation.answers, left_out)
    for name, answers in situation.about_people.items():
        for label, lines in answers.items():
            yield Topic("person", f"p_{label}", tuple(lines), whom=name, about=(name,))
    for feeling, lines in situation.feelings.items():
        yield Topic("feeling", str(feeling), tuple(lines), about=(str(feeling),))
    for at, suggestion in enumerate(situation.suggestions):
        lines, ways = tuple(suggestion.reply), tuple(suggestion.to)
        yield Topic("suggestion", str(at), lines, ways=ways)
    for at, thread in enumerate(situation.threads):
        yield Topic("thread", str(at), tuple(thread.lines), about=tuple(thread.about))
    for one in situation.disclosures:
        yield Topic("disclosure", one.id, (one.normal,), (one.high, one.low), one.depth)
    for other in situation.people:
        if other.name not in situation.about_people:
            line, ways = f"{other.name} is {other.who}.", (f"Who is {other.name}?",)
            yield Topic("background", other.name, (line,), whom=other.name, ways=ways)
    for at, moment in enumerate(situation.timeline):
        yield Topic("background", f"timeline.{at}", (moment.what,), about=(moment.when,))
    for at, text in enumerate((*situation.tried, *split_sentences(situation.now))):
        yield Topic("background", f"tried.{at}", (text,), depth=2)


def _list_facts(
    facts: Sequence[Fact], names: Sequence[str], *, is_personal: bool
) -> Iterator[Topic]:
    for fact in facts:
        named = [name for name in names if any(name in text for text in fact.about)]
        yield Topic(
            "fact", fact.id, tuple(fact.answers), (fact.high, fact.low), fact.depth,
            named[0] if len(named) == 1 else "", is_personal, tuple(fact.asked), tuple(fact.about),
        )  # fmt: skip


def _list_answers(answers: Any, left_out: Collection[str]) -> Iterator[Topic]:
    for label, lines in answers.items():
        if label not in left_out:
            yield Topic("inquiry", str(label), tuple(lines))
