"""Compile: a card, once: who is in it, and every line that it can say. Knows no dialogue."""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from math import log
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.core.inquiries import PERSONAL_INQUIRIES
from rlver_gym.core.persona import Anchor, Fact, Person, Persona, Situation
from rlver_gym.core.words import is_named, split_each, split_sentences, split_words
from rlver_gym.users.embedded import english
from rlver_gym.users.embedded.english import DATA, LABEL, LEXICON, RELATIONS, embed_lines
from rlver_gym.util.files import load_json
from rlver_gym.util.frozen import Memo, cache_by_identity, cache_by_parts

RETRIEVAL: dict[str, Any] = load_json(DATA, "retrieval.json")
SIZE = array("i").itemsize
Index = dict[Any, bytes]  # by token, or by word, the numbers of what has it, as C integers
NUMBERS = english.word_set("numbers to nineteen", "tens", "powers of ten") - {"zero", "one"}
_NUMBER = rf"(?:{'|'.join(sorted(NUMBERS))})\b"
# what is counted: "about" or nothing, the number in all its words, and the unit
COUNTED = re.compile(rf"\b(about )?({_NUMBER}(?: (?:and )?(?:one|{_NUMBER}))*) (?!{_NUMBER})(\w+)")
TITLES = frozenset("mr mrs ms dr miss".split())
_MOST_WAYS = 10  # ways of asking for one thing that are compared
_WORDS = Memo(split_words, 10_000)  # of texts, split once for all that is compiled of them


class Topic(NamedTuple):
    """Something that the person can speak about."""

    kind: str  # fact, inquiry, person, feeling, suggestion, thread, disclosure or background
    key: str  # the id of a fact or disclosure, the label of an inquiry, a feeling, a number
    lines: tuple[str, ...]
    toned: tuple[str | None, str | None] = (None, None)  # the wording in a good and a bad mood
    depth: int = 1
    whom: str = ""  # the name of the one of the story whom it is about
    is_personal: bool = False
    ways: tuple[str, ...] = ()  # of asking for it
    about: tuple[str, ...] = ()


class _Topics:
    """What a situation or a person can speak about. Vectors are rows of an array."""

    def __init__(self, topics: tuple[Topic, ...]) -> None:
        ways = [(at, way) for at, topic in enumerate(topics) for way in topic.ways[:_MOST_WAYS]]
        distinct = [frozenset(_WORDS[way]) for _, way in ways]
        self.topics = topics
        self.lines = embed_lines([_WORDS[line] for topic in topics for line in topic.lines])
        self.ways = embed_lines([_WORDS[way] for _, way in ways])
        self.way_owners = [at for at, _ in ways]
        self.way_sizes = list(map(len, distinct))
        tokens = [_find_tokens(*topic.lines, *topic.ways, *topic.about) for topic in topics]
        self.topics_with = _index(tokens)
        self.ways_with = _index(distinct)


class _Story(_Topics):
    """A situation, compiled: its topics but for inquiries `left_out`, and what is known of it."""

    def __init__(self, situation: Situation, left_out: frozenset[str]) -> None:
        topics = tuple(_list_topics(situation, left_out))
        anchors = [anchor for _, anchor in situation.anchors.each()]
        texts = _list_texts(situation.model_dump())
        _WORDS.update(zip(texts, split_each(texts), strict=True))
        super().__init__(topics)
        words = [word for text in texts for word in _WORDS[text]]
        # names by each of their words, and by relation where it is one's alone
        self.people = _find_people(situation)
        self.names = frozenset(self.people) - RELATIONS  # in lower case
        self.pronouns: dict[str, str] = {one.name: one.pronoun for one in situation.people}
        self.words = frozenset(words)
        self.vocabulary = frozenset([LEXICON[word].token for word in self.words]) - {0}
        self.text = f" {' '.join(words)} "
        told = [disclosure.normal for disclosure in situation.disclosures]
        self.told_lines = (situation.cause, situation.now, *situation.tried, *told)
        # what a good answer could say, and the words by which it is seen
        tokens = [_find_tokens(anchor.text) for anchor in anchors]
        self.anchor_kinds = [kind for kind, _ in situation.anchors.each()]
        self.anchors = embed_lines([_WORDS[anchor.text] for anchor in anchors])
        self.anchor_sizes = [max(1, len(own)) for own in tokens]
        self.anchors_with = {t: tuple(array("i", at)) for t, at in _index(tokens).items()}
        self.marks = _list_marks(anchors)
        self.marks_needed = [max(2, len(anchor.words) - 1) for anchor in anchors]

    @cached_property
    def counted(self) -> list[tuple[str, str, frozenset[int]]]:
        """What is counted in what it tells, the number, and what else the sentence is about."""
        counted = []
        for part in [part for line in self.told_lines for part in split_sentences(line)]:
            words = split_words(part)
            for _, number, unit in COUNTED.findall(" ".join(words)):
                own = (*number.split(), unit)
                near = {LEXICON[word].token for word in words if word not in own}
                counted.append((unit, number, frozenset(near) - {0}))
        return counted


