"""Facts: what a card states, ready to be compared with what is said: sentences with their people,
quantities and dates, and who everybody is. Compiled once a card; knows no dialogue.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from rlver_gym.core.persona import Other, Persona
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.users.embedded.hearing.names import remove_introductions
from rlver_gym.users.embedded.hearing.quantities import Quantity, find_quantities
from rlver_gym.users.embedded.hearing.tokens import PRONOUNS, YOU, token_of
from rlver_gym.users.embedded.hearing.utterance_parser import FACTUAL, parse_utterance
from rlver_gym.users.embedded.hearing.words import load_word_groups, load_word_set
from rlver_gym.util.frozen import Memo, cache_by_parts

WEEKDAYS, MONTHS = load_word_set("weekdays"), load_word_set("months")
DATES = WEEKDAYS | MONTHS
RELATION_OF = {word: group[0] for group in load_word_groups("relations") for word in group}
"""By any word for a relation, the one that stands for all that mean it."""
RELATIONS = frozenset(RELATION_OF)
_COUNTERPARTS = {
    one: other for pair in load_word_groups("counterparts") for one, other in (pair, pair[::-1])
}
_NEARLY_SAME = tuple(map(frozenset, load_word_groups("relations nearly the same")))
OCCUPATIONS = load_word_set("occupations")
_NO_MATTER = frozenset({"", YOU, *PRONOUNS})


class Statement(NamedTuple):
    """A sentence, ready to be compared."""

    text: str
    words: frozenset[str]
    content: frozenset[str]
    """Tokens without people, pronouns and quantities."""
    people: frozenset[str]
    """Tokens of those of the story whom it names."""
    quantities: tuple[Quantity, ...]
    dates: tuple[str, ...]


class StoryPerson(NamedTuple):
    """Somebody of the story."""

    name: str
    token: str
    relations: frozenset[str]
    """What they are to the person, with what is nearly the same."""
    who: str
    """The same in words: "my flatmate"."""
    told: str
    """As a sentence: "Marnie is my flatmate."."""
    pronoun: str


class FactBase:
    """All that one card states."""

    def __init__(self, persona: Persona) -> None:
        situation, person = persona.situation, persona.person
        self._situation = situation
        self.people = tuple(map(_make_story_person, situation.people))
        self.name_words = {
            word: one
            for one in self.people
            for word in split_words(one.name)
            if word not in ("mr", "mrs", "ms", "dr") and word not in RELATIONS
        }
        self._alias = {token_of(word): one.token for word, one in self.name_words.items()}
        for one in self.people:
            for word in split_words(one.name):
                if word in RELATIONS:
                    self._alias[token_of(word)] = one.token
        for relation in {r for one in self.people for r in _find_stated_relations(one.who)}:
            having = [one for one in self.people if relation in _find_stated_relations(one.who)]
            if len(having) == 1:
                self._alias.setdefault(token_of(relation), having[0].token)
        texts = list(dict.fromkeys(_list_true_sentences(persona)))
        each = [split_words(text) for text in texts]
        self.words = frozenset(word for words in each for word in words) | frozenset(
            split_words(person.name)
        )
        self.vocabulary = frozenset(map(token_of, self.words))
        self.relations_mentioned = frozenset(
            RELATION_OF[word] for word in self.words if word in RELATIONS
        ) | frozenset(r for one in self.people for r in one.relations)
        count: dict[str, int] = {}
        for words in each:
            for token in set(map(token_of, words)):
                count[token] = count.get(token, 0) + 1
        size = len(each)
        self._weights = {
            token: min(4.0, math.log(1 + size / n) * 0.6) for token, n in count.items()
        }
        self.statements = tuple(
            compile_statement(self, text, words) for text, words in zip(texts, each, strict=True)
        )
        self.statements_with_quantities = tuple(one for one in self.statements if one.quantities)
        self._by_text = {one.text: one for one in self.statements}
        self.counted = frozenset(q.kind for one in self.statements for q in one.quantities)
        """What it has numbers of."""
        self.dates = frozenset(date for one in self.statements for date in one.dates)
        self.work = person.work
        self.work_answer = next(
            (
                fact.answers[-1]
                for word in ("job", "work", "studies")
                for fact in person.facts
                if word in fact.id.split("-")
            ),
            "",
        )
        self.find_statements = Memo(self._find_statements, 2_000).__getitem__
        """The sentences of a line that the person said after an utterance. Kept: they say what is
        on the card.
        """

    def _find_statements(self, exchange: tuple[str, str]) -> tuple[Statement, ...]:
        """What a question asked belongs to its answer: who filmed it, to "It was Jodie."."""
        asked, line = exchange
        found = tuple(
            self._by_text.get(text) or compile_statement(self, text, split_words(text))
            for text in split_sentences(remove_introductions(self._situation, line))
        )
        questions = [one for one in parse_utterance(asked).questions if one.ask in FACTUAL]
        if questions and found:
            content = compile_statement(self, "", questions[-1].asked).content
            found = (found[0]._replace(content=found[0].content | content), *found[1:])
        return found

    @cached_property
    def people_tokens(self) -> frozenset[str]:
        return frozenset(self._alias)

    @cached_property
    def people_meant(self) -> frozenset[str]:
        """The tokens that stand for them, one each."""
        return frozenset(self._alias.values())

    def weigh(self, tokens: Iterable[str]) -> float:
        """How much tokens say, in nats."""
        weights = self._weights
        return math.fsum([weights.get(token, 2.0) for token in tokens])

    def alias(self, token: str) -> str | None:
        return self._alias.get(token)

    def person(self, token: str) -> StoryPerson | None:
        return next((one for one in self.people if one.token == token), None)

    def by_relation(self, word: str) -> StoryPerson | None:
        relation = RELATION_OF[word]
        found = [one for one in self.people if relation in _find_stated_relations(one.who)]
        return found[0] if len(found) == 1 else None

    def counterpart(self, word: str) -> StoryPerson | None:
        """The one who is the brother where a sister was said."""
        other = _COUNTERPARTS.get(RELATION_OF[word])
        found = (
            [one for one in self.people if other in _find_stated_relations(one.who)]
            if other
            else []
        )
        return found[0] if len(found) == 1 else None

    def resembling(self, name: str) -> StoryPerson | None:
        """The one whose name a strange one is nearly ("Yunus" for Yusuf)."""
        for word, one in self.name_words.items():
            if word[0] == name[0] and _edit_distance(word, name) <= max(2, len(word) // 2):
                return one
        return None


def _find_stated_relations(text: str) -> list[str]:
    """The relation that "my daughter's best friend" is: the last one before "of" and "who"."""
    words = split_words(text)
    for stop in ("of", "who", "from", "at", "in", "with"):
        if stop in words:
            words = words[: words.index(stop)]
    found = [RELATION_OF[word] for word in words if word in RELATIONS]
    return found[-1:]


def _make_story_person(other: Other) -> StoryPerson:
    introduction = (other.introduction or "").replace(other.name, "").strip(" ,")
    base = {
        *_find_stated_relations(other.who),
        *_find_stated_relations(introduction),
        *(RELATION_OF[word] for word in split_words(other.name) if word in RELATIONS),
        *(RELATION_OF[w] for w in split_words(f"{other.who} {introduction}") if w in RELATIONS),
    }
    wide = set(base)
    for group in _NEARLY_SAME:
        if base & group:
            wide |= group
    who = introduction or other.who
    return StoryPerson(
        other.name,
        token_of(split_words(other.name)[-1]),
        frozenset(wide) if base else frozenset(),
        who,
        f"{other.name} is {who}.",
        other.pronoun,
    )


def _list_true_sentences(persona: Persona) -> Iterable[str]:
    situation, person = persona.situation, persona.person
    for text in (
        situation.title,
        situation.cause,
        situation.now,
        situation.conflict.event,
        situation.conflict.cause,
        situation.conflict.between,
        *situation.tried,
        *(text for one in situation.timeline for text in (one.what, one.when)),
        *(line for _, line in situation.lines()),
        *(f"{one.name} is {one.introduction or one.who}." for one in situation.people),
        *(text for one in situation.people for text in one.may),
        *(text for lines in situation.answers.values() for text in lines),
        *(
            text
            for of in situation.about_people.values()
            for lines in of.values()
            for text in lines
        ),
        *(text for lines in situation.feelings.values() for text in lines),
        *(text for one in situation.suggestions for text in one.reply),
        *(text for one in situation.threads for text in one.lines),
        person.work,
        person.habits,
        *person.interests,
        f"I am {person.age} years old.",
        *(text for lines in person.answers.values() for text in lines),
    ):
        yield from split_sentences(text)
    for fact in (*situation.facts, *person.facts):
        for text in (*fact.answers, fact.high, fact.low, fact.correction, *fact.right, *fact.key):
            if text:
                yield from split_sentences(text)


def compile_statement(known: FactBase, text: str, words: Sequence[str]) -> Statement:
    content = set(map(token_of, words)) - _NO_MATTER
    named = content & known.people_tokens
    content -= named
    quantities = find_quantities(words)
    dates = tuple(dict.fromkeys(word for word in words if word in DATES))
    if dates:
        content.difference_update(map(token_of, dates))
    for one in quantities:
        content.difference_update(token_of(word) for word in one.text.split()[:-1])
    return Statement(
        text,
        frozenset(words),
        frozenset(content),
        frozenset(whom for word in named if (whom := known.alias(word))),
        quantities,
        dates,
    )


@cache_by_parts("person", "situation")
def compile_fact_base(persona: Persona) -> FactBase:
    return FactBase(persona)


def _edit_distance(one: str, other: str) -> int:
    """How many letters must be changed, added or left out (Levenshtein)."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        last, row[0] = row[0], at
        for to, against in enumerate(other, 1):
            last, row[to] = row[to], min(row[to] + 1, row[to - 1] + 1, last + (letter != against))
    return row[-1]
