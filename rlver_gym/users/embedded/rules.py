"""Rules: what must cost, whatever else an utterance holds, each with the words that it is seen by; and
what makes all good in it count for nothing. Shared by score and speech.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from rlver_gym.core.dialogue import ReasonCode
from rlver_gym.core.ledger import ACT_IN_WORDS, quote
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.users.embedded.english import (
    RELATIONS,
    SLIP,
    find_token_text,
    hash_text,
    is_common_word,
    weigh,
    word_groups,
    word_set,
)
from rlver_gym.users.embedded.gate import find_garble
from rlver_gym.users.embedded.recall import Moment

VOID = (ReasonCode.SILENCE, ReasonCode.NONSENSE)
"""Reasons beside which nothing else counts."""
COSTS = {
    "blame": -4.0, "minimise": -4.0, "silence": -4.5, "nonsense": -5.0, "insult": -6.0, "threat": -7.0, "meta": -7.0,
    "repetition": -2.0, "as_own": -3.0, "name": -3.0, "number": -1.5, "garble": -6.0, "cut": -1.5,
}  # fmt: skip
"""Points of experts: nobody in the corpus does it often enough to be fitted."""
_MINE = frozenset("i me my mine myself we our us".split())
_YOURS = frozenset("you your yours yourself".split())
_OWN_STORY, _ALIEN = 650, 700
"""Hundredths of a nat in one sentence: from where their story is told as the agent's own; and of an
utterance, from where it tells of matters that are nobody's here.
"""
_NUMBER_WORDS = word_groups("numbers to nineteen")[0]
_NUMBERS = frozenset(_NUMBER_WORDS[2:]) | word_set("tens") | {"hundred", "thousand"}
_NAMED = re.compile(r"\byour ([a-z]+),? ([A-Z][a-z]{2,})\b(?!\s[a-z]*(?:day|ing)\b)")
_CALENDAR = word_set("weekdays") | word_set("months") | word_set("capitalised but no names")


class Rule(NamedTuple):
    """A rule that holds."""

    name: str
    share: float
    """How much of it, in [0, 1]."""
    note: str
    said: str = ""
    right: str = ""
    """Of a wrong name or number, what was said and what is so."""


def find_void(moment: Moment) -> Rule | None:
    """Whether nothing in an utterance can be weighed: it is silence, no language that they know, or
    little words stirred.
    """
    heard = moment.heard
    words, count = heard.words, len(heard.words)
    if "silence" in heard.acts:
        return Rule("silence", 1.0, "the agent said nothing")
    if count < 4:
        is_talk = count > 0 and (
            heard.functions > 0 or not heard.tokens.isdisjoint(moment.past.told)
        )
    else:
        stirred = count >= 20 and (
            heard.functions > 0.97 * count or len(frozenset(words)) < 1.05 * count**0.8
        )
        is_talk = heard.functions >= 0.2 * count and not stirred
    if is_talk and "foreign" not in heard.acts:
        return None
    return Rule("nonsense", 1.0, "that was no sentence that they could follow")


def find_rules(moment: Moment) -> list[Rule]:
    """The rules that hold for an utterance that can be weighed."""
    heard, past = moment.heard, moment.past
    found = []
    for act in ("insult", "threat", "meta", "blame", "minimise"):
        if act in heard.acts:
            found.append(Rule(act, 1.0, ACT_IN_WORDS[act]))
    stale = next(
        (
            one.text
            for one in heard.sentences
            if len(one.words) > 3 and hash_text(" ".join(one.words)) in past.own_lines
        ),
        "",
    )
    if stale:
        found.append(Rule("repetition", 1.0, f"said what was already said: “{quote(stale)}”"))
    garble = find_garble(heard, moment.card.words)
    if garble:
        note = "could not follow it: words that do not hang together"
        found.append(Rule("garble", garble, note))
    if "cut" in heard.acts:
        last = quote(heard.sentences[-1].text)
        found.append(Rule("cut", 1.0, f"left a sentence unfinished: “{last}”"))
    as_own = _find_story_as_own(moment)
    if as_own:
        found.append(Rule("as_own", 1.0, f"told their story as its own: “{quote(as_own)}”"))
    wrong = find_wrong(moment)
    return [*found, *([wrong] if wrong is not None else [])]


def measure_other_story(moment: Moment) -> float:
    """How far an utterance is about a story that is not theirs, in [0, 1]: matters that neither they
    nor their card have, told at length, beside little of theirs.
    """
    heard, past, card = moment.heard, moment.past, moment.card
    told = weigh(heard.tokens & past.told)
    rest = heard.tokens - past.told
    alien = weigh(rest - card.vocabulary, SLIP)
    own = told + 0.5 * weigh(rest & card.vocabulary)
    if len(heard.words) < 6:
        return 0.0
    return min(1.0, max(0.0, (alien - 1.5 * own - 0.5 * _ALIEN) / _ALIEN))


def _find_story_as_own(moment: Moment) -> str:
    for one in moment.heard.sentences:
        is_own = not _MINE.isdisjoint(one.words) and _YOURS.isdisjoint(one.words)
        if is_own and not one.ask and weigh(one.tokens & moment.past.told) >= _OWN_STORY:
            return one.text
    return ""


def find_wrong(moment: Moment) -> Rule | None:
    """A name or a number that is plainly not theirs: another name for a relation that somebody has
    alone, another number of the same thing in a sentence like theirs.
    """
    for one in moment.heard.sentences:
        if one.words[:1] == ("if",) or '"' in one.text:
            continue
        for relation, name in _NAMED.findall(one.text):
            right = moment.card.people.get(relation)
            if (
                right is not None
                and name.lower() not in right.lower().split()
                and name.lower() not in moment.card.names
                and name.lower() not in _CALENDAR
                and not is_common_word(name.lower())
            ):
                note = f"got it wrong: “{name}”, not “{right}”"
                return Rule("name", 1.0, note, name, right)
        wrong = _find_wrong_number(moment, one.words, one.tokens)
        if wrong is not None:
            return wrong
    return None


def _find_wrong_number(
    moment: Moment, words: tuple[str, ...], tokens: frozenset[int]
) -> Rule | None:
    if _NUMBERS.isdisjoint(words) or not _MINE.isdisjoint(words):
        return None
    for at, word in enumerate(words[:-1]):
        unit = words[at + 1]
        if word not in _NUMBERS or not find_token_text(unit) or unit in RELATIONS:
            continue
        if f" {word} {unit} " in moment.card.text or words[at - 1 : at] == ("about",):
            continue
        about = tokens - {hash_text(find_token_text(unit)), hash_text(find_token_text(word))}
        for theirs, right, near in _list_numbers(moment.card.text_lines):
            if theirs == unit and len(about & near) >= 2 and weigh(about & near) >= 250:
                note = f"got it wrong: “{word} {unit}”, not “{right} {unit}”"
                return Rule("number", 1.0, note, f"{word} {unit}", f"{right} {unit}")
    return None


@lru_cache(maxsize=256)
def _list_numbers(lines: tuple[str, ...]) -> tuple[tuple[str, str, frozenset[int]], ...]:
    """What is counted in some lines, the number, and what else the sentence is about."""
    found = []
    for line in lines:
        for part in split_sentences(line):
            words = split_words(part)
            for at, word in enumerate(words[:-1]):
                if word in _NUMBERS and words[at + 1] not in _NUMBERS:
                    tokens = [
                        find_token_text(one) for one in words if one not in words[at : at + 2]
                    ]
                    near = frozenset(map(hash_text, filter(None, tokens)))
                    found.append((words[at + 1], word, near))
    return tuple(found)


CODES = {
    "silence": ReasonCode.SILENCE, "nonsense": ReasonCode.NONSENSE, "garble": ReasonCode.BROKEN,
    "cut": ReasonCode.BROKEN, "repetition": ReasonCode.REPETITION, "as_own": "as_own",
    "name": "fact", "number": "fact", "insult": "prior:insult", "threat": "prior:threat",
    "meta": "prior:meta", "blame": "prior:blame", "minimise": "prior:minimise",
}  # fmt: skip
