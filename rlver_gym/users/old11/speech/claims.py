"""Claims: names, numbers, dates, relations, roles and doers in what was said to a person, against
what they told in this dialogue and against their card. Pure; in doubt nothing is wrong.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.persona import Persona
from rlver_gym.core.words import FUNCTION_WORDS, split_words
from rlver_gym.users.embedded.hearing.quantities import Quantity, may_contain_number
from rlver_gym.users.embedded.hearing.tokens import DAYS, token_of
from rlver_gym.users.embedded.hearing.utterance_parser import parse_utterance
from rlver_gym.users.embedded.hearing.vectors import is_common_word
from rlver_gym.users.embedded.hearing.words import PATTERNS, load_word_set
from rlver_gym.users.embedded.speech.facts import (
    DATES,
    MONTHS,
    OCCUPATIONS,
    RELATION_OF,
    RELATIONS,
    WEEKDAYS,
    FactBase,
    Statement,
    StoryPerson,
    compile_fact_base,
    compile_statement,
)

Verdict = Literal["told", "true", "false", "unknown"]
Kind = Literal["name", "relation", "number", "date", "work", "doer"]


class Claim(NamedTuple):
    """One thing that a sentence says about the person's story."""

    verdict: Verdict
    """What they told and what their card says; "unknown" when neither says anything."""
    kind: Kind
    sentence: str
    said: str
    """The word or words that are so or not."""
    right: str = ""
    """What should stand there instead; empty when that is not known."""
    source: str = ""
    """The sentence of theirs that says so."""
    is_sure: bool = False
    """Whether it is so plainly wrong that they would put it right."""

    def put_right(self, right: str, source: str, is_sure: bool) -> "Claim":
        """The same as a false claim, with what is right."""
        return self._replace(verdict="false", right=right, source=source, is_sure=is_sure)


_MOST_WORDS = 400
_TELLING = RELATIONS | DATES | OCCUPATIONS
"""Words of which one, a name, a number or somebody of the story is in every claim."""
_OWN = load_word_set("speaking of themselves")
_ADDRESSED = load_word_set("about others")
_HYPOTHETICAL = load_word_set("supposing")
_PROPOSING = load_word_set("proposing")
_CLOSE = 0.3
_ALIKE = 0.3
_SOME, _ENOUGH = 2.0, 4.5
"""Weight in nats that must be shared with a sentence for it to be about the same."""


def check_claims(persona: Persona, dialogue: Dialogue) -> tuple[Claim, ...]:
    if dialogue.utterance is None or persona.language != "en":
        return ()
    exchanges = tuple(zip(("", *dialogue.earlier_utterances), dialogue.user_lines, strict=True))
    return _check_utterance(compile_fact_base(persona), exchanges, dialogue.utterance)


@lru_cache(maxsize=64)
def _check_utterance(
    known: FactBase, exchanges: tuple[tuple[str, str], ...], utterance: str
) -> tuple[Claim, ...]:
    checker = _make_checker(known, exchanges)
    found: list[Claim] = []
    for one in parse_utterance(utterance).sentences:
        found += checker.check(one.text, one.words[:_MOST_WORDS])
    return tuple(found)


@lru_cache(maxsize=256)
def _make_checker(known: FactBase, exchanges: tuple[tuple[str, str], ...]) -> "_Checker":
    told = _make_checker(known, exchanges[:-1]).told if len(exchanges) > 1 else ()
    new = [one for pair in exchanges[-1:] for one in known.find_statements(pair)]
    return _Checker(known, (*told, *new))


class _Near(NamedTuple):
    statement: Statement
    shared: float
    share: float
    """Of the claim's weight."""


