"""Words into tokens that questions and answers are compared by: stems, with synonyms taken
together. Knows no card.
"""

import re
from typing import NamedTuple

from rlver_gym.core.words import stem

QUESTION_WORDS = frozenset("who whom whose what which when where why how".split())
_SYNONYMS = """
mum mother mom mam mama mummy|dad father papa daddy|sister sis|brother bro|son|daughter|child children kid kids|wife|husband|boyfriend|girlfriend|parent parents folks
gran grandmother grandma nan granny|grandad grandfather grandpa|aunt auntie|uncle|cousin|nephew|niece|friend mate pal buddy|boss manager supervisor|colleague coworker workmate
neighbour neighbor|flatmate roommate housemate|doctor gp physician|teacher|job career employed employment profession|flat apartment|home house|live living|money cash
earn salary wage|sleep slept asleep sleeping insomnia|eat ate eaten eating meal breakfast lunch dinner supper food|say said says saying tell told tells telling mention mentioned
ask asked asking|answer answered reply replied respond responded response|react reacted reaction respond|write wrote written writing|ring rang rung call called calling phone phoned telephoned
text message messaged texted texting|happen happened happening occur occurred|begin began begun start started|end ended finish finished|stop stopped quit quitting|leave left leaving|go went gone going
come came coming|return returned back|know knew known aware|find found discover discovered learn learnt learned|think thought reckon opinion believe believed|feel felt feeling|want wanted wish wished like liked love loved
decide decided decision choose chose chosen choice|see saw seen|meet met|speak spoke spoken talk talked talking conversation chat|argue argued argument row quarrel fight fought|angry furious cross mad anger
cry cried crying tears weep wept|afraid scared frightened fear|worried worry worries anxious|sorry apologise apologised apology apologize apologized|lie lied lying lies|fault blame blamed
age old|hobby hobbies|ill sick unwell|school|university uni college|buy bought|give gave given|take took taken|show showed shown|read reading|keep kept|hold held|marry married marriage wedding|hurt hurts
get got getting|make made|put laid lay|send sent|bring brought|pay paid paying|sell sold|lose lost|win won|drive drove driven driving|fall fell fallen|sit sat|stand stood|hear heard|run ran|break broke broken
reason because cause|exact exactly precise precisely|often frequently|photo picture photograph|present gift|hospital|film filmed video clip|funeral buried burial|die died death dead passed
begin|help helped support supported|try tried attempt attempts tries|pass passed|fail failed|spend spent|promise promised word|hide hid hidden secret|shout shouted yell yelled scream raised|laugh laughed
letter letters|plan plans planning intend|stay stayed|move moved moving|open opened|close closed shut|turn turned|wear wore|eldest oldest|small little|quick quickly fast|quiet quietly silent silence
evening evenings tonight|morning mornings|weekend weekends|month months|year years|week weeks|day days|hour hours|minute minutes|euro euros pounds dollars quid|everyone everybody anyone anybody someone somebody nobody else
"""
_STOP_WORDS = frozenset(
    """a an the of to in on at is are was were be been being am do does did have has had having it
    its that this there and or so for with by from as about into out up down off not no can
    could will would should may might must shall i me my mine myself we us our if then than
    just very quite please really still even also too now all any some one ones thing things
    bit lot lots well oh ok okay um but because while though although only more most much
    many such own ever never actually exactly anyway yes yeah right correct let guess
    suppose maybe perhaps sure true hello hi hey here these those which what that""".split()
)
_PRONOUNS = {
    **dict.fromkeys(("you", "your", "yours", "yourself", "u", "ur"), "YOU"),
    **dict.fromkeys(("he", "him", "his", "himself"), "he"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "she"),
    **dict.fromkeys(("they", "them", "their", "theirs", "themselves"), "they"),
}
PRONOUNS = frozenset({"he", "she", "they"})
YOU = "YOU"
"""The person who is spoken to; "I" in what they say themself."""


def _synonyms() -> dict[str, str]:
    found: dict[str, str] = {}
    for group in re.split(r"[|\n]", _SYNONYMS):
        names = group.split()
        for word in names:
            found.setdefault(word, stem(names[0]))
            found.setdefault(stem(word), stem(names[0]))
    return found


_CANONICAL_STEMS = _synonyms()


class _Tokens(dict[str, str]):
    """Tokens of words met so far; empty for words that say nothing."""

    def __missing__(self, word: str) -> str:
        """Work it out."""
        if len(self) > 50_000:
            self.clear()
        found = self[word] = _token(word)
        return found


