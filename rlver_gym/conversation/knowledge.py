"""Knowledge: what a persona's card can answer, and with which words.

Compiled once a card; knows no dialogue.
"""

import math
from collections.abc import Iterable
from itertools import chain, repeat
from typing import Literal, NamedTuple

import numpy as np

from rlver_gym.conversation.index import TokenIndex
from rlver_gym.conversation.parse import NEGATIONS, QuestionKind, question_in
from rlver_gym.core.persona import Disclosure, Fact, Other, Persona
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.io.frozen import cache_by_parts
from rlver_gym.text.tokens import (
    PRONOUNS,
    YOU,
    Amount,
    amounts_of,
    may_have_amounts,
    token_of,
    tokens_of,
)

Kind = Literal["fact", "disclosure", "background"]


class Statement(NamedTuple):
    """A sentence of the card, ready to be compared with what others say."""

    text: str
    tokens: frozenset[str]
    amounts: frozenset[Amount]
    people: frozenset[str]
    """Whom it names, as tokens."""
    is_negative: bool
    entry: int
    """The entry that it belongs to."""
    weight: float
    """That of its tokens, without the person themself."""


class Paraphrase(NamedTuple):
    """One way of asking."""

    kind: QuestionKind
    tokens: frozenset[str]
    weight: float
    """The square root of its tokens' weights summed."""
    words: frozenset[str]


class Entry(NamedTuple):
    """Something that the person knows."""

    id: str
    kind: Kind
    depth: int
    item: Fact | Disclosure | None
    texts: tuple[str, ...]
    """In the person's words, each a whole answer."""
    paraphrases: tuple[Paraphrase, ...]
    asks: frozenset[QuestionKind]
    body: frozenset[str]
    """Tokens of its answers and questions."""
    about: frozenset[str]
    is_personal: bool
    answerable: frozenset[QuestionKind]
    """The kinds of question that its answers can answer at all: "when" takes a time, "how many" a
    number.
    """


class QuestionFit(NamedTuple):
    """How entries fit one kind of question; arrays as long as there are entries."""

    asked: np.ndarray
    """Whether one of their paraphrases asks so."""
    unfit: np.ndarray
    """Whether they cannot answer it."""


_KIND_PRIORS: dict[Kind, float] = {"fact": 0.0, "disclosure": -3.3, "background": -3.46}
"""What speaks for an entry of each kind by itself, in nats; fitted as the weights in `find`."""