class _Checker:
    """One utterance against one person's facts."""

    def __init__(self, known: FactBase, told: tuple[Statement, ...]) -> None:
        self._known, self._told, self.told = known, told, told
        words = frozenset().union(*(one.words for one in told))
        self._counted = known.counted.union([q.kind for one in told for q in one.quantities])
        """What has a number that may be compared with another."""
        self._told_relations = {RELATION_OF[word] for word in words & RELATIONS}

    def check(self, sentence: str, words: tuple[str, ...]) -> Iterator[Claim]:
        known = self._known
        has = frozenset(words)
        names = _find_unknown_names(sentence, known.words)
        tells = names or may_contain_number(words) or not has.isdisjoint(_TELLING)
        if not tells and known.people_tokens.isdisjoint(map(token_of, has)):
            return
        claimed = compile_statement(known, sentence, words)
        is_of_story = bool(has & _ADDRESSED or claimed.people)
        if names:
            yield from self._check_names(sentence, claimed, names)
        if has & RELATIONS:
            yield from self._check_relations(sentence, words)
        is_own = bool(has & _OWN) and not has & {"you", "your"} and not claimed.people
        if is_own:
            return
        if claimed.quantities:
            yield from self._check_quantities(claimed, has)
        if has & DATES:
            yield from self._check_dates(claimed, has)
        if not is_of_story:
            return
        if has & OCCUPATIONS:
            yield from self._check_work(sentence, words)
        if claimed.people and not names:
            yield from self._check_doers(claimed)

    def _near(self, claimed: Statement, statements: Sequence[Statement]) -> list[_Near]:
        """The sentences that share most with a claim, without people and quantities."""
        weigh, content = self._known.weigh, claimed.content
        alike = [one for one in statements if not content.isdisjoint(one.content)]
        if not alike:
            return []
        total, found = weigh(content) or 1.0, []
        for one in alike:
            shared = weigh(content & one.content)
            found.append(_Near(one, shared, shared / total))
        found.sort(key=lambda near: -near.shared)
        return found[:12]

    def _check_names(
        self, sentence: str, claimed: Statement, names: Sequence[str]
    ) -> Iterator[Claim]:
        known, lower = self._known, sentence.casefold()
        for name in names:
            if re.search(rf"\b(?:my|our|i'm|i am|an?|in|at) (?:\w+ )?{name}\b", lower):
                continue
            claim = Claim("false", "name", sentence, name.capitalize())
            meant = known.resembling(name)
            slot = re.search(rf"\byour (?:[\w-]+ )?([\w-]+),? (?:mr |mrs |ms |dr )?{name}\b", lower)
            if meant is None and slot and slot.group(1) in RELATION_OF:
                meant = known.by_relation(slot.group(1))
            if meant is not None:
                yield claim.put_right(meant.name, meant.told, True)
                continue
            told = next(
                (one for one in self._near(claimed, self._told) if one.statement.people), None
            )
            if told and told.share >= _ALIKE and told.shared >= _SOME:
                right = known.person(min(told.statement.people))
                is_sure = right is not None and told.share >= 0.45
                yield claim.put_right(right.name if right else "", told.statement.text, is_sure)
                continue
            at = lower.find(name)
            clause = next(
                (one for one in PATTERNS["clause_end"].split(lower) if name in one), lower
            )
            is_own = not _OWN.isdisjoint(split_words(clause)) and "you" not in clause
            if is_own or PATTERNS["quoted"].match(sentence[at + len(name) :]):
                yield claim._replace(verdict="unknown")
                continue
            acts = bool(PATTERNS["acts_at_once"].match(lower[at + len(name) :])) or bool(
                lower[:at].strip("\"'*(“‘- ")
            )
            yield claim._replace(is_sure=acts and not _ADDRESSED.isdisjoint(claimed.words))

    def _check_relations(self, sentence: str, words: tuple[str, ...]) -> Iterator[Claim]:
        for at, word in enumerate(words):
            relation = RELATION_OF.get(word)
            if relation is None or "your" not in words[max(0, at - 2) : at]:
                continue
            claim = Claim("true", "relation", sentence, word)
            named = self._named_beside(words, at)
            if named is not None:
                if relation in named.relations:
                    yield claim
                elif named.relations:
                    yield claim.put_right(named.who, named.told, True)
            elif relation in self._told_relations:
                yield claim._replace(verdict="told")
            else:
                yield self._judge_relation(claim, words, relation)

    def _judge_relation(self, claim: Claim, words: tuple[str, ...], relation: str) -> Claim:
        """A relation of whom they have told nothing: wrong where the sentence says what was told of
        somebody else, or takes for granted a husband whom the card does not have.
        """
        known, sentence = self._known, claim.sentence
        in_card = relation in known.relations_mentioned
        counterpart = None if in_card else known.counterpart(claim.said)
        clause = next(
            (one for one in PATTERNS["clause_end"].split(sentence) if claim.said in one.casefold()),
            "",
        )
        whole = self._near(compile_statement(known, sentence, words), self._told)[:2]
        part = self._near(compile_statement(known, clause, split_words(clause)), self._told)[:2]
        least = 0.45 if in_card else 0.25
        near = [one for one in whole if one.shared >= _SOME and one.share >= least]
        near += [one for one in part if one.shared >= 1.5 and one.share >= 0.7]
        for one in near:
            people = [
                person for each in sorted(one.statement.people) if (person := known.person(each))
            ]
            others = (each for each in people if each.relations and relation not in each.relations)
            right = counterpart or next(others, None)
            if right is not None:
                is_sure = counterpart is not None or one.share >= 0.7
                return claim.put_right(right.who, right.told, is_sure)
        if in_card:
            return claim
        if counterpart is not None:
            return claim.put_right(counterpart.who, counterpart.told, "?" not in sentence)
        is_possible = (
            relation in _ANYBODY_HAS or PATTERNS["asked_whether"].search(sentence) is not None
        )
        return claim._replace(verdict="unknown" if is_possible else "false")

    def _named_beside(self, words: tuple[str, ...], at: int) -> StoryPerson | None:
        """The person whom the words beside a relation name: "your sister Marnie", "Marnie is your
        sister".
        """
        names = self._known.name_words
        after = [word for word in words[at + 1 : at + 3] if word not in ("mr", "mrs", "ms", "dr")]
        if after and after[0] in names:
            return names[after[0]]
        front = words[:at]
        links = [place for place in range(max(1, at - 5), at) if front[place] in ("is", "was")]
        if links and front[links[-1] - 1] in names:
            return names[front[links[-1] - 1]]
        if len(front) >= 2 and front[-1] == "your" and len(words) > at + 1:
            return names.get(front[-2])
        return None

    def _check_work(self, sentence: str, words: tuple[str, ...]) -> Iterator[Claim]:
        known = self._known
        for at, word in enumerate(words):
            if word not in OCCUPATIONS or token_of(word) in known.vocabulary:
                continue
            claim, before = Claim("false", "work", sentence, word), words[max(0, at - 4) : at]
            text = " ".join(before)
            if PATTERNS["you_work"].search(text) and not PATTERNS["not_so"].search(text):
                is_sure = "?" not in sentence or "right?" in sentence or "are" in words
                yield claim.put_right(known.work, known.work_answer, is_sure)
                continue
            named = next((known.name_words[one] for one in before if one in known.name_words), None)
            if named is not None and PATTERNS["works"].search(text):
                yield claim.put_right(named.who, named.told, False)

    def _check_quantities(self, claimed: Statement, has: frozenset[str]) -> Iterator[Claim]:
        """A supporter knows no number but those that were told: another one of the same unit is
        wrong, unless they suggest or suppose something, or happen to say what the card says.
        """
        near_told = near_card = None
        for said in claimed.quantities:
            is_supposed = _is_hypothetical(claimed.text, said.text.split(" ", 1)[0], has)
            if said.is_vague or (said.value == 1 and said.unit not in DAYS):
                continue
            claim = Claim("unknown", "number", claimed.text, said.text)
            if any(_are_quantities_equal(said, q) for one in self._told for q in one.quantities):
                yield claim._replace(verdict="told")
                continue
            if not said.unit or said.kind not in self._counted:
                yield claim
                continue
            if near_told is None or near_card is None:
                near_told = self._near(claimed, self._told)
                near_card = self._near(claimed, self._known.statements_with_quantities)
            agreeing = [
                near.share
                for near in near_card
                for other in near.statement.quantities
                if _are_quantities_equal(said, other) and _is_comparable(said, other)
            ]
            wrong = self._disagreeing(said, near_told, 0.1, 1.0)
            if wrong is None and not is_supposed:
                wrong = self._other_told(said)
            if wrong is None and not agreeing:
                wrong = self._disagreeing(said, near_card, 0.45, _SOME)
            if wrong is None or (agreeing and max(agreeing) > max(0.5, 1.3 * wrong[0].share)):
                yield claim._replace(verdict="true" if agreeing else "unknown")
                continue
            near, right = wrong
            if is_supposed and near.share < 0.3:
                yield claim
                continue
            is_sure = not is_supposed and (near.share >= 0.2 or near.statement in self._told)
            yield claim.put_right(right.text, near.statement.text, is_sure)

    def _disagreeing(
        self, said: Quantity, near: Sequence[_Near], share: float, shared: float
    ) -> tuple[_Near, Quantity] | None:
        for one in near[:4]:
            if one.share < share or one.shared < shared:
                continue
            for other in one.statement.quantities:
                if _is_comparable(said, other) and not _are_quantities_equal(said, other):
                    return one, other
        return None

    def _other_told(self, said: Quantity) -> tuple[_Near, Quantity] | None:
        """A number of that unit that was told, the last one."""
        for one in reversed(self._told):
            for other in one.quantities:
                if said.unit and other.unit == said.unit and not other.is_vague:
                    return _Near(one, 0.0, 0.0), other
        return None

    def _check_dates(self, claimed: Statement, has: frozenset[str]) -> Iterator[Claim]:
        near = [one.statement for one in self._near(claimed, self._told)[:6] if one.shared >= 1.0]
        for date in claimed.dates:
            claim = Claim("unknown", "date", claimed.text, date.capitalize())
            if any(date in one.dates for one in self._told):
                yield claim._replace(verdict="told")
                continue
            kind = WEEKDAYS if date in WEEKDAYS else MONTHS
            is_supposed = _is_hypothetical(claimed.text, date, has)
            others = (*near, *(() if is_supposed else reversed(self._told)))
            wrong = next(
                ((one, other) for one in others for other in one.dates if other in kind), None
            )
            if wrong is not None:
                yield claim.put_right(wrong[1].capitalize(), wrong[0].text, not is_supposed)
            elif date in self._known.dates:
                yield claim._replace(verdict="true")
            else:
                yield claim

    def _check_doers(self, whole: Statement) -> Iterator[Claim]:
        """Somebody of the story to whom a clause gives what was told of another one."""
        known, sentence = self._known, whole.text
        for clause in PATTERNS["clause_end"].split(sentence):
            words = split_words(clause)
            if len(words) < 3:
                continue
            claimed = compile_statement(known, clause, words)
            if not claimed.people:
                continue
            near = self._near(claimed, self._told)
            if not near or near[0].share < 0.75 or near[0].shared < 2.0:
                continue
            best = near[0]
            people = best.statement.people
            if not people or people & whole.people:
                continue
            rivals = (*near, *self._near(claimed, known.statements))
            if any(
                one.shared >= 0.7 * best.shared and one.statement.people & claimed.people
                for one in rivals
            ):
                continue
            said, right = (known.person(sorted(each)[0]) for each in (claimed.people, people))
            if said and right:
                is_sure = best.share >= 0.8 and best.shared >= _ENOUGH
                claim = Claim("false", "doer", sentence, said.name)
                yield claim.put_right(right.name, best.statement.text, is_sure)


