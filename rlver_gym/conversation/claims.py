"""Claims: whether what somebody says about the person and their story is true by the card. Pure; in doubt nothing is put right."""

from collections.abc import Iterable
from enum import StrEnum
from heapq import nsmallest
from typing import NamedTuple

from rlver_gym.conversation.deeds import deeds_of
from rlver_gym.conversation.find import related
from rlver_gym.conversation.knowledge import RELATIONS, UNKNOWN, Knowledge, Statement
from rlver_gym.conversation.parse import Claim
from rlver_gym.conversation.tokens import DAYS, PRONOUNS, YOU, Amount, amounts_of, is_date, token_of


class Fault(StrEnum):
    """What is wrong with a claim."""

    NAME = "name"
    """Somebody whom the story does not have, or nearly the name of somebody."""
    RELATION = "relation"
    """Another relation: "your sister" for a friend."""
    AMOUNT = "amount"
    """Another number, day or month."""
    DOER = "doer"
    """Somebody else did it."""
    DENIED = "denied"
    """It happened although the card says that it did not, or the reverse."""
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


_MOST_STATEMENTS = 8
_MOST_WORDS = 20
"""A longer sentence says too many things to be compared with one."""
_ABOUT_THEM = 0.34
"""The share that the nearest sentence must have for a claim to be about their story at all."""
_SAME_DEED = 0.5
"""The same for who did what."""
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
    """Compare a claim with every sentence of the card. `referents`: tokens of whom pronouns may mean."""
    spoken = known.claimed(claim.words)
    tokens = spoken - PRONOUNS | (frozenset(referents) if spoken & PRONOUNS else frozenset())
    near = nearest(known, tokens)
    misnamed = check_names(known, claim)
    if misnamed is not None and (misnamed.person or (near and near[0].support >= _ABOUT_THEM)):
        return misnamed._replace(truth=near[0].statement if near else None)
    about_them = YOU in spoken or spoken & (PRONOUNS | known.person_tokens | RELATIONS)
    if len(tokens - {YOU}) < 2 or not about_them:
        return Verdict(None, None)
    if not near or near[0].support < _ABOUT_THEM:
        return Verdict(None, near[0].statement if near else None, None, near[0].support if near else 0.0)
    if len(claim.words) > _MOST_WORDS:
        return Verdict(None, near[0].statement, None, near[0].support)
    for fault in (_listed, _amount, _deed, _doer):
        verdict = fault(known, claim, tokens, near)
        if verdict is not None:
            return verdict
    return Verdict(None, near[0].statement, None, near[0].support)


def check_names(known: Knowledge, claim: Claim) -> Verdict | None:
    """What is wrong with the names and relations in it; None when nothing is."""
    stranger = _stranger(known, claim)
    if stranger is not None:
        return Verdict(Fault.NAME, None, stranger)
    relation = None if claim.is_negative else _wrong_relation(known, claim)
    return Verdict(Fault.RELATION, None, relation) if relation is not None else None


def nearest(known: Knowledge, tokens: frozenset[str]) -> list[Nearest]:
    """The sentences of the card that say most of what some tokens say, best first."""
    found: dict[int, float] = {}
    for token in tokens - {YOU}:
        for name, share in ((token, 1.0), *related().get(token, ())):
            if name in known.statement_postings and (share == 1.0 or name not in tokens):
                weight = known.weight.get(name, UNKNOWN) * share
                for number in known.statement_postings[name]:
                    found[number] = found.get(number, 0.0) + weight
    total = known.weigh(tokens - {YOU}) or 1.0
    ranked = nsmallest(_MOST_STATEMENTS, [(-weight, number) for number, weight in found.items()])
    return [
        Nearest(statement, min(1.0, -weight / total), min(1.0, -weight / (total * statement.weight) ** 0.5))
        for weight, statement in ((weight, known.statements[number]) for weight, number in ranked)
    ]


def _stranger(known: Knowledge, claim: Claim) -> str | None:
    """Who is meant by a name that is nearly one of the story's ("Yunus" for Yusuf); empty when nobody is; None when there is no strange name."""
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


_PAIRS = "mum dad|sister brother|son daughter|aunt uncle|gran grandad|wife husband|girlfriend boyfriend|niece nephew"
_COUNTERPARTS = {
    token_of(one): token_of(other)
    for pair in _PAIRS.split("|")
    for one, other in (pair.split(), reversed(pair.split()))
}
_GENERAL = frozenset(
    map(
        token_of,
        "say ask go come get do have know think feel want see look need let talk believe".split(),
    )
)
"""Verbs that many a deed is told with: two of them prove little."""
_SHARED = 3.0
"""Weight of the other words that two sentences with such a verb must share, in nats."""
_LINKS = frozenset("is was a no any another some like".split())


