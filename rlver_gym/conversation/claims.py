"""Claims: whether what somebody says about the person and their story is true by the card.

Pure; in doubt nothing is put right.
"""

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rlver_gym.conversation.knowledge import RELATIONS, Knowledge, Statement
from rlver_gym.conversation.parse import Claim
from rlver_gym.text.tokens import (
    DAYS,
    PRONOUNS,
    YOU,
    Amount,
    amounts_of,
    is_date,
    may_have_amounts,
    token_of,
)


class Fault(StrEnum):
    """What is wrong with a claim."""

    NAME = "name"
    """Somebody whom the story does not have, or nearly the name of somebody."""
    RELATION = "relation"
    """Another relation: "your sister" for a friend."""
    AMOUNT = "amount"
    """Another number, day or month."""
    LISTED = "listed"
    """The card lists it as false."""


class Verdict(NamedTuple):
    """What the card says to a claim."""

    fault: Fault | None
    """None when nothing speaks against it."""
    truth: Statement | None
    """The sentence of the card that is nearest."""
    person: str | None = None
    """The token of the one who is meant, when a name or a relation is wrong."""
    support: float = 0.0
    """Share of the claim's weight that the sentence has, in [0, 1]."""


_MAX_STATEMENTS = 8
_MAX_WORDS = 20
"""A longer sentence says too many things to be compared with one."""
_ABOUT_THEM = 0.34
"""The share that the nearest sentence must have for a claim to be about their story at all."""
_ALIKE = 0.42
"""The share of a claim's weight that a sentence must have to be about the same."""


class Nearest(NamedTuple):
    """A sentence of the card and how much of a claim it has."""

    statement: Statement
    support: float
    """Share of the claim's weight."""
    exact: float
    """The same against all of the sentence's weight too (cosine), in [0, 1]."""


def check_claim(known: Knowledge, claim: Claim, referents: Iterable[str] = ()) -> Verdict:
    """Compare a claim with the card, as far as it has a name, a relation or a number, or is nearly
    something that the card lists as false. `referents`: tokens of whom pronouns may mean.
    """
    claimed = known.claim_tokens(claim.words)
    return _check(known, claim, frozenset(referents) if claimed & PRONOUNS else frozenset())


@lru_cache(maxsize=256)
def _check(known: Knowledge, claim: Claim, referents: frozenset[str]) -> Verdict:
    """Kept, because whoever appraises and whoever answers ask the same."""
    misnamed = check_names(known, claim)
    amounts = amounts_of(claim.words) if may_have_amounts(claim.words) else frozenset()
    claimed = known.claim_tokens(claim.words)
    tokens = claimed - PRONOUNS | referents
    falsehood = _nearest_falsehood(known, tokens)
    if misnamed is None and not amounts and falsehood is None:
        return Verdict(None, None)
    near = nearest(known, tokens)
    support = near[0].support if near else 0.0
    if misnamed is not None and (misnamed.person or support >= _ABOUT_THEM):
        return misnamed._replace(truth=near[0].statement if near else None)
    about_them = YOU in claimed or claimed & (PRONOUNS | known.person_tokens | RELATIONS)
    if (
        not near
        or len(tokens - {YOU}) < 2
        or not about_them
        or support < _ABOUT_THEM
        or len(claim.words) > _MAX_WORDS
    ):
        return Verdict(None, near[0].statement if near else None, None, support)
    return (
        _check_falsehoods(known, tokens, falsehood, near)
        or _check_amounts(amounts, near)
        or Verdict(None, near[0].statement, None, support)
    )


def check_guess(known: Knowledge, claim: Claim, referents: Iterable[str] = ()) -> Verdict:
    """The same for a yes-or-no question, whose nearest sentence is wanted in any case."""
    verdict = check_claim(known, claim, referents)
    if verdict.truth is None:
        claimed = known.claim_tokens(claim.words)
        near = nearest(
            known,
            claimed - PRONOUNS | (frozenset(referents) if claimed & PRONOUNS else frozenset()),
        )
        if near:
            return verdict._replace(truth=near[0].statement, support=near[0].support)
    return verdict


def check_names(known: Knowledge, claim: Claim) -> Verdict | None:
    """What is wrong with the names and relations in it; None when nothing is."""
    stranger = _find_unknown_name(known, claim)
    if stranger is not None:
        return Verdict(Fault.NAME, None, stranger)
    relation = None if claim.is_negative else _find_wrong_relation(known, claim)
    return Verdict(Fault.RELATION, None, relation) if relation is not None else None


def nearest(known: Knowledge, tokens: frozenset[str]) -> list[Nearest]:
    """The sentences of the card that say most of what some tokens say, best first."""
    weights = known.weights_of(tokens - {YOU})
    total = sum(weights.values()) or 1.0
    shared = known.statement_index.weigh_nearly_common(weights)
    best = np.argsort(-shared, kind="stable")[:_MAX_STATEMENTS].tolist()
    exact = shared[best] / np.sqrt(total * known.statement_weights[best])
    return [
        Nearest(known.statements[number], min(1.0, float(shared[number]) / total), min(1.0, value))
        for number, value in zip(best, exact.tolist(), strict=True)
        if shared[number] > 0
    ]