class Card:
    """A persona, compiled. What is personal the person answers, else the situation comes first."""

    def __init__(self, persona: Persona) -> None:
        situation, person = persona.situation, persona.person
        personal = frozenset(PERSONAL_INQUIRIES & person.answers.keys())
        self.story = story = _compile_story(situation, personal)
        own = _compile_person(person, frozenset(situation.answers.keys() - personal))
        self.topics = topics = story.topics + own.topics
        self.words = story.words.union(split_words(person.name))
        self.lines = np.concatenate([story.lines, own.lines])
        self.line_starts = np.cumsum([0, *[len(topic.lines) for topic in topics[:-1]]])
        # of every way of asking, where those of each topic begin, and of which topics
        self.ways = np.concatenate([story.ways, own.ways])
        self.way_roots = np.maximum(1, np.array(story.way_sizes + own.way_sizes)) ** -0.5
        shift = len(story.topics)
        owners = np.array(story.way_owners + [at + shift for at in own.way_owners], np.int64)
        self.way_owners, self.way_starts = np.unique(owners, return_index=True)
        self.topics_with = having = _join(story.topics_with, own.topics_with, shift)
        self.ways_with = _join(story.ways_with, own.ways_with, len(story.ways))  # by word
        # how much tokens tell topics apart, in nats
        self.weight = {t: log(1 + len(topics) * SIZE / len(at)) for t, at in having.items()}
        self.by_key = {(topic.kind, topic.key, topic.whom): topic for topic in topics}
        # the topics that a label asks for, and below them the label's column
        asked = [(at, LABEL[topic.key]) for at, topic in enumerate(topics) if topic.key in LABEL]
        self.asked = np.array(asked, np.int64).reshape(-1, 2).T
        kinds = np.array([topic.kind for topic in topics], str)
        self.is_suggestion = kinds == "suggestion"
        self.told = np.flatnonzero((kinds == "disclosure") | (kinds == "thread"))
        self.is_thread = kinds[self.told] == "thread"
        # by who is spoken of, what each topic has from its kind and from being about another
        weights = RETRIEVAL["weights"]
        of_kind = np.array([weights.get(topic.kind, 0.0) for topic in topics])
        whom = np.array(["you" if topic.is_personal else topic.whom for topic in topics], str)
        self.bias = {
            name: of_kind + weights["whom"] * ((whom != "") & (whom != (name or "you")))
            for name in ("", *story.pronouns)
        }


compile_card = cache_by_parts("person", "situation")(Card)  # copies with another need share it
_compile_story = cache_by_identity(_Story)


@cache_by_identity
def _compile_person(person: Person, left_out: frozenset[str]) -> _Topics:
    topics = (*_list_facts(person.facts, None), *_list_answers(person.answers, left_out))
    return _Topics(topics)


def _find_tokens(*texts: str) -> frozenset[int]:
    return frozenset([LEXICON[word].token for text in texts for word in _WORDS[text]]) - {0}


