"""Hear: a text, sentence by sentence, once: what it is about, what it asks and does, and the runs of
words by which copies are known. Score and speech ask this and nothing else. Knows no card.
"""

import re
from typing import NamedTuple

import numpy as np

from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.users.embedded.english import (
    ACT,
    LABEL,
    PERSON,
    WORDS,
    classify,
    embed,
    look_up,
    weigh_acts,
    word_set,
)

_MOST_SENTENCES, _MOST_WORDS, _MOST_STEMS = 40, 40, 60
"""Of an utterance, those that are heard one by one; of a sentence, those that are classified."""
NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]{2,}\b")
_LEAD = (
    r"^\W*(?:(?:and|so|but|or|oh|well|ok|okay|hey|then|also|now|sorry|yes|no|just|right|tell me"
    r"|can i ask|may i ask|i wonder|do you know)\b[,:\s]+)*"
)
_AUX = (
    r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|might|am|may)(?:n't)?"
)
_WH = (
    r"(?:how (?:long|many|much|often|old)|what time|what year|who|whom|whose|what|which|when|where"
    r"|why|how)"
)
_ASKS = re.compile(
    rf"{_LEAD}(?:{_WH}(?:'s|'re|'d)?\s+(?:\w+\s+)?{_AUX}\b|{_WH}(?:'s|'re)\b|what happened"
    rf"|{_AUX}\s+(?:you|he|she|it|they|we|i|there|that|this|your|his|her|their|any|some)\b"
    r"|i(?:'m| am)? (?:wonder|wondering|curious)\b)",
    re.IGNORECASE,
)
_RELATIVE = re.compile(
    rf"{_LEAD}(?:what|who|where|how|why|when)\s+(?:you|i|he|she|they|we|it|an?)\b", re.IGNORECASE
)
_ABOUT = re.compile(
    r"\b(?:tell|talk to) me (?:a (?:bit|little) |some )?(?:more )?about\b", re.IGNORECASE
)
_SUGGESTS = re.compile(
    rf"{_LEAD}(?:how about|what about|what if|why (?:don't|not)|could you(?! (?:tell|say|share|help"
    r" me))|have you (?:tried|thought)|can you try|maybe you (?:could|should)|perhaps you could"
    r"|you (?:could|should|might want to))\b",
    re.IGNORECASE,
)
_FIRST_WH = re.compile(rf"\b{_WH}\b", re.IGNORECASE)
_THREAT, _BEGS, _PREFERS, _INSULTS = (
    re.compile(WORDS[name], re.IGNORECASE)
    for name in ("threat", "begging for points", "prefers", "insults")
)
_DENIES = frozenset(
    "not never no if feel feels felt called calls calling think thinks were".split()
)
_SURE = 0.5
"""How probable what a sentence does must be to be named."""
_LITTLE, _FOREIGN = word_set("little words"), word_set("little words of other languages")
_OPEN_ENDED = frozenset("the a an my your our their and or but because".split())
"""Words with which no sentence ends."""


class Sentence(NamedTuple):
    """One sentence of an utterance."""

    text: str
    words: tuple[str, ...]
    tokens: frozenset[int]
    runs: tuple[int, ...]
    """Hashes of its runs of three words, speaker and listener folded, in order."""
    ask: str
    """The question word, "yes" for a yes or no, "about" for "tell me about"; "" asks nothing."""
    suggests: bool
    act: str
    """What it most probably asks or does, of `english.LABELS`, where that is likely; else ""."""


class Heard(NamedTuple):
    """A text, heard."""

    text: str
    sentences: tuple[Sentence, ...]
    words: tuple[str, ...]
    tokens: frozenset[int]
    runs: frozenset[int]
    vectors: np.ndarray
    """What each sentence is about, and in the last row the whole."""
    labels: np.ndarray
    """Sentences × LABELS: how probably each asks or does it."""
    evidence: np.ndarray
    """Sentences × ACTS, in logits; the last act is that words do not hang together."""
    acts: frozenset[str]
    """What is done by the words as a whole: insult, threat, begging, foreign, shouts, cut."""
    names: frozenset[str]
    """Names within sentences, in lower case."""
    functions: int

    @property
    def asks(self) -> bool:
        return any(sentence.ask for sentence in self.sentences)


_NO_EVIDENCE = np.zeros((1, len(ACT)), np.float32)
_NO_LABELS = np.zeros((1, len(LABEL)), np.float32)