def _wrong_relation(known: Knowledge, claim: Claim) -> str | None:
    """The token of somebody who is given a relation that they do not have; empty when nobody of the story has it."""
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
            named = names[0] if names else None
            if named and own.get(named) and noun not in own[named]:
                return named
            counterpart = _COUNTERPARTS.get(noun)
            if noun not in known.vocabulary and noun not in known.alias and counterpart in known.alias:
                return known.alias[counterpart]
    return None


def _listed(known: Knowledge, claim: Claim, tokens: frozenset[str], near: list[Nearest]) -> Verdict | None:
    """Whether it is nearer to something that the card lists as false than to all that is true."""
    shared: dict[int, float] = {}
    for token in tokens - {YOU}:
        for number in known.false_postings.get(token, ()):
            shared[number] = shared.get(number, 0.0) + known.weight.get(token, UNKNOWN)
    size = known.weigh(tokens - {YOU}) or 1.0
    best, worst, found = near[0].exact, 0.0, None
    for number, weight in shared.items():
        value = weight / (size * known.false[number][0].weight) ** 0.5
        if value > worst and (YOU in known.false[number][0].tokens) == (YOU in tokens):
            worst, found = value, known.false[number][0]
    if found is None or worst < 0.7 or known.weigh(found.tokens & tokens - {YOU}) < _SHARED or worst < best + 0.2:
        return None
    truth = next((one.statement for one in near if one.statement.entry == found.entry), None)
    return Verdict(Fault.LISTED, truth or _said_of(known, found.entry), None, worst)


def _said_of(known: Knowledge, entry: int) -> Statement:
    return next(statement for statement in known.statements if statement.entry == entry)


def _amount(known: Knowledge, claim: Claim, tokens: frozenset[str], near: list[Nearest]) -> Verdict | None:
    """Whether it gives another number of the same things than the nearest sentences."""
    told = [one for one in near if one.support >= _ALIKE]
    for amount in amounts_of(claim.words):
        if any(_agrees(amount, other) for one in told for other in one.statement.amounts):
            continue
        for one in told[:3]:
            if any(_is_comparable(amount, other) for other in one.statement.amounts):
                return Verdict(Fault.AMOUNT, one.statement, None, one.support)
    return None


def _is_comparable(one: Amount, other: Amount) -> bool:
    if one.unit in DAYS and other.unit in DAYS:
        return True
    return (is_date(one.unit) and is_date(other.unit)) or (one.unit == other.unit and one.unit != "")


def _agrees(one: Amount, other: Amount) -> bool:
    if one.unit in DAYS and other.unit in DAYS:
        days, others = one.value * DAYS[one.unit], other.value * DAYS[other.unit]
        return max(days, others) <= 1.3 * min(days, others)
    return one == other or (one.value == other.value and not is_date(one.unit) and not is_date(other.unit))


def _deed(known: Knowledge, claim: Claim, tokens: frozenset[str], near: list[Nearest]) -> Verdict | None:
    """Whether somebody else did it, or it was not done."""
    people = {**{noun: noun for noun in RELATIONS}, **known.alias}
    done = deeds_of(claim.words, people)
    told = [one for one in near if one.support >= _SAME_DEED]
    for subject, verb, negative in done:
        if subject in PRONOUNS:
            continue
        same = [(deed, one) for one in told for deed in one.statement.deeds if deed.verb == verb]
        if not same or any(deed.subject == subject and deed.is_negative == negative for deed, _ in same):
            continue
        others = tokens - {verb, subject, YOU}
        for deed, one in same:
            if not others & one.statement.tokens or (deed.subject in PRONOUNS and subject != YOU):
                continue
            if deed.subject == subject:
                return Verdict(Fault.DENIED, one.statement, None, one.support)
            if verb not in _GENERAL and deed.is_negative == negative and subject not in one.statement.tokens - {YOU}:
                return Verdict(Fault.DOER, one.statement, deed.subject, one.support)
    return None


def _doer(known: Knowledge, claim: Claim, tokens: frozenset[str], near: list[Nearest]) -> Verdict | None:
    """Whether it is said of somebody whom no sentence about it names, while they name somebody else."""
    spoken_of = known.person_tokens | RELATIONS
    people = tokens & spoken_of
    rest = tokens - people - {YOU}
    if len(people) != 1 or len(rest) < 2:
        return None
    total = known.weigh(rest) or 1.0
    alike = [one.statement for one in nearest(known, rest) if known.weigh(rest & one.statement.tokens) >= 0.65 * total]
    if not alike or any(people & statement.tokens for statement in alike):
        return None
    others = alike[0].tokens & spoken_of
    return Verdict(Fault.DOER, alike[0], min(others), 0.6) if others else None