def _join(first: Index, second: Index, shift: int) -> Index:
    """Both, the numbers of the second moved on."""
    joined = dict(first)
    for key, numbers in second.items():
        moved = array("i", [at + shift for at in array("i", numbers)])
        joined[key] = first.get(key, b"") + moved.tobytes()
    return joined


def _index(texts: Sequence[Iterable[Any]]) -> Index:
    """By token, or by word, the numbers of the texts that have it."""
    numbers: dict[Any, list[int]] = defaultdict(list)
    for at, tokens in enumerate(texts):
        for token in tokens:
            numbers[token].append(at)
    return {key: array("i", at).tobytes() for key, at in numbers.items()}


def _list_marks(anchors: Sequence[Anchor]) -> dict[int, tuple[tuple[int, int], ...]]:
    """Of alternatives of several words, the longest is the mark."""
    marks: dict[int, list[tuple[int, int]]] = {}
    for at, anchor in enumerate(anchors):
        for number, group in enumerate(anchor.words):
            for part in group.split("|"):
                token = LEXICON[max(_WORDS[part], key=len)].token
                marks.setdefault(token, []).append((at, 1 << number))
    return {token: tuple(own) for token, own in marks.items() if token}


def _find_people(situation: Situation) -> dict[str, str]:
    relations = [
        (word, other.name)
        for other in situation.people
        for word in RELATIONS.intersection(_WORDS[other.who.split(",")[0]])
    ]
    many = Counter(word for word, _ in relations)
    people = {word: name for word, name in relations if many[word] == 1}
    for other in situation.people:
        people |= {word: other.name for word in _WORDS[other.name] if word not in TITLES}
    return people


def _list_texts(value: Any) -> list[str]:
    texts = []
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, (dict, list, tuple)):
            texts += _list_texts(part)
    return texts


def _list_topics(situation: Situation, left_out: Collection[str]) -> Iterator[Topic]:
    yield from _list_facts(situation.facts, [other.name for other in situation.people])
    yield from _list_answers(situation.answers, left_out)
    for name, answers in situation.about_people.items():
        for label, lines in answers.items():
            yield Topic("person", f"p_{label}", tuple(lines), whom=name, about=(name,))
    for feeling, lines in situation.feelings.items():
        yield Topic("feeling", str(feeling), tuple(lines), about=(str(feeling),))
    for at, suggestion in enumerate(situation.suggestions):
        yield Topic("suggestion", str(at), tuple(suggestion.reply), ways=tuple(suggestion.to))
    for at, thread in enumerate(situation.threads):
        yield Topic("thread", str(at), tuple(thread.lines), about=tuple(thread.about))
    for one in situation.disclosures:
        yield Topic("disclosure", one.id, (one.normal,), (one.high, one.low), one.depth)
    alone = [other for other in situation.people if other.name not in situation.about_people]
    for other in alone:
        line, ways = f"{other.name} is {other.who}.", (f"Who is {other.name}?",)
        yield Topic("background", other.name, (line,), whom=other.name, ways=ways)
    for at, moment in enumerate(situation.timeline):
        yield Topic("background", f"timeline.{at}", (moment.what,), about=(moment.when,))
    for at, text in enumerate((*situation.tried, *split_sentences(situation.now))):
        yield Topic("background", f"tried.{at}", (text,), depth=2)


def _list_facts(facts: Sequence[Fact], names: Sequence[str] | None) -> Iterator[Topic]:
    """`names`: those of the story; None for facts of the person's own."""
    for fact in facts:
        named = [name for name in names or () if any(is_named(name, text) for text in fact.about)]
        whom = named[0] if len(named) == 1 else ""
        lines, toned, ways = tuple(fact.answers), (fact.high, fact.low), tuple(fact.asked)
        more = fact.depth, whom, names is None, ways, tuple(fact.about)
        yield Topic("fact", fact.id, lines, toned, *more)


def _list_answers(answers: Any, left_out: Collection[str]) -> Iterator[Topic]:
    for label, lines in answers.items():
        if label not in left_out:
            yield Topic("inquiry", str(label), tuple(lines))