class Knowledge:
    """All that one persona can be asked, indexed by token."""

    def __init__(self, persona: Persona) -> None:
        """Compile the card."""
        situation = persona.situation
        self.people = tuple(_NamedPerson.of(other) for other in situation.people)
        self.alias = _aliases(self.people)
        """Tokens by which somebody is meant: "dad" for the father who is called Karl."""
        self.person_tokens = frozenset(self.alias.values())
        self.names = frozenset(
            word
            for other in situation.people
            for word in split_words(other.name)
            if word not in ("mr", "mrs", "ms", "dr")
        )
        """Lower-case words that name somebody."""
        self._token_cache: dict[str, frozenset[str]] = {}
        drafts = list(_drafts(persona))
        self.weight = _weights(self, drafts)
        self.entries = tuple(self._entry(draft) for draft in drafts)
        self._disclosures = {
            entry.id: number
            for number, entry in enumerate(self.entries)
            if entry.kind == "disclosure"
        }
        self._token_cache.clear()
        self._index_entries()
        self.statements = tuple(
            self.statement(text, number)
            for number, entry in enumerate(self.entries)
            for text in dict.fromkeys(_all_texts(entry, situation.people))
        )
        self.statement_index = TokenIndex(
            [statement.tokens - {YOU} for statement in self.statements]
        )
        self.statement_weights = np.array([statement.weight for statement in self.statements])
        self.false = tuple(
            (self.statement(text, number), number)
            for number, entry in enumerate(self.entries)
            if isinstance(entry.item, Fact)
            for text in entry.item.wrong
        )
        self.falsehoods = TokenIndex([statement.tokens - {YOU} for statement, _ in self.false])
        self.false_weights = np.array([statement.weight for statement, _ in self.false])
        self.vocabulary = frozenset().union(*(statement.tokens for statement in self.statements))
        self.words = frozenset(
            word for entry in self.entries for text in entry.texts for word in split_words(text)
        ) | frozenset(
            split_words(
                " ".join(
                    [
                        persona.person.name,
                        persona.person.work,
                        situation.title,
                        *(f"{other.who} {other.name}" for other in situation.people),
                    ]
                )
            )
        )

    def _index_entries(self) -> None:
        """Everything by which questions are compared with all entries at once."""
        each = [
            (number, one) for number, entry in enumerate(self.entries) for one in entry.paraphrases
        ]
        self.paraphrases = TokenIndex([one.tokens for _, one in each])
        self.paraphrase_roots = np.array([one.weight for _, one in each])
        self.phrases = TokenIndex([one.words for _, one in each])
        self.phrase_roots = np.sqrt([max(1, len(one.words)) for _, one in each])
        self._asked_entries, self._starts = np.unique(
            [number for number, _ in each], return_index=True
        )
        self.bodies = TokenIndex([entry.body for entry in self.entries])
        self.abouts = TokenIndex([entry.about - {YOU} for entry in self.entries])
        self.is_personal = np.array([entry.is_personal for entry in self.entries], dtype=float)
        self.is_of_somebody = np.array(
            [bool(entry.about & self.person_tokens) for entry in self.entries], dtype=float
        )
        self.kind_prior = np.array([_KIND_PRIORS[entry.kind] for entry in self.entries])
        size = len(self.entries)
        self.question_fits = {
            kind: QuestionFit(np.zeros(size), np.ones(size)) for kind in QuestionKind
        }
        for number, entry in enumerate(self.entries):
            for kind in entry.asks:
                self.question_fits[kind].asked[number] = 1.0
            for kind in entry.answerable:
                self.question_fits[kind].unfit[number] = 0.0

    def best_paraphrase(self, values: np.ndarray) -> np.ndarray:
        """Of each entry, the highest of its paraphrases' values; 0 for one without any."""
        found = np.zeros(len(self.entries))
        if len(values):
            found[self._asked_entries] = np.maximum.reduceat(values, self._starts)
        return found

    def weights_of(self, tokens: Iterable[str]) -> dict[str, float]:
        """How much each token says, in nats."""
        return {token: self.weight.get(token, UNKNOWN) for token in tokens}

    def disclosure_entry(self, name: str) -> tuple[Entry, ...]:
        """The entry of a disclosure, by its id."""
        found = self._disclosures.get(name)
        return (self.entries[found],) if found is not None else ()

    def tokens(self, words: Iterable[str]) -> frozenset[str]:
        """The tokens of some words, people by one token each."""
        alias = self.alias
        return frozenset([alias.get(token, token) for token in tokens_of(list(words))])

    def tokens_in(self, text: str) -> frozenset[str]:
        """The tokens of one of the card's own texts. Kept while the card is compiled."""
        found = self._token_cache.get(text)
        if found is None:
            found = self._token_cache[text] = self.tokens(split_words(text))
        return found

    def claim_tokens(self, words: Iterable[str]) -> frozenset[str]:
        """The tokens of a claim: as `tokens`, and relations beside the people whom they mean."""
        return self.tokens(words) | (frozenset(tokens_of(list(words))) & RELATIONS)

    def weigh(self, tokens: Iterable[str]) -> float:
        """How much tokens say, summed exactly, so that their order does not matter; in nats."""
        return math.fsum(map(self.weight.get, tokens, repeat(UNKNOWN)))

    def statement(self, text: str, entry: int) -> Statement:
        """A sentence, compiled."""
        words = split_words(text)
        tokens = {
            YOU if word in ("i", "me", "my", "mine", "myself") else token
            for word in words
            if (token := token_of(word)) or word in ("i", "me", "my", "mine", "myself")
        }
        known = frozenset(self.alias.get(token, token) for token in tokens) | (tokens & RELATIONS)
        return Statement(
            text,
            known,
            amounts_of(words) if may_have_amounts(words) else frozenset(),
            known & self.person_tokens,
            not NEGATIONS.isdisjoint(words),
            entry,
            self.weigh(known - {YOU}) or 1.0,
        )

    def _entry(self, draft: "_Draft") -> Entry:
        paraphrases = tuple(self._paraphrase(question) for question in draft.asked)
        own = frozenset().union(*map(self.tokens_in, draft.texts + draft.extra))
        about = frozenset().union(*map(self.tokens_in, draft.about))
        body = own.union(about, *(paraphrase.tokens for paraphrase in paraphrases)) - PRONOUNS
        return Entry(
            draft.id,
            draft.kind,
            draft.depth,
            draft.item,
            draft.texts,
            paraphrases,
            frozenset(one.kind for one in paraphrases),
            body,
            about,
            draft.is_personal,
            (
                _ONLY_WHO
                if draft.id.startswith("people.")
                else answerable_questions(draft.texts, self.person_tokens)
            ),
        )

    def _paraphrase(self, text: str) -> Paraphrase:
        question = question_in(text)
        words = question.words if question else split_words(text)
        tokens = self.tokens(words)
        kind = question.kind if question else QuestionKind.WHAT
        return Paraphrase(kind, tokens, math.sqrt(self.weigh(tokens)) or 1.0, frozenset(words))


