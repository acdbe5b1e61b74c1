"""What a true sentence of a lean card gives: ways of asking for it, and the words by which another
sentence is known to mean it. Knows no card.
"""

import re
from collections.abc import Collection

from rlver_gym.core.words import FUNCTION_WORDS, content_stem, is_named, split_words, stem
from rlver_gym.util.yaml_file import load_yaml

_DATA = load_yaml("rlver_gym.core", "words.yaml")
_YOURS: dict[str, str] = _DATA["address"]
_OWN = re.compile(rf"\b(?:{'|'.join(_YOURS)})\b", re.IGNORECASE)
_QUESTIONS = [
    (re.compile("".join(question["where"])), question["ask"]) for question in _DATA["questions"]
]
_CLAUSE = re.compile(r"[,;:]|\b(?:and|but|because|so that|which|who)\b|[.!?…](?=\s|$)")
_MOST_WORDS = 9
_EMPTY = frozenset(map(stem, _DATA["vague"].split()))
"""Stems that say too little to recognise a sentence by."""


def turn_into_second_person(text: str) -> str:
    """A sentence of a person said to them: "I sold my flat" is "You sold your flat"."""
    addressed = _OWN.sub(lambda word: _YOURS[word.group().lower()], text)
    return re.sub(r"\byou was\b", "you were", addressed[:1].upper() + addressed[1:])


def make_questions(text: str, names: Collection[str]) -> tuple[str, ...]:
    """Questions that a sentence answers, each about its clause; `names` of whom it may be about."""
    clauses = [part for part in map(str.strip, _CLAUSE.split(text)) if len(part.split()) > 1] or [
        text
    ]
    chief = " ".join(content_words(clauses[0])[:2])
    questions = [
        f"Did {_make_question(clauses[0])}?",
        f"Tell me about {_make_question(clauses[0])}?",
    ]
    for pattern, ask in _QUESTIONS:
        clause = next((part for part in clauses if pattern.search(part)), None)
        if clause is not None or pattern.search(text):
            subject = "" if clause in (None, clauses[0]) else chief
            questions.append(
                f"{ask} {_make_question(clause or clauses[0])} {subject}?".replace(" ?", "?")
            )
    if any(is_named(name, text) for name in names):
        questions.append(f"Who {_make_question(clauses[0])}?")
    questions.append(f"What did {_make_question(clauses[-1])}?")
    return tuple(questions)


def _make_question(clause: str) -> str:
    return " ".join(turn_into_second_person(clause).split()[:_MOST_WORDS])


def content_words(text: str) -> list[str]:
    """The words that say what a text is about, in order, each stem once."""
    by_stem: dict[str, str] = {}
    for word in split_words(text):
        key = content_stem(word)
        if key and key not in _EMPTY:
            by_stem.setdefault(key, word)
    return list(by_stem.values())


def make_anchor_word_groups(
    text: str, told: Collection[str], names: Collection[str]
) -> tuple[str, ...]:
    """The word groups by which another sentence is known to say what this one says: one of its
    words from the story (`told`: stems), and one that is not; names alone are too easily hit.
    """
    words = content_words(text)
    plain = [word for word in words if stem(word) not in names] or words
    facts = [word for word in plain if stem(word) in told]
    thoughts = [word for word in plain if stem(word) not in told]
    half = (len(plain) + 1) // 2
    groups = [facts, thoughts] if facts and thoughts else [plain[:half], plain[half:]]
    if not all(groups):  # one word says it all: any other of the sentence beside it
        rest = [word for word in split_words(text) if word not in plain]
        own = [word for word in rest if word not in FUNCTION_WORDS] or rest
        groups = [plain or own[:1], own if plain else own[1:]]
    return tuple("|".join(group) or "you" for group in groups)
