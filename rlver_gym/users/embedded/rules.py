"""Rules: what must cost, whatever else an utterance holds, each with the words that it is seen by.
Shared by score and speech.
"""

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rlver_gym.core.dialogue import ReasonCode
from rlver_gym.core.ledger import ACT_IN_WORDS, quote
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.users.embedded.english import (
    RELATIONS,
    get_token,
    is_common_word,
    weigh,
    word_groups,
    word_set,
)
from rlver_gym.users.embedded.gate import find_garble
from rlver_gym.users.embedded.recall import Moment

VOID = (ReasonCode.SILENCE, ReasonCode.NONSENSE)
"""Reasons beside which nothing else counts."""
CODES = {
    "silence": ReasonCode.SILENCE, "nonsense": ReasonCode.NONSENSE, "garble": ReasonCode.BROKEN,
    "cut": ReasonCode.BROKEN, "repetition": ReasonCode.REPETITION, "as_own": "as_own",
    "name": "fact", "number": "fact", "insult": "prior:insult", "threat": "prior:threat",
    "meta": "prior:meta", "blame": "prior:blame", "minimise": "prior:minimise",
}  # fmt: skip
COSTS = {
    "silence": -4.5, "nonsense": -5.0, "garble": -6.0, "cut": -1.5, "repetition": -2.0,
    "as_own": -3.0, "name": -3.0, "number": -1.5, "insult": -6.0, "threat": -7.0, "meta": -7.0,
    "blame": -4.0, "minimise": -4.0,
}  # fmt: skip
"""Points of experts: nobody in the corpus does it often enough to be fitted."""
_MINE = frozenset("i me my mine myself we our us".split())
_YOURS = frozenset("you your yours yourself".split())
_OWN_STORY = 650
"""Hundredths of a nat in one sentence, from where their story is told as the agent's own."""
_NUMBER_WORDS = word_groups("numbers to nineteen")[0]
_NUMBERS = frozenset(_NUMBER_WORDS[2:]) | word_set("tens") | {"hundred", "thousand"}
_NAMED = re.compile(r"\byour ([a-z]+),? ([A-Z][a-z]{2,})\b(?!\s[a-z]*(?:day|ing)\b)")
_CALENDAR = word_set("weekdays") | word_set("months") | word_set("capitalised but no names")


class Contribution(NamedTuple):
    """A part of a change."""

    code: str
    points: float
    note: str


class Rule(NamedTuple):
    """A rule that holds."""

    name: str
    share: float  # how much of it, in [0, 1]
    note: str
    said: str = ""  # of a wrong name or number
    right: str = ""

    def cost(self) -> Contribution:
        return Contribution(CODES[self.name], COSTS[self.name] * self.share, self.note)


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
    for sentence in heard.sentences:
        if len(sentence.words) > 3 and sentence.words in past.own_lines:
            note = f"said what was already said: “{quote(sentence.text)}”"
            found.append(Rule("repetition", 1.0, note))
            break
    garble = find_garble(heard, moment.card.words, past.salad)
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


def _find_story_as_own(moment: Moment) -> str:
    for sentence in moment.heard.sentences:
        words = sentence.words
        is_own = not _MINE.isdisjoint(words) and _YOURS.isdisjoint(words) and not sentence.ask
        if is_own and weigh(sentence.tokens & moment.past.told) >= _OWN_STORY:
            return sentence.text
    return ""


def find_wrong(moment: Moment) -> Rule | None:
    """A name or a number that is plainly not theirs: another name for a relation that somebody has
    alone, another number of the same thing in a sentence like theirs.
    """
    card = moment.card
    for sentence in moment.heard.sentences:
        if sentence.words[0] == "if" or '"' in sentence.text:
            continue
        for relation, name in _NAMED.findall(sentence.text) if "your" in sentence.words else ():
            right, lower = card.people.get(relation), name.lower()
            if right is None or lower in right.lower().split() or lower in card.names:
                continue
            if lower not in _CALENDAR and not is_common_word(lower):
                note = f"got it wrong: “{name}”, not “{right}”"
                return Rule("name", 1.0, note, name, right)
        if not _NUMBERS.isdisjoint(sentence.words) and _MINE.isdisjoint(sentence.words):
            wrong = _find_wrong_number(moment, sentence.words, sentence.tokens)
            if wrong is not None:
                return wrong
    return None


def _find_wrong_number(
    moment: Moment, words: tuple[str, ...], tokens: frozenset[int]
) -> Rule | None:
    for at, (word, unit) in enumerate(pairwise(words)):
        if word not in _NUMBERS or not get_token(unit) or unit in RELATIONS:
            continue
        if f" {word} {unit} " in moment.card.text or words[at - 1 : at] == ("about",):
            continue
        about = tokens - {get_token(unit), get_token(word)}
        for theirs, right, near in _list_numbers(moment.card.text_lines):
            if theirs == unit and len(about & near) >= 2 and weigh(about & near) >= 250:
                note = f"got it wrong: “{word} {unit}”, not “{right} {unit}”"
                return Rule("number", 1.0, note, f"{word} {unit}", f"{right} {unit}")
    return None


@lru_cache(maxsize=256)
def _list_numbers(lines: tuple[str, ...]) -> tuple[tuple[str, str, frozenset[int]], ...]:
    """What is counted in some lines, the number, and what else the sentence is about."""
    counted = []
    for words in [split_words(part) for line in lines for part in split_sentences(line)]:
        for number, unit in pairwise(words):
            if number in _NUMBERS and unit not in _NUMBERS:
                near = frozenset([get_token(word) for word in words if word not in (number, unit)])
                counted.append((unit, number, near - {0}))
    return tuple(counted)
