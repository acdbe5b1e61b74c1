"""Rules: what must cost, whatever else an utterance holds. Shared by score and speech."""

import re
from typing import NamedTuple

from rlver_gym.core.dialogue import ReasonCode
from rlver_gym.core.ledger import ACT_IN_WORDS, quote
from rlver_gym.users.embedded import english
from rlver_gym.users.embedded.compile import COUNTED, NUMBERS
from rlver_gym.users.embedded.gate import find_garble
from rlver_gym.users.embedded.hear import Sentence
from rlver_gym.users.embedded.recall import Moment
from rlver_gym.util.files import load_json

VOID = (ReasonCode.SILENCE, ReasonCode.NONSENSE)  # reasons beside which nothing else counts
_COSTS: dict[str, tuple[str, float]] = load_json(english.DATA, "rules.json")["costs"]
"""By rule, its reason's code, and points of experts: too rare in the corpus to be fitted."""
MINE = frozenset("i me my mine myself we our us".split())
_YOURS = frozenset("you your yours yourself".split())
_OWN_STORY = 650  # hundredths of a nat in a sentence that tells their story as its own
_NAMED = re.compile(r"\byour ([a-z]+),? ([A-Z][a-z]{2,})\b(?!\s[a-z]*(?:day|ing)\b)")
CALENDAR = english.word_set("weekdays", "months", "capitalised but no names")


class Contribution(NamedTuple):
    """A part of a change."""

    code: str
    points: float
    note: str


class Wrong(NamedTuple):
    """A name or a number that is plainly not theirs, and the right one."""

    rule: str
    said: str
    right: str


def _cost(rule: str, note: str, share: float = 1.0) -> Contribution:
    code, points = _COSTS[rule]
    return Contribution(code, points * share, note)


def find_void(moment: Moment) -> Contribution | None:
    """Whether nothing can be weighed: silence, another language, or little words stirred."""
    heard, words, count = moment.heard, moment.heard.words, len(moment.heard.words)
    functions = sum([sentence.functions for sentence in heard.sentences])
    if "silence" in heard.acts:
        return _cost("silence", "the agent said nothing")
    if count < 4:
        is_talk = functions > 0 or not heard.tokens.isdisjoint(moment.told)
    else:
        is_flat = functions > 0.97 * count or len(frozenset(words)) < 1.05 * count**0.8
        is_talk = functions >= 0.2 * count and not (count >= 20 and is_flat)
    if is_talk and "foreign" not in heard.acts:
        return None
    return _cost("nonsense", "that was no sentence that they could follow")


def find_rules(moment: Moment) -> tuple[list[Contribution], float]:
    """The rules that hold for an utterance that can be weighed, and how much of it is garble."""
    heard, before = moment.heard, moment.utterances
    costs = [_cost(act, words) for act, words in ACT_IN_WORDS.items() if act in heard.acts]
    garble = 0.0
    lines = {line for utterance in before for line in utterance.lines}
    again = [sentence.text for sentence in heard.sentences if hash(sentence.words) in lines]
    if again:
        costs.append(_cost("repetition", f"said what was already said: “{quote(again[0])}”"))
    if moment.logit is not None:
        logits = [utterance.logit for utterance in before if utterance.logit is not None]
        garble = find_garble(heard, moment.card.words, moment.logit, logits)
        note = "could not follow it: words that do not hang together"
        costs.append(_cost("garble", note, garble))
    if "cut" in heard.acts:
        last = quote(heard.sentences[-1].text)
        costs.append(_cost("cut", f"left a sentence unfinished: “{last}”"))
    for sentence in heard.sentences:
        words = sentence.words
        is_own = not MINE.isdisjoint(words) and _YOURS.isdisjoint(words) and not sentence.ask
        if is_own and english.weigh_rare(sentence.tokens & moment.told) >= _OWN_STORY:
            costs.append(_cost("as_own", f"told their story as its own: “{quote(sentence.text)}”"))
            break
    wrong = find_wrong(moment)
    if wrong:
        costs.append(_cost(wrong.rule, f"got it wrong: “{wrong.said}”, not “{wrong.right}”"))
    return costs, garble


def find_wrong(moment: Moment) -> Wrong | None:
    """Another name for a relation that one has alone, another number of the same thing."""
    people, names = moment.card.story.people, moment.card.story.names
    for sentence in moment.heard.sentences:
        if sentence.words[0] == "if" or '"' in sentence.text:
            continue
        for relation, name in _NAMED.findall(sentence.text) if "your" in sentence.words else ():
            right, lower = people.get(relation), name.lower()
            if right is None or lower in right.lower().split() or lower in names:
                continue
            if lower not in CALENDAR and not english.LEXICON[lower].is_small:
                return Wrong("name", name, right)
        if not NUMBERS.isdisjoint(sentence.words) and MINE.isdisjoint(sentence.words):
            wrong = _find_wrong_number(moment, sentence)
            if wrong is not None:
                return wrong
    return None


def _find_wrong_number(moment: Moment, sentence: Sentence) -> Wrong | None:
    story = moment.card.story
    for is_vague, number, unit in COUNTED.findall(" ".join(sentence.words)):
        said, counted = f"{number} {unit}", english.LEXICON[unit].token
        if is_vague or not counted or unit in english.RELATIONS or f" {said} " in story.text:
            continue
        own = {english.LEXICON[word].token for word in said.split()}
        for theirs, right, near in story.counted:
            about = (sentence.tokens - own) & near
            if theirs == unit and len(about) >= 2 and english.weigh_rare(about) >= 250:
                return Wrong("number", said, f"{right} {unit}")
    return None
