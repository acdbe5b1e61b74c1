"""Find: which entry of what the person knows answers a question.

Pure; the weights are fitted on labelled questions about train people.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from rlver_gym.conversation.knowledge import Entry, Knowledge
from rlver_gym.conversation.parse import Question, QuestionKind
from rlver_gym.text.tokens import PRONOUNS, YOU

_MAX_TOKENS = 30
_OTHER_PERSON_COST = 2.5
"""What it costs an entry to be about somebody else than the one who is asked about, in nats."""
_MAX_CANDIDATES = 6
"""How many of the best entries are considered, for one that was not told yet."""


class Weights(NamedTuple):
    """What speaks for an entry; shares are in [0, 1]."""

    alike: float
    """Similarity to the most similar of its paraphrases by what they turn on (cosine)."""
    covered: float
    """Share of the question's weight that it mentions anywhere, in these words or nearly."""
    literal: float
    """The same in these very words."""
    about: float
    """Share of the question's weight, without the person, that is what it is about."""
    phrase: float
    """Similarity to the most similar of its paraphrases by all words, little ones too (cosine)."""
    phrase_squared: float
    asks: float
    """Whether one of its paraphrases asks for the same kind of answer."""
    misplaced: float
    """Whether it is about the person while somebody else is asked about."""
    unfit: float
    """Whether its answers cannot answer that kind of question, such as one without any time a
    "when".
    """


WEIGHTS = Weights(0.5, 4.84, 0.26, 3.86, 4.2, 2.87, 0.81, -4.13, -1.8)
"""In nats. A softmax over all entries and "none of them", fitted on 5,900 questions about people of
all splits but test, each left out of the card that was to answer it, and 2,000 that no fact
answers.
"""


class NoneOfThem(NamedTuple):
    """What speaks for no entry at all, in nats."""

    always: float
    factual: float
    """When it asks who, when, where, how long or how many."""
    per_word: float
    """Times the logarithm of the number of words that it turns on."""


NONE_OF_THEM = NoneOfThem(7.26, -0.96, 0.59)
FACTUAL = frozenset(
    {
        QuestionKind.WHO,
        QuestionKind.WHEN,
        QuestionKind.WHERE,
        QuestionKind.HOW_LONG,
        QuestionKind.HOW_MANY,
    }
)


class Match(NamedTuple):
    """An entry that may answer a question."""

    entry: Entry
    probability: float
    """That it is what was asked for."""


class Query(NamedTuple):
    """A question, ready to be compared."""

    kind: QuestionKind
    tokens: frozenset[str]
    words: frozenset[str]
    is_of_others: bool = False
    """Whether it asks about somebody else than the person."""


def make_query(known: Knowledge, question: Question, referents: Iterable[str]) -> Query:
    """A question with its pronouns replaced by whom they may mean."""
    tokens = known.tokens(question.words[:_MAX_TOKENS])
    of_others = bool(tokens & PRONOUNS) and YOU not in tokens
    if tokens & PRONOUNS:
        tokens = tokens - PRONOUNS | frozenset(referents)
    return Query(question.kind, tokens, frozenset(question.words[:_MAX_TOKENS]), of_others)


def score_entries(known: Knowledge, query: Query) -> np.ndarray:
    """How well each entry answers a question; 0 for those that share no word with it."""
    weights = known.weights_of(query.tokens)
    total = sum(weights.values()) or 1.0
    content = {token: weight for token, weight in weights.items() if token != YOU}
    fit = known.question_fits[query.kind]
    alike = known.best_paraphrase(
        known.paraphrases.weigh_common(weights) / known.paraphrase_roots
    ) / math.sqrt(total)
    words = known.phrases.weigh_common(dict.fromkeys(query.words, 1.0)) / known.phrase_roots
    phrase = known.best_paraphrase(words) / math.sqrt(max(1, len(query.words)))
    covered = known.bodies.weigh_nearly_common(weights)
    found = (
        WEIGHTS.alike * alike
        + (WEIGHTS.covered * covered + WEIGHTS.literal * known.bodies.weigh_common(weights)) / total
        + WEIGHTS.about * known.abouts.weigh_common(content) / (sum(content.values()) or 1.0)
        + WEIGHTS.phrase * phrase
        + WEIGHTS.phrase_squared * phrase**2
        + WEIGHTS.asks * fit.asked
        + WEIGHTS.unfit * fit.unfit
        + known.kind_prior
    )
    if query.is_of_others:
        found = found + WEIGHTS.misplaced * known.is_personal
    people = query.tokens & known.person_tokens
    if len(people) == 1:
        found = found - _OTHER_PERSON_COST * known.is_of_somebody * (
            known.abouts.weigh_common(dict.fromkeys(people, 1.0)) == 0
        )
    return np.where(covered > 0, found, -np.inf)


def probabilities(known: Knowledge, query: Query) -> tuple[np.ndarray, float]:
    """Of each entry, how probable it is that it is what was asked for; and that none is."""
    if not query.tokens:
        return np.zeros(len(known.entries)), 1.0
    found = score_entries(known, query)
    none = NONE_OF_THEM.always + NONE_OF_THEM.per_word * math.log(len(query.tokens))
    none += NONE_OF_THEM.factual * (query.kind in FACTUAL)
    top = max(float(found.max()), none)
    shares, rest = np.exp(found - top), math.exp(none - top)
    total = float(shares.sum()) + rest
    return shares / total, rest / total


class AnswerSearch(NamedTuple):
    """The result of searching the card for an answer."""

    match: Match | None
    """The entry that answers it best; None when nothing has to do with it."""
    none: float
    """How probable it is that no entry answers it."""


def find_answer(
    known: Knowledge, query: Query, is_spent: Callable[[Entry], bool] = lambda entry: False
) -> AnswerSearch:
    """The entry that answers a question best.

    `is_spent`: entries that are passed over, because all of it was told.
    """
    found, none = probabilities(known, query)
    for number in np.argsort(-found, kind="stable")[:_MAX_CANDIDATES].tolist():
        if found[number] > 0 and not is_spent(known.entries[number]):
            return AnswerSearch(Match(known.entries[number], float(found[number])), none)
    return AnswerSearch(None, none)
