"""Words into tokens that questions and answers are compared by: stems, with synonyms taken
together. Knows no card.
"""

import re
from collections.abc import Callable

from rlver_gym.core.words import stem
from rlver_gym.io.frozen import Memo

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


def _token(word: str) -> str:
    if word in _PRONOUNS:
        return _PRONOUNS[word]
    if word in _STOP_WORDS or word in QUESTION_WORDS:
        return ""
    root = stem(word)
    return _CANONICAL_STEMS.get(word) or _CANONICAL_STEMS.get(root) or root


token_of: Callable[[str], str] = Memo(_token, 50_000).__getitem__
"""The token of one lower-case word; empty when it says nothing about a matter."""


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
