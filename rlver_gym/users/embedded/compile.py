"""Compile: a card, once, to arrays and indices: who is in it, what it tells, and every line that the
person can say with what it answers. Knows no dialogue.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.core.inquiries import PERSONAL_INQUIRIES
from rlver_gym.core.persona import AnchorKind, Persona
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.users.embedded.english import LEXICON, RELATIONS, embed_lines, get_token
from rlver_gym.users.embedded.hear import find_ask, is_suggestion
from rlver_gym.util.frozen import Memo, cache_by_parts

KINDS: tuple[str, ...] = AnchorKind.__args__
_split = Memo(split_words, 6_000).__getitem__
"""Texts of a card are split for several of its indices."""
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
    anchor_kinds: np.ndarray
    anchors: np.ndarray
    """Vectors of what a good answer could say, one a row."""
    anchor_sizes: tuple[int, ...]
    """How many tokens each has."""
    anchors_with: dict[int, np.ndarray]
    """By token, the anchors that have it."""
    marks: dict[int, list[tuple[int, int]]]
    """By token, the anchors of whose groups of words it is one, each with the group's bit."""
    marks_needed: tuple[int, ...]
    """Of each anchor, how many groups say it."""


@cache_by_parts("person", "situation")
def compile_card(persona: Persona) -> Card:
    """The same for copies with another need."""
    situation, person = persona.situation, persona.person
    people = _find_people(persona)
    names = frozenset(
        word
        for other in situation.people
        for word in _split(other.name)
        if word not in _TITLES and word not in RELATIONS
    )
    topics = tuple(_list_topics(persona))
    ways = [(at, way) for at, topic in enumerate(topics) for way in topic.ways[:_MOST_WAYS]]
    way_words = [_split(way) for _, way in ways]
    owners, starts = np.unique([at for at, _ in ways], return_index=True)
    asks: dict[str, np.ndarray] = {}
    for at, way in ways:
        for word in _find_asks(way):
            asks.setdefault(word, np.zeros(len(topics)))[at] = 1.0
    index = _index([_tokens(*topic.lines, *topic.ways, *topic.about) for topic in topics])
    told = [situation.cause, situation.now, *situation.tried]
    told += [one.normal for one in situation.disclosures]
    words = [word for text in _list_texts(situation.model_dump()) for word in _split(text)]
    anchors = list(situation.anchors.each())
    return Card(
        topics,
        embed_lines([_split(line) for topic in topics for line in topic.lines]),
        np.cumsum([0, *[len(topic.lines) for topic in topics[:-1]]]),
        embed_lines(way_words or [()]),
        starts,
        owners,
        np.sqrt([max(1, len(frozenset(words))) for words in way_words]),
        _index([frozenset(words) for words in way_words]),
        asks,
        np.array([float(topic.kind == "fact") for topic in topics]),
        index,
        _index([_tokens(*topic.about) for topic in topics]),
        {token: float(np.log(1 + len(topics) / len(at))) for token, at in index.items()},
        tuple(at for at, topic in enumerate(topics) if topic.kind == "disclosure"),
        {(topic.kind, topic.key, topic.whom): at for at, topic in enumerate(topics)},
        names,
        people,
        {other.name: other.pronoun for other in situation.people},
        _tokens(" ".join(words)),
        frozenset(words) | frozenset(_split(person.name)),
        f" {' '.join(words)} ",
        tuple(told),
        np.array([KINDS.index(kind) for kind, _ in anchors], np.int64),
        embed_lines([_split(anchor.text) for _, anchor in anchors] or [()]),
        tuple([max(1, len(_tokens(anchor.text))) for _, anchor in anchors]),
        {k: v.tolist() for k, v in _index([_tokens(anchor.text) for _, anchor in anchors]).items()},
        _list_marks([anchor.words for _, anchor in anchors]),
        tuple(max(2, len(anchor.words) - 1) for _, anchor in anchors),
    )


def _list_marks(anchors: Sequence[Sequence[str]]) -> dict[int, list[tuple[int, int]]]:
    """Of alternatives of several words, the longest is the mark."""
    found: dict[int, list[tuple[int, int]]] = {}
    for at, groups in enumerate(anchors):
        for number, group in enumerate(groups):
            for one in group.split("|"):
                token = get_token(max(_split(one), key=len))
                if token:
                    found.setdefault(token, []).append((at, 1 << number))
    return found


def _index(texts: Sequence[frozenset[Any]]) -> dict[Any, np.ndarray]:
    found: dict[Any, list[int]] = {}
    for at, parts in enumerate(texts):
        for part in parts:
            found.setdefault(part, []).append(at)
    return {part: np.array(at, np.int64) for part, at in found.items()}


def _tokens(*texts: str) -> frozenset[int]:
    return frozenset([get_token(word) for text in texts for word in _split(text)]) - {0}


def _find_asks(way: str) -> list[str]:
    words = _split(way)
    word = find_ask(way, words, is_suggestion(way, words))
    return [word] if word else []


def _find_people(persona: Persona) -> dict[str, str]:
    found: dict[str, str] = {}
    others = persona.situation.people
    for other in others:
        for word in _split(other.name):
            if word not in _TITLES:
                found[word] = other.name
    for other in others:
        for word in _split(other.who.split(",")[0]):
            if word in RELATIONS:
                alike = [one for one in others if word in _split(one.who.split(",")[0])]
                if len(alike) == 1:
                    found.setdefault(word, other.name)
    return found


def _list_texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return []
    return [text for part in value for text in _list_texts(part)]


def _list_topics(persona: Persona) -> Iterator[Topic]:
    situation, person = persona.situation, persona.person
    names = [other.name for other in situation.people]

    def whom(about: Sequence[str]) -> str:
        named = [name for name in names if any(name in text for text in about)]
        return named[0] if len(named) == 1 else ""

    for is_personal, facts in ((False, situation.facts), (True, person.facts)):
        for one in facts:
            yield Topic(
                "fact", one.id, tuple(one.answers), (one.high, one.low), one.depth,
                whom(one.about), is_personal, tuple(one.asked), tuple(one.about),
            )  # fmt: skip
    own = {label: lines for label, lines in person.answers.items() if label in PERSONAL_INQUIRIES}
    for label, lines in {**person.answers, **situation.answers, **own}.items():
        yield _plain("inquiry", str(label), lines)
    for name, of in situation.about_people.items():
        for label, lines in of.items():
            yield _plain("person", f"p_{label}", lines, whom=name, about=(name,))
    for feeling, lines in situation.feelings.items():
        yield _plain("feeling", str(feeling), lines, about=(str(feeling),))
    for at, one in enumerate(situation.suggestions):
        yield _plain("suggestion", str(at), one.reply, ways=one.to)
    for at, one in enumerate(situation.threads):
        yield _plain("thread", str(at), one.lines, about=one.about)
    for one in situation.disclosures:
        yield Topic(
            "disclosure", one.id, (one.normal,), (one.high, one.low), one.depth, "", False, (), ()
        )
    for one in situation.people:
        if one.name not in situation.about_people:
            told = f"{one.name} is {one.who}."
            yield _plain(
                "background", one.name, (told,), whom=one.name, ways=(f"Who is {one.name}?",)
            )
    for at, moment in enumerate(situation.timeline):
        yield _plain("background", f"timeline.{at}", (moment.what,), about=(moment.when,))
    for at, text in enumerate((*situation.tried, *split_sentences(situation.now))):
        yield _plain("background", f"tried.{at}", (text,), depth=2)


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