_ONLY_WHO = frozenset({QuestionKind.WHO})
UNKNOWN = 2.5
"""The weight of a token that a card does not have, in nats."""
_TIMES = frozenset(
    """ago since until till before after when while always never yet still already now today
    tonight yesterday tomorrow day night evening morning noon midnight week weekend month
    year summer winter spring autumn last next first every early late soon often once""".split()
)
_PLACES = frozenset(
    "in at on under behind to from by near home here there nowhere everywhere inside outside"
    " upstairs downstairs next across round into".split()
)
_PERSONS = frozenset(
    """i me my we nobody no everyone everybody someone somebody he she they him her them
    myself""".split()
)


def answerable_questions(texts: tuple[str, ...], people: frozenset[str]) -> frozenset[QuestionKind]:
    """The kinds of question that some texts can answer at all: "when" needs a time, "how many" a
    number.
    """
    each = [split_words(text) for text in texts]
    words = frozenset(chain.from_iterable(each))
    tokens = frozenset(map(token_of, words))
    found = set(QuestionKind) - {
        QuestionKind.WHEN,
        QuestionKind.WHERE,
        QuestionKind.WHO,
        QuestionKind.HOW_LONG,
        QuestionKind.HOW_MANY,
    }
    amounts = any(amounts_of(one) for one in each if may_have_amounts(one))
    if amounts or words & _TIMES:
        found |= {QuestionKind.WHEN, QuestionKind.HOW_LONG}
    if amounts or words & {
        "all",
        "none",
        "no",
        "every",
        "many",
        "few",
        "once",
        "half",
        "both",
        "one",
        "never",
        "often",
        "nothing",
    }:
        found |= {QuestionKind.HOW_MANY, QuestionKind.HOW_LONG}
    if words & _PLACES:
        found.add(QuestionKind.WHERE)
    if words & _PERSONS or tokens & (people | RELATIONS):
        found.add(QuestionKind.WHO)
    return frozenset(found)


class _NamedPerson(NamedTuple):
    """Somebody of the story."""

    name: str
    token: str
    pronoun: str
    nouns: frozenset[str]
    """Tokens of what they are: "uncle", "boss"."""

    @staticmethod
    def of(other: Other) -> "_NamedPerson":
        """From the card."""
        token = token_of(split_words(other.name)[-1])
        nouns = [_last_relation(other.who), _last_relation(other.introduction or "")]
        return _NamedPerson(other.name, token, other.pronoun, frozenset(filter(None, nouns)))


def _last_relation(text: str) -> str:
    """The last noun of a relation: "my daughter's best friend" is a friend."""
    found = [token for token in map(token_of, split_words(text)) if token in RELATIONS]
    return found[-1] if found else ""


