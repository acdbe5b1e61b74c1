"""Card: what a person can say, each line with what it answers, ready to be compared with a question
all at once. Compiled once a card; knows no dialogue.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from rlver_gym.core.inquiries import PERSONAL_INQUIRIES
from rlver_gym.core.persona import Fact, Persona
from rlver_gym.core.words import FUNCTION_WORDS, split_sentences, split_words
from rlver_gym.users.embedded.hearing.tokens import PRONOUNS, YOU, token_of
from rlver_gym.users.embedded.hearing.utterance_parser import (
    FACTUAL,
    Ask,
    Sentence,
    parse_utterance,
)
from rlver_gym.users.embedded.hearing.vectors import (
    SCALE,
    compute_cosine_similarity,
    embed_text,
    embed_texts,
)
from rlver_gym.users.embedded.speech.facts import compile_fact_base
from rlver_gym.util.frozen import Memo, cache_by_parts

Kind = Literal[
    "fact", "inquiry", "person", "feeling", "suggestion", "thread", "disclosure", "background"
]


class Topic(NamedTuple):
    """Something that the person can speak about."""

    kind: Kind
    key: str
    """The id of a fact or disclosure, the label of an inquiry, a feeling, or a number."""
    lines: tuple[str, ...]
    """What they say, in several wordings or, where they are not the same, one after the other."""
    high: str | None
    low: str | None
    depth: int
    ways: tuple[tuple[str, ...], ...]
    """Ways of asking for it, in lower-case words."""
    about: frozenset[str]
    """Tokens of what it is about."""
    person: str | None
    """The token of the one of the story whom it is about."""
    is_personal: bool
    """Whether it is about the person rather than their story."""


class Line(NamedTuple):
    """A line, ready to be compared."""

    words: tuple[str, ...]
    tokens: frozenset[str]
    """Without pronouns and the person themself."""
    vector: np.ndarray


class Telling(NamedTuple):
    """Lines that can be told without a question, with their vectors, one a row."""

    topics: tuple[Topic, ...]
    lines: tuple[str, ...]
    vectors: np.ndarray


class Query(NamedTuple):
    """A question, ready to be compared."""

    ask: Ask
    words: tuple[str, ...]
    tokens: frozenset[str]
    people: frozenset[str]
    """Tokens of those of the story whom it names or means."""
    is_of_others: bool
    """Whether it asks about somebody else than the person."""


FEATURES = (
    "phrase", "phrase2", "covered", "about", "vector", "vector2", "lines", "asks", "misplaced",
    "other", "fact", "personal",
)  # fmt: skip
WEIGHTS = np.array([5.93, -0.3, 2.89, 2.16, 4.95, -0.95, 2.11, 5.41, -2.67, -0.78, 4.44, 0.37])
"""In nats. A softmax over all topics and "none of them"; fitted by research/choose_lines.py."""
NONE = (18.24, -0.22, -0.11)
"""What speaks for none of them: always; of who, when and where; times the logarithm of words."""
_MOST_WORDS = 30
_MOST_KEPT = 4_000
_NOTHING = frozenset({""})
_NO_MATTER = frozenset({"", YOU, *PRONOUNS})
UNKNOWN = 2.5
"""The weight of a token that a card does not have, in nats."""


class _Index:
    """Texts as sets of tokens, by token."""

    def __init__(self, texts: Sequence[Iterable[str]]) -> None:
        self.size = len(texts)
        postings: dict[str, list[int]] = {}
        for number, tokens in enumerate(texts):
            for token in tokens:
                postings.setdefault(token, []).append(number)
        self._postings = {token: np.array(at, dtype=np.intp) for token, at in postings.items()}

    def weigh(self, weights: Iterable[tuple[str, float]]) -> np.ndarray:
        """Of each text, the weights summed of those tokens that it has."""
        found, postings = np.zeros(self.size), self._postings
        for token, weight in weights:
            if token in postings:
                found[postings[token]] += weight
        return found

    def count(self, tokens: Iterable[str]) -> np.ndarray:
        found = [at for at in map(self._postings.get, tokens) if at is not None]
        return (
            np.bincount(np.concatenate(found), minlength=self.size)
            if found
            else np.zeros(self.size)
        )


class Card:
    """All that one persona can say."""

    def __init__(self, persona: Persona) -> None:
        self.facts = compile_fact_base(persona)
        self._token_of = Memo(self._find_token, _MOST_KEPT).__getitem__
        self.topics = tuple(_list_topics(self, persona))
        self._people = frozenset(one.token for one in self.facts.people)
        lines = [(at, text) for at, topic in enumerate(self.topics) for text in topic.lines]
        self._lines = Memo[str, Line](lambda text: self._compile_lines([text])[0], _MOST_KEPT)
        self.line = self._lines.__getitem__
        """A line that the person may say. Kept, because lines come again."""
        self.people_in = Memo(self._find_people, _MOST_KEPT).__getitem__
        """Tokens of the people whom a text names, the last ones first. Kept for the next turns."""
        texts = [text for _, text in lines]
        self._line_vectors = embed_texts([split_words(text) for text in texts])
        self._lines.update(zip(texts, self._compile_lines(texts), strict=True))
        self._line_starts = np.unique([at for at, _ in lines], return_index=True)[1]
        bodies = [self._body(topic) for topic in self.topics]
        count: dict[str, int] = {}
        for body in bodies:
            for token in body:
                count[token] = count.get(token, 0) + 1
        size = len(self.topics)
        self._weights = {token: math.log(1 + size / n) for token, n in count.items()}
        self._weights.update(dict.fromkeys((YOU, *PRONOUNS), 0.4))
        ways = [(number, way) for number, topic in enumerate(self.topics) for way in topic.ways]
        self.way_owner = np.array([number for number, _ in ways], dtype=np.intp)
        self._phrases = _Index([frozenset(way) for _, way in ways])
        self._phrase_roots = np.sqrt([max(1, len(frozenset(way))) for _, way in ways])
        self._way_vectors = embed_texts([way for _, way in ways])
        self._has_ways, self._starts = np.unique(self.way_owner, return_index=True)
        self._bodies = _Index(bodies)
        self._abouts = _Index([topic.about - {YOU} for topic in self.topics])
        self._asks = {ask: np.zeros(size) for ask in Ask}
        asked_who = np.zeros(size)
        for number, topic in enumerate(self.topics):
            for way in topic.ways:
                read = parse_utterance(f"{' '.join(way)}?").sentences
                if read and read[-1].ask is not None:
                    self._asks[read[-1].ask][number] = 1.0
                    asked_who[number] += read[-1].ask is Ask.WHO
        count_ways = [len(topic.ways) for topic in self.topics]
        self.says_who = (asked_who >= count_ways) & (np.array(count_ways) > 0)
        """Of each topic, whether all that asks for it asks who somebody is."""
        self._personal = np.array([float(topic.is_personal) for topic in self.topics])
        self._is_fact = np.array([float(topic.kind == "fact") for topic in self.topics])
        self._of_person = [topic.person for topic in self.topics]
        self.disclosures = self._telling(
            [(one, one.lines[0]) for one in self.topics if one.kind == "disclosure"]
        )
        self.beside = self._telling(
            [
                (one, line)
                for one in self.topics
                if not one.is_personal and one.kind in ("fact", "thread")
                for line in one.lines
                if makes_sense_alone(line)
            ]
        )
        self.suggested = self._telling(
            [
                (one, " ".join(way))
                for one in self.topics
                if one.kind == "suggestion"
                for way in one.ways
            ]
        )
        self.threads = tuple(one for one in self.topics if one.kind == "thread")
        self.of_person = {(one.person, one.key): one for one in self.topics if one.kind == "person"}
        self.number = {(topic.kind, topic.key): at for at, topic in enumerate(self.topics)}

    def _find_token(self, word: str) -> str:
        """The token of a word, people by one token each; empty for words that say nothing."""
        token = token_of(word)
        return self.facts.alias(token) or token if token else ""

    def _compile_lines(self, texts: Sequence[str]) -> list[Line]:
        each = [split_words(text) for text in texts]
        vectors = embed_texts(each) / SCALE
        return [
            Line(words, self.content(words), vector)
            for words, vector in zip(each, vectors, strict=True)
        ]

    def _telling(self, pairs: Sequence[tuple[Topic, str]]) -> Telling:
        vectors = embed_texts([split_words(line) for _, line in pairs]) / SCALE
        return Telling(
            tuple(topic for topic, _ in pairs), tuple(line for _, line in pairs), vectors
        )

    def tokens(self, words: Iterable[str]) -> frozenset[str]:
        return frozenset(map(self._token_of, words)) - _NOTHING

    def content(self, words: Iterable[str]) -> frozenset[str]:
        """The same without pronouns and the person themself."""
        return frozenset(map(self._token_of, words)) - _NO_MATTER

    def _find_people(self, text: str) -> tuple[str, ...]:
        tokens = map(self._token_of, reversed(split_words(text)))
        return tuple(filter(self.facts.people_meant.__contains__, tokens))

    def weigh(self, tokens: Collection[str]) -> float:
        """How much tokens say, in nats."""
        weights = self._weights
        return math.fsum([weights.get(token, UNKNOWN) for token in tokens]) if tokens else 0.0

    def _best_way(self, values: np.ndarray) -> np.ndarray:
        found = np.zeros(len(self.topics))
        found[self._has_ways] = np.maximum.reduceat(values, self._starts)
        return found

    def query(self, sentence: Sentence, referents: Iterable[str] = ()) -> Query:
        """A question; `referents`: tokens of those whom its pronouns mean."""
        words = sentence.asked[:_MOST_WORDS]
        tokens = self.tokens(words)
        pronouns = tokens & PRONOUNS
        is_of_others = bool(pronouns) and YOU not in tokens
        if pronouns:
            tokens = tokens - PRONOUNS | frozenset(referents)
        people = frozenset([token for token in tokens if token in self._people])
        return Query(sentence.ask or Ask.WHAT, words, tokens, people, is_of_others)

    def features(self, query: Query, leave_out: int | None = None) -> np.ndarray:
        """How each topic fits a question: features × topics. `leave_out`: a way of asking that is
        not compared, for a fit.
        """
        content = [
            (token, self._weights.get(token, UNKNOWN))
            for token in sorted(query.tokens)
            if token != YOU and token not in PRONOUNS
        ]
        total = math.fsum([weight for _, weight in content]) or 1.0
        words = frozenset(query.words)
        vector = embed_text(query.words)
        phrases = self._phrases.count(words) / (self._phrase_roots * math.sqrt(max(1, len(words))))
        vectors = compute_cosine_similarity(self._way_vectors, vector)
        covered = self._bodies.weigh(content) / total
        if leave_out is not None:
            phrases[leave_out] = vectors[leave_out] = 0.0
            owner = int(self.way_owner[leave_out])
            rest = self._body(self.topics[owner], leave_out - self._first_way(owner))
            covered[owner] = math.fsum([w for token, w in content if token in rest]) / total
        phrase, vector_alike = self._best_way(phrases), self._best_way(vectors)
        other = (
            [one is not None and one not in query.people for one in self._of_person]
            if query.people
            else 0.0
        )
        found = np.empty((len(FEATURES), len(self.topics)))
        for at, values in enumerate(
            (
                phrase,
                phrase**2,
                covered,
                self._abouts.weigh(content) / total,
                vector_alike,
                vector_alike**2,
                np.maximum.reduceat(
                    compute_cosine_similarity(self._line_vectors, vector), self._line_starts
                ),
                self._asks[query.ask],
                self._personal * float(query.is_of_others),
                other,
                self._is_fact,
                self._personal,
            )
        ):
            found[at] = values
        return found

    def probabilities(self, query: Query) -> tuple[np.ndarray, float]:
        """Of each topic, how probable it is that it is what was asked for; and that none is."""
        if not query.tokens:
            return np.zeros(len(self.topics)), 1.0
        found = WEIGHTS @ self.features(query)
        none = NONE[0] + NONE[1] * (query.ask in FACTUAL) + NONE[2] * math.log(len(query.tokens))
        top = max(float(found.max()), none)
        shares, rest = np.exp(found - top), math.exp(none - top)
        total = float(shares.sum()) + rest
        return shares / total, rest / total

    def _first_way(self, owner: int) -> int:
        return int(np.searchsorted(self.way_owner, owner))

    def _body(self, topic: Topic, but: int | None = None) -> frozenset[str]:
        """The tokens of a topic's lines and ways of asking, `but` one of these."""
        ways = [way for at, way in enumerate(topic.ways) if at != but]
        lines = [self._lines[line].words for line in topic.lines]
        return self.tokens(chain.from_iterable((*lines, *ways))).union(topic.about) - PRONOUNS