def _is_hypothetical(sentence: str, word: str, has: frozenset[str]) -> bool:
    if not has.isdisjoint(_PROPOSING):
        return True
    if has.isdisjoint(_HYPOTHETICAL):
        return False
    clause = next(
        (one for one in PATTERNS["clause_end"].split(sentence) if word in one.casefold()), sentence
    )
    return not _HYPOTHETICAL.isdisjoint(split_words(clause))


_ANYBODY_HAS = load_word_set("relations that anybody may have")


def _find_unknown_names(sentence: str, known: frozenset[str]) -> list[str]:
    """The strange names of a sentence, lower-case: capitalised words that nobody writes small, but
    those within a title.
    """
    words = map(str.casefold, PATTERNS["may_be_name"].findall(sentence))
    if all(word in known or is_common_word(word) for word in words):
        return []
    capitals = list(PATTERNS["capitalised"].finditer(sentence))
    if len(capitals) >= 3 and len(capitals) * 2 >= len(sentence.split()):
        return []
    found = []
    for at in capitals:
        word = at.group(1).casefold()
        if word in known or word in DATES or word in _NO_NAMES or word in FUNCTION_WORDS:
            continue
        if is_common_word(word) or word.endswith(_NO_NAME_ENDS):
            continue
        front = PATTERNS["before_in_title"].search(sentence[: at.start(1)])
        behind = PATTERNS["next_in_title"].search(sentence[at.end() :])
        beside = [one for one in (front, behind) if one]
        if any((one.group(1) or "").casefold() not in known for one in beside):
            continue
        found.append(word)
    return list(dict.fromkeys(found))


_NO_NAME_ENDS = ("ing", "ness", "tion", "ment", "ity", "ship", "ance", "ence", "ly", "ed")
_NO_NAMES = load_word_set("capitalised but no names")


def _is_comparable(one: Quantity, other: Quantity) -> bool:
    return one.kind == other.kind and bool(one.unit)


def _are_quantities_equal(one: Quantity, other: Quantity) -> bool:
    if one.unit in DAYS and other.unit in DAYS:
        days, others = one.value * DAYS[one.unit], other.value * DAYS[other.unit]
        loose = _CLOSE if one.unit != other.unit or one.is_hedged else 0.0
        return abs(days - others) <= loose * max(days, others)
    if one.is_hedged:
        return abs(one.value - other.value) <= _CLOSE * max(one.value, other.value)
    return one.value == other.value