def _find_unknown_name(known: Knowledge, claim: Claim) -> str | None:
    """Who is meant by a name that is nearly one of the story's ("Yunus" for Yusuf); empty when
    nobody is; None when there is no strange name.
    """
    for name in claim.names:
        if name in known.words or token_of(name) in known.vocabulary:
            continue
        for one in known.people:
            for part in one.name.casefold().split():
                if part[:2] == name[:2] and _distance(part, name) <= max(2, len(part) // 2):
                    return one.token
        return ""
    return None


def _distance(one: str, other: str) -> int:
    """How many letters must be changed, added or left out (Levenshtein)."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        last, row[0] = row[0], at
        for to, against in enumerate(other, 1):
            last, row[to] = row[to], min(row[to] + 1, row[to - 1] + 1, last + (letter != against))
    return row[-1]


_PAIRS = (
    "mum dad|sister brother|son daughter|aunt uncle|gran grandad|wife husband|girlfriend"
    " boyfriend|niece nephew"
)
_COUNTERPARTS = {
    token_of(one): token_of(other)
    for pair in _PAIRS.split("|")
    for one, other in (pair.split(), reversed(pair.split()))
}
_LEAST_ALIKE_FALSEHOOD = 0.7
"""How much a claim must be like something listed as false."""
_SHARED = 3.0
"""Weight of the words that it must share with it, in nats."""
_LINKS = frozenset("is was a no any another some like".split())


def _find_wrong_relation(known: Knowledge, claim: Claim) -> str | None:
    """The token of somebody who is given a relation that they do not have; empty when nobody of the
    story has it.
    """
    words = tuple(word for word in claim.words if token_of(word) or word in _LINKS)
    tokens = [token_of(word) for word in words]
    own = {one.token: one.nouns for one in known.people}
    for at, noun in enumerate(tokens):
        if (
            noun not in RELATIONS
            or words[at].endswith("s")
            or (at and words[at - 1] in ("a", "no", "any", "another", "some", "like"))
        ):
            continue
        before = [
            known.alias[token]
            for token in tokens[max(0, at - 4) : at]
            if token in known.alias and token not in RELATIONS
        ]
        if (
            before
            and YOU in tokens[max(0, at - 3) : at]
            and ("is" in words[:at] or "was" in words[:at])
            and own.get(before[0])
            and noun not in own[before[0]]
        ):
            return before[0]
        if (at and tokens[at - 1] == YOU) or (
            at > 1
            and tokens[at - 2] == YOU
            and tokens[at - 1] not in RELATIONS
            and known.alias.get(tokens[at - 1]) is None
        ):
            names = [
                known.alias[token]
                for token in tokens[at + 1 : at + 3]
                if token in known.alias and token not in RELATIONS
            ]
            named = names[0] if names and f"{words[at]}," not in claim.text.casefold() else None
            if named and own.get(named) and noun not in own[named]:
                return named
            counterpart = _COUNTERPARTS.get(noun)
            if (
                noun not in known.vocabulary
                and noun not in known.alias
                and counterpart in known.alias
            ):
                return known.alias[counterpart]
    return None


class _Falsehood(NamedTuple):
    statement: Statement
    exact: float
    """How much a claim is like it (cosine), in [0, 1]."""


def _nearest_falsehood(known: Knowledge, tokens: frozenset[str]) -> _Falsehood | None:
    """What the card lists as false and a claim is nearly; None when there is nothing like it."""
    if not known.false:
        return None
    weights = known.weights_of(tokens - {YOU})
    alike = known.falsehoods.weigh_common(weights) / np.sqrt(
        (sum(weights.values()) or 1.0) * known.false_weights
    )
    if float(alike.max()) < _LEAST_ALIKE_FALSEHOOD:
        return None
    for number in np.argsort(-alike, kind="stable")[:_MAX_STATEMENTS].tolist():
        statement = known.false[number][0]
        if (YOU in statement.tokens) == (YOU in tokens):
            return (
                _Falsehood(statement, float(alike[number]))
                if alike[number] >= _LEAST_ALIKE_FALSEHOOD
                else None
            )
    return None


def _check_falsehoods(
    known: Knowledge, tokens: frozenset[str], falsehood: _Falsehood | None, near: list[Nearest]
) -> Verdict | None:
    """Whether it is nearer to something that the card lists as false than to all that is true."""
    if falsehood is None or falsehood.exact < near[0].exact + 0.2:
        return None
    if known.weigh(falsehood.statement.tokens & tokens - {YOU}) < _SHARED:
        return None
    entry = falsehood.statement.entry
    truth = next((one.statement for one in near if one.statement.entry == entry), None)
    return Verdict(Fault.LISTED, truth or _statement_of(known, entry), None, falsehood.exact)


def _statement_of(known: Knowledge, entry: int) -> Statement:
    return next(statement for statement in known.statements if statement.entry == entry)


def _check_amounts(amounts: frozenset[Amount], near: list[Nearest]) -> Verdict | None:
    """Whether it gives another number of the same things than the nearest sentences."""
    similar = [one for one in near if one.support >= _ALIKE]
    for amount in amounts:
        if any(_agrees(amount, other) for one in similar for other in one.statement.amounts):
            continue
        for one in similar[:3]:
            if any(_is_comparable(amount, other) for other in one.statement.amounts):
                return Verdict(Fault.AMOUNT, one.statement, None, one.support)
    return None


def _is_comparable(one: Amount, other: Amount) -> bool:
    if one.unit in DAYS and other.unit in DAYS:
        return True
    return (is_date(one.unit) and is_date(other.unit)) or (
        one.unit == other.unit and one.unit != ""
    )


def _agrees(one: Amount, other: Amount) -> bool:
    if one.unit in DAYS and other.unit in DAYS:
        days, others = one.value * DAYS[one.unit], other.value * DAYS[other.unit]
        return max(days, others) <= 1.3 * min(days, others)
    return one == other or (
        one.value == other.value and not is_date(one.unit) and not is_date(other.unit)
    )