def _list_topics(card: Card, persona: Persona) -> Iterable[Topic]:
    situation, person = persona.situation, persona.person
    people = {one.name: one.token for one in card.facts.people}

    def topic(kind: Kind, key: str, lines: Sequence[str], **given) -> Topic:
        item: Fact | None = given.get("item")
        about = tuple(item.about) if item else given.get("about", ())
        ways = tuple(
            _extract_question_words(way) for way in (item.asked if item else given.get("ways", ()))
        )
        tokens = card.tokens(chain.from_iterable(map(split_words, about)))
        named = [token for token in people.values() if token in tokens]
        return Topic(
            kind, key, tuple(lines), item and item.high, item and item.low,
            item.depth if item else given.get("depth", 1), ways, tokens,
            given.get("person") or (named[0] if len(named) == 1 else None),
            given.get("is_personal", False),
        )  # fmt: skip

    for is_personal, facts in ((False, situation.facts), (True, person.facts)):
        for fact in facts:
            yield topic("fact", fact.id, fact.answers, item=fact, is_personal=is_personal)
    answers = {
        **situation.answers,
        **{
            name: lines
            for name, lines in person.answers.items()
            if name in PERSONAL_INQUIRIES or name not in situation.answers
        },
    }
    for label, lines in answers.items():
        yield topic("inquiry", str(label), lines)
    for name, of in situation.about_people.items():
        for label, lines in of.items():
            yield topic("person", str(label), lines, about=(name,), person=people[name])
    for feeling, lines in situation.feelings.items():
        yield topic("feeling", str(feeling), lines, about=(str(feeling),))
    for number, one in enumerate(situation.suggestions):
        yield topic("suggestion", str(number), one.reply, about=one.to, ways=one.to)
    for number, thread in enumerate(situation.threads):
        yield topic("thread", str(number), thread.lines, about=thread.about)
    for item in situation.disclosures:
        yield topic("disclosure", item.id, (item.normal, item.high, item.low), depth=item.depth)

    for other in situation.people:
        who = card.facts.person(people[other.name])
        if who is not None:
            ways = (f"Who is {other.name}?",)
            yield topic("background", other.name, (who.told,), about=(other.name,), ways=ways)
    for number, moment in enumerate(situation.timeline):
        yield topic("background", f"timeline.{number}", (moment.what,), about=(moment.when,))
    for number, text in enumerate((*situation.tried, *split_sentences(situation.now))):
        yield topic("background", f"tried.{number}", (text,), depth=2)


def _extract_question_words(text: str) -> tuple[str, ...]:
    sentences = parse_utterance(text).sentences
    return sentences[-1].asked[:_MOST_WORDS] if sentences else split_words(text)


def makes_sense_alone(text: str) -> bool:
    """Whether an answer makes sense without its question: long enough, and it begins with who does
    what.
    """
    words = split_words(text)
    return len(words) >= 6 and (
        words[0] in ("i", "we", "my")
        or (
            text[:1].isupper()
            and words[0] not in FUNCTION_WORDS
            and words[1:2] in (("is",), ("was",), ("has",), ("had",), ("says",), ("said",))
        )
    )


@cache_by_parts("person", "situation")
def compile_card(persona: Persona) -> Card:
    return Card(persona)
