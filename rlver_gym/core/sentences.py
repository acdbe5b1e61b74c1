"""What a true sentence of a lean card gives: ways of asking for it, and the words by which another
sentence is known to mean it. Knows no card.
"""

import re
from collections.abc import Collection, Iterator

from rlver_gym.core.words import FUNCTION_WORDS, content_stem, split_words, stem

_YOURS = {
    "i'm": "you're", "i": "you", "me": "you", "my": "your", "mine": "yours",
    "myself": "yourself", "am": "are", "we": "you", "us": "you", "our": "your", "ours": "yours",
}  # fmt: skip
_OWN = re.compile(rf"\b(?:{'|'.join(_YOURS)})\b", re.IGNORECASE)
_WHEN = re.compile(
    r"\b(?:ago|since|last|next|until|yesterday|today|tomorrow|tonight|morning|evening|night|noon"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august"
    r"|september|october|november|december|spring|summer|autumn|winter|o'clock|\d+[.:]\d\d|when)\b",
    re.IGNORECASE,
)
_WHERE = re.compile(
    r"\b(?:in|at|on|under|behind|beside|near|from|to|into|by) (?:the|a|an|my|our|his|her|their"
    r"|[A-Z]\w+)\b"
)
_WHY = re.compile(r"\b(?:because|since|so that|in order to|otherwise|afraid)\b", re.IGNORECASE)
_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty"
    " fifty sixty hundred thousand half dozen once twice every".split()
)
_COUNT = re.compile(rf"\b(?:\d+|{'|'.join(_NUMBERS)})\b", re.IGNORECASE)
_SPAN = re.compile(
    r"\b(?:minutes?|hours?|days?|nights?|weeks?|months?|years?|summers?)\b", re.IGNORECASE
)
_ASKS = (
    (_WHEN, "When did"),
    (_WHERE, "Where did"),
    (_WHY, "Why did"),
    (re.compile(rf"{_COUNT.pattern} (?:\w+ )?{_SPAN.pattern}", re.IGNORECASE), "How long did"),
    (_COUNT, "How many"),
    (re.compile(r"\b(?:is|was|were) (?:an?|the)\b"), "What kind of"),
    (re.compile(rf"\b(?:is|am|was|turned) (?:{_COUNT.pattern})", re.IGNORECASE), "How old"),
)
_CLAUSE = re.compile(r"[,;:]|\b(?:and|but|because|so that|which|who)\b|[.!?…](?=\s|$)")
_MOST_WORDS = 9
_EMPTY = frozenset(
    stem(word)
    for word in """sound sounds seem maybe perhaps feel feels felt must might person somebody
    anybody everything nothing something thing way lot bit thought thinking says said""".split()
)
"""Stems that say too little to recognise a sentence by."""


def address(text: str) -> str:
    """A sentence of a person said to them: "I sold my flat" is "You sold your flat"."""
    found = _OWN.sub(lambda word: _YOURS[word.group().lower()], text)
    return re.sub(r"\byou was\b", "you were", found[:1].upper() + found[1:])


def ask_for(text: str, names: Collection[str]) -> tuple[str, ...]:
    """Questions that a sentence answers, each about the clause that answers it; `names` are those
    of the story, whom it may be about.
    """
    clauses = [one for one in map(str.strip, _CLAUSE.split(text)) if len(one.split()) > 1] or [text]
    chief = " ".join(content_words(clauses[0])[:2])
    found = [f"Did {_ask_of(clauses[0])}?", f"Tell me about {_ask_of(clauses[0])}?"]
    for pattern, ask in _ASKS:
        clause = next((one for one in clauses if pattern.search(one)), None)
        if clause is not None or pattern.search(text):
            subject = "" if clause in (None, clauses[0]) else chief
            found.append(f"{ask} {_ask_of(clause or clauses[0])} {subject}?".replace(" ?", "?"))
    if any(name in text for name in names):
        found.append(f"Who {_ask_of(clauses[0])}?")
    found.append(f"What did {_ask_of(clauses[-1])}?")
    return tuple(found)


def _ask_of(clause: str) -> str:
    return " ".join(address(clause).split()[:_MOST_WORDS])


def content_words(text: str) -> list[str]:
    """The words that say what a text is about, in order, each stem once."""
    found: dict[str, str] = {}
    for word in split_words(text):
        key = content_stem(word)
        if key and key not in _EMPTY:
            found.setdefault(key, word)
    return list(found.values())


def word_groups(text: str, told: Collection[str], names: Collection[str]) -> tuple[str, ...]:
    """The word groups by which another sentence is known to say what this one says: one of its
    words from the story (`told`: stems), and one that is not; names alone are too easily hit.
    """
    words = content_words(text)
    plain = [word for word in words if stem(word) not in names] or words
    facts = [word for word in plain if stem(word) in told]
    thoughts = [word for word in plain if stem(word) not in told]
    groups = [facts, thoughts] if facts and thoughts else list(_halve(facts or thoughts))
    if not all(groups):  # one word says it all: any other of the sentence beside it
        rest = [word for word in split_words(text) if word not in plain]
        own = [word for word in rest if word not in FUNCTION_WORDS] or rest
        groups = [plain or own[:1], own if plain else own[1:]]
    return tuple("|".join(group) or "you" for group in groups)


def _halve(words: list[str]) -> Iterator[list[str]]:
    yield words[: (len(words) + 1) // 2]
    yield words[(len(words) + 1) // 2 :]
