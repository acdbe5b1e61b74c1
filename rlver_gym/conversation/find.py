"""Find: which entry of what the person knows answers a question. Pure; the weights are fitted on labelled questions about train people."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from heapq import nsmallest
from importlib.resources import files
from typing import NamedTuple

from rlver_gym.conversation.knowledge import UNKNOWN, Entry, Knowledge
from rlver_gym.conversation.parse import Ask, Question
from rlver_gym.conversation.tokens import PRONOUNS, YOU

_MOST_CANDIDATES = 12
_MOST_TOKENS = 30


class Features(NamedTuple):
    """What speaks for an entry; shares are in [0, 1]."""

    alike: float
    """Similarity to the most similar of its paraphrases (cosine)."""
    covered: float
    """Share of the question's weight that it mentions anywhere, in these words or nearly."""
    literal: float
    """The same in these very words."""
    about: float
    """Share of the question's weight that is what it is about."""
    asks: float
    """Whether one of its paraphrases asks for the same kind of answer."""
    same_kind: float
    """Whether the most similar one does."""
    context: float
    """Share of the weight of what was said just before that it mentions."""
    misplaced: float
    """Whether it is about the person while somebody else is asked about."""
    unfit: float
    """Whether its answers cannot answer that kind of question, such as one without any time a "when"."""
    background: float
    disclosure: float


WEIGHTS = Features(0.93, 1.17, 0.33, 0.27, 0.28, 0.12, 0.5, -1.0, -0.4, -0.04, 0.2)


class Match(NamedTuple):
    """An entry that may answer a question."""

    entry: Entry
    score: float
    margin: float
    """How far it is ahead of the next one."""
    found: Features


class Query(NamedTuple):
    """A question, ready to be compared."""

    ask: Ask
    tokens: frozenset[str]
    context: frozenset[str]
    is_of_others: bool = False
    """Whether it asks about somebody else than the person."""


@lru_cache(maxsize=1)
def related() -> Mapping[str, tuple[tuple[str, float], ...]]:
    """Of each token, those that mean nearly the same, with their similarity in (0, 1)."""
    rows = json.loads(files("rlver_gym.conversation").joinpath("related_en.json").read_text(encoding="utf-8"))[
        "related"
    ]
    return {
        token: tuple((name, int(share) / 100) for name, share in (pair.split(":") for pair in row.split()))
        for token, row in rows.items()
    }


def query(known: Knowledge, question: Question, referents: Iterable[str], before: Iterable[str] = ()) -> Query:
    """A question with its pronouns replaced by whom they may mean. `before`: words said just before it."""
    tokens = known.tokens(question.words[:_MOST_TOKENS])
    of_others = bool(tokens & PRONOUNS) and YOU not in tokens
    if tokens & PRONOUNS:
        tokens = tokens - PRONOUNS | frozenset(referents)
    return Query(
        question.ask, tokens, known.tokens(before) - PRONOUNS - tokens - {YOU} - known.person_tokens, of_others
    )


def features(known: Knowledge, asked: Query, entry: Entry) -> Features:
    """What speaks for an entry."""
    weight, tokens, body = known.weight, asked.tokens, entry.body
    each = [(token, weight.get(token, UNKNOWN)) for token in tokens]
    total = sum([worth for _, worth in each]) or 1.0
    root = math.sqrt(total)
    alike, same = 0.0, 0.0
    for paraphrase in entry.paraphrases:
        shared = sum([worth for token, worth in each if token in paraphrase.tokens])
        if shared:
            value, kind = shared / (root * paraphrase.weight), float(paraphrase.ask is asked.ask)
            if value + 0.1 * kind > alike + 0.1 * same:
                alike, same = value, kind
    literal = sum([worth for token, worth in each if token in body])
    soft = sum([worth * _nearest(token, body) for token, worth in each if token not in body])
    about = sum([worth for token, worth in each if token in entry.about])
    context = known.weigh(asked.context & body) / (known.weigh(asked.context) or 1.0)
    return Features(
        alike,
        (literal + soft) / total,
        literal / total,
        about / total,
        float(asked.ask in entry.asks),
        same,
        context,
        float(entry.is_personal and asked.is_of_others),
        float(asked.ask not in entry.gives),
        float(entry.kind == "background"),
        float(entry.kind == "disclosure"),
    )


def _nearest(token: str, body: frozenset[str]) -> float:
    """How near the nearest related token is that the entry has."""
    for name, share in related().get(token, ()):
        if name in body:
            return share
    return 0.0


def candidates(known: Knowledge, asked: Query) -> list[int]:
    """The entries that share most with a question, best first."""
    found: dict[int, float] = {}
    for token in asked.tokens:
        weight = known.weight.get(token)
        if weight is not None:
            for number in known.postings.get(token, ()):
                found[number] = found.get(number, 0.0) + weight
        for name, share in related().get(token, ()):
            if name in known.postings and name not in asked.tokens:
                weight = 0.7 * share * known.weight[name]
                for number in known.postings[name]:
                    found[number] = found.get(number, 0.0) + weight
    return [
        number for _, number in nsmallest(_MOST_CANDIDATES, [(-weight, number) for number, weight in found.items()])
    ]


def find_answer(
    known: Knowledge, asked: Query, is_spent: Callable[[Entry], bool] = lambda entry: False
) -> Match | None:
    """The entry that answers a question best; None when nothing in the card has to do with it. `is_spent`: entries that are passed over, because all of it was told."""
    found = [
        (number, features(known, asked, known.entries[number]))
        for number in candidates(known, asked)
        if not is_spent(known.entries[number])
    ]
    ranked = sorted([(score(one), -number, one) for number, one in found], reverse=True)
    if not ranked:
        return None
    best, number, one = ranked[0]
    return Match(known.entries[-number], best, best - ranked[1][0] if len(ranked) > 1 else best, one)


def score(found: Features) -> float:
    """The features weighed together."""
    return sum(map(float.__mul__, WEIGHTS, found))