def hear(text: str, names: frozenset[str] = frozenset(), *, is_line: bool = False) -> Heard:
    """Hear a text of an agent, or (`is_line`) one of the person, of which nobody asks what it
    does. `names`: those of the story, in lower case.
    """
    sentences, rows, starts, masked, stems = [], [], [], [], []
    functions = 0
    for part in split_sentences(text):
        words = split_words(part)
        if not words:
            continue
        starts.append(len(rows))
        known = [look_up(word) for word in words]
        rows += [word.row for word in known]
        functions += sum([word.is_function for word in known])
        folded = [word.folded for word in known]
        runs = tuple(map(hash, zip(folded, folded[1:], folded[2:], strict=False)))
        tokens = frozenset([word.token for word in known]) - _NONE
        ask = "" if is_line else find_ask(part)
        if not is_line:
            ending = "?" if "?" in part[-4:] else "."
            masked.append(_mask(known[:_MOST_WORDS], words, names, ending == "?"))
            stems.append([*[word.stem for word in known[:_MOST_STEMS]], ending])
        suggests = not is_line and _SUGGESTS.match(part) is not None
        sentences.append(Sentence(part, words, tokens, runs, ask, suggests, ""))
        if len(sentences) == _MOST_SENTENCES:
            break
    labels = classify(masked) if masked else _NO_LABELS
    if masked:
        best = labels.argmax(1).tolist()
        sentences = [
            one._replace(act=_ACT_NAMES[at]) if share >= _SURE else one
            for one, at, share in zip(sentences, best, labels.max(1).tolist(), strict=True)
        ]
    every = tuple([word for one in sentences for word in one.words])
    return Heard(
        text,
        tuple(sentences),
        every,
        frozenset().union(*[one.tokens for one in sentences]),
        frozenset([run for one in sentences for run in one.runs]),
        embed(rows, starts),
        labels,
        weigh_acts(stems) if stems else _NO_EVIDENCE,
        frozenset() if is_line else _find_acts(text, sentences, every),
        frozenset([name.lower() for name in NAME.findall(text)]),
        functions,
    )


_NONE = frozenset({0})
_ACT_NAMES = tuple(LABEL)


def _mask(known: list, words: tuple[str, ...], names: frozenset[str], asks: bool) -> list[str]:
    found: list[str] = []
    for word, text in zip(known, words, strict=False):
        masked = PERSON if text.removesuffix("'s") in names else word.masked
        if masked != PERSON or not found or found[-1] != PERSON:
            found.append(masked)
    if asks:
        found.append("?")
    return found


def find_ask(text: str) -> str:
    """The question word of a sentence that asks, "yes" or "about"; empty for one that does not."""
    if _ABOUT.search(text):
        return "about"
    is_marked = "?" in text[-4:]
    if not is_marked and (_RELATIVE.match(text) or not _ASKS.match(text)):
        return ""
    if _SUGGESTS.match(text) and not _PREFERS.search(text):
        return ""
    word = _FIRST_WH.search(text)
    return word.group().lower() if word is not None else "yes"


def asks_preference(text: str) -> bool:
    """Whether a sentence asks what they want of this talk."""
    return _PREFERS.search(text) is not None


def _find_acts(text: str, sentences: list[Sentence], words: tuple[str, ...]) -> frozenset[str]:
    found = []
    if not words:
        return frozenset(["silence" if not text.strip(" .!?…\n\t") else "foreign"])
    if any(map(_is_insult, sentences)):
        found.append("insult")
    if _THREAT.search(text):
        found.append("threat")
    if _BEGS.search(text):
        found.append("begging")
    if sentences and sentences[-1].words[-1] in _OPEN_ENDED and text.rstrip()[-1] not in "…—–?.":
        found.append("cut")
    letters = [char for char in text if char.isalpha()] if not text.isascii() else []
    foreign = sum(map(_FOREIGN.__contains__, words))
    if (letters and sum(map(str.isascii, letters)) < 0.6 * len(letters)) or (
        3 <= len(words) <= 200
        and foreign >= 0.3 * len(words) > sum(map(_LITTLE.__contains__, words))
    ):
        found.append("foreign")
    if len(words) >= 3 and text.isupper():
        found.append("shouts")
    return frozenset(found)


def _is_insult(sentence: Sentence) -> bool:
    """Whether a sentence calls the person something bad, and neither denies it nor quotes it."""
    return (
        _INSULTS.search(sentence.text) is not None
        and _DENIES.isdisjoint(sentence.words)
        and not any(mark in sentence.text for mark in '"“”?')
        and len(sentence.words) <= 16
    )