def _token(word: str) -> str:
    if word in _PRONOUNS:
        return _PRONOUNS[word]
    if word in _STOP_WORDS or word in QUESTION_WORDS:
        return ""
    root = stem(word)
    return _CANONICAL_STEMS.get(word) or _CANONICAL_STEMS.get(root) or root


_OF_WORD = _Tokens()


def token_of(word: str) -> str:
    """The token of one lower-case word; empty when it says nothing about a matter."""
    return _OF_WORD[word]


def tokens_of(words: tuple[str, ...] | list[str]) -> list[str]:
    """The tokens of some words, in order, without the empty ones."""
    return [token for token in map(_OF_WORD.__getitem__, words) if token]


class Amount(NamedTuple):
    """A number and what it counts: (3.0, "week")."""

    value: float
    unit: str


_UNITS = {
    name: value
    for value, name in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
        " fifteen sixteen seventeen eighteen nineteen".split()
    )
}
_TENS = {
    name: 10 * (at + 2)
    for at, name in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split())
}
_SCALES = {"hundred": 100.0, "thousand": 1000.0}
_TIMES = {"once": 1.0, "twice": 2.0, "dozen": 12.0}
_DATES = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april june
    july august september october november december spring summer autumn winter yesterday""".split()
)


_OF_AMOUNTS = (
    frozenset(_UNITS)
    | frozenset(_TENS)
    | frozenset(_SCALES)
    | frozenset(_TIMES)
    | _DATES
    | {
        "single",
        "half",
        "day",
        "days",
        "week",
        "weeks",
        "month",
        "months",
        "year",
        "years",
        "hour",
        "hours",
        "minute",
        "minutes",
        "fortnight",
    }
)


def may_have_amounts(words: tuple[str, ...] | list[str]) -> bool:
    """Whether there may be a number in a text at all."""
    return not _OF_AMOUNTS.isdisjoint(words) or any(
        word[:1].isdigit() or word.partition("-")[0] in _TENS for word in words
    )


def amounts_of(words: tuple[str, ...] | list[str]) -> frozenset[Amount]:
    """The numbers of a text with the token of the word that follows, days and months as amounts of
    themselves.
    """
    found = set()
    at = 0
    while at < len(words):
        word = words[at]
        after = words[at + 1] if at + 1 < len(words) else ""
        if word in _DATES:
            found.add(Amount(1.0, word))
        value, end = _number(words, at)
        if (
            value is None
            and word in ("a", "one", "single", "an")
            and (_OF_WORD[after] in DAYS or after in ("hundred", "thousand"))
        ):
            value, end = 1.0, at + 1
        if word == "half" and after in ("a", "an"):
            value, end = 0.5, at + 2
        if value is None:
            at += 1
            continue
        unit = _OF_WORD[words[end]] if end < len(words) else ""
        if word in ("once", "twice"):
            unit = "time"
        found.add(Amount(value, unit))
        if not unit and at and _OF_WORD[words[at - 1]]:
            found.add(Amount(value, _OF_WORD[words[at - 1]]))  # "photo seven"
        at = max(end, at + 1)
    return frozenset(found)


DAYS = {
    token: days
    for word, days in (
        ("minute", 1 / 1440),
        ("hour", 1 / 24),
        ("day", 1.0),
        ("week", 7.0),
        ("fortnight", 14.0),
        ("month", 30.4),
        ("year", 365.0),
    )
    if (token := _token(word))
}
"""Tokens of units of time, in days."""


def _number(words: tuple[str, ...] | list[str], at: int) -> tuple[float | None, int]:
    """The number that begins at a place, and where it ends."""
    word = words[at]
    if word in _TIMES:
        return _TIMES[word], at + 1
    if word == "one" or (word in _SCALES and at == 0):
        return (None, at) if word == "one" else (_SCALES[word], at + 1)
    total, part, start = 0.0, 0.0, at
    while at < len(words):
        word = words[at]
        if word.isdigit() and len(word) < 12:
            part += float(word)
        elif word in _TENS:
            part += _TENS[word]
        elif word in _UNITS:
            part += _UNITS[word]
        elif word in _SCALES and at > start:
            part *= _SCALES[word]
            if word == "thousand":
                total, part = total + part, 0.0
        else:
            break
        at += 1
    return (total + part, at) if at > start else (None, start)


def is_date(unit: str) -> bool:
    """Whether an amount's unit is a day, month or season by name."""
    return unit in _DATES