RELATIONS = frozenset(
    map(
        token_of,
        """mum dad sister brother son daughter wife husband boyfriend girlfriend partner gran
        grandad aunt uncle cousin nephew niece friend boss manager colleague neighbour
        flatmate doctor teacher ex landlord landlady tutor professor nurse therapist
        lawyer brother-in-law sister-in-law fiance fiancee stepmother stepfather
        godmother godfather""".split(),
    )
)


def _aliases(people: tuple[_NamedPerson, ...]) -> dict[str, str]:
    """Token of a name or of a relation that only one of the people has → their token."""
    found: dict[str, str] = {}
    for one in people:
        for word in split_words(one.name):
            if token_of(word) and word not in ("mr", "mrs", "ms", "dr"):
                found[token_of(word)] = one.token
    for one in people:
        for noun in one.nouns:
            if sum(noun in other.nouns for other in people) == 1:
                found.setdefault(noun, one.token)
    return found


class _Draft(NamedTuple):
    id: str
    kind: Kind
    depth: int
    item: Fact | Disclosure | None
    texts: tuple[str, ...]
    extra: tuple[str, ...]
    asked: tuple[str, ...]
    about: tuple[str, ...]
    is_personal: bool


def _drafts(persona: Persona) -> Iterable[_Draft]:
    situation, person = persona.situation, persona.person
    for is_personal, facts in ((False, situation.facts), (True, person.facts)):
        for fact in facts:
            tones = tuple(filter(None, (fact.high, fact.low)))
            yield _Draft(
                fact.id,
                "fact",
                fact.depth,
                fact,
                (*fact.answers, *tones),
                fact.right,
                fact.asked,
                fact.about,
                is_personal,
            )
    for item in situation.disclosures:
        yield _Draft(
            item.id,
            "disclosure",
            item.depth,
            item,
            (item.normal, item.high, item.low),
            (),
            (),
            (),
            False,
        )
    for other in situation.people:
        told = who_is(other)
        yield _Draft(
            f"people.{other.name}",
            "background",
            1,
            None,
            (told,),
            (),
            (f"Who is {other.name}?",),
            (other.name,),
            False,
        )
    for number, moment in enumerate(situation.timeline):
        yield _Draft(
            f"timeline.{number}",
            "background",
            1,
            None,
            (moment.what,),
            (moment.when, moment.felt),
            (),
            (),
            False,
        )
    for number, text in enumerate(situation.tried):
        yield _Draft(f"tried.{number}", "background", 1, None, (text,), (), (), (), False)
    for number, text in enumerate(split_sentences(situation.cause)):
        yield _Draft(f"cause.{number}", "background", 1, None, (text,), (), (), (), False)
    for number, text in enumerate(split_sentences(situation.now)):
        yield _Draft(f"now.{number}", "background", 2, None, (text,), (), (), (), False)


def who_is(other: Other) -> str:
    """Who somebody is, as a sentence of the person: "Maud is Saskia's sister."."""
    told = (other.introduction or "").replace(other.name, "").strip(" ,")
    return f"{other.name} is {told or other.who}."


def _all_texts(entry: Entry, people: tuple[Other, ...]) -> Iterable[str]:
    for text in entry.texts:
        yield from split_sentences(text)
    if isinstance(entry.item, Fact):
        yield from entry.item.right
        if entry.item.correction:
            yield entry.item.correction


def _weights(knowledge: Knowledge, drafts: list[_Draft]) -> dict[str, float]:
    """How much a token says about what is meant: the rarer among the entries, the more (inverse
    document frequency).
    """
    count: dict[str, int] = {}
    for draft in drafts:
        tokens = frozenset().union(
            *map(knowledge.tokens_in, (*draft.texts, *draft.asked, *draft.extra, *draft.about))
        )
        for token in tokens:
            count[token] = count.get(token, 0) + 1
    size = len(drafts)
    found = {token: math.log(1 + size / number) for token, number in count.items()}
    return found | dict.fromkeys((YOU, *PRONOUNS), 0.4)


@cache_by_parts("person", "situation")
def knowledge(persona: Persona) -> Knowledge:
    """The knowledge of a persona, compiled once."""
    return Knowledge(persona)
