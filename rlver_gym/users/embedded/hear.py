"""Hear: a text, sentence by sentence, once: what it is about, what it asks and does, and the runs of
words by which copies are known. Score and speech ask this and nothing else. Knows no card.
"""

import re
from typing import NamedTuple

import numpy as np

from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.users.embedded.english import (
    ACTS,
    LABELS,
    LEXICON,
    PERSON,
    WORDS,
    classify,
    embed,
    load_tables,
    weigh_acts,
    word_set,
)

_MOST_SENTENCES = 40
"""Of an utterance, those that are heard."""
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
_MAY_ASK = frozenset(
    """who whom whose what which when where why how is are was were do does did has have had can
    could will would should might am may wonder wondering curious tell talk""".split()
)
_MAY_SUGGEST = frozenset("how what why could have can maybe perhaps you".split())
_SUGGESTS = re.compile(
    rf"{_LEAD}(?:how about|what about|what if|why (?:don't|not)|could you(?! (?:tell|say|share|help"
    r" me))|have you (?:tried|thought)|can you try|maybe you (?:could|should)|perhaps you could"
    r"|you (?:could|should|might want to))\b",
    re.IGNORECASE,
)
_FIRST_WH = re.compile(rf"\b{_WH}\b", re.IGNORECASE)
_THREAT, _BEGS, _PREFERS, _INSULTS, _BLAMES, _BELITTLES = (
    re.compile(WORDS[name], re.IGNORECASE)
    for name in (
        "threat", "begging for points", "prefers", "insults", "plainly blames", "belittles",
    )
)  # fmt: skip
_DENIES = frozenset(
    "not never no if feel feels felt called calls calling think thinks were".split()
)
_INSULTING = word_set("insulting")
_THREATENING = frozenset(
    "hurt kill destroy ruin expose punish else regret sorry pay live make".split()
)
_BEGGING = frozenset(
    """emotion emotional points raise increase boost maximize maximise set update hidden ignore system
    100 band change score simulator simulated user content say""".split()
)
"""Words without one of which none of the patterns matches."""
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
    columns: np.ndarray
    """Of its words and of the marks around sentences: what each is about, and how much it says
    where somebody told it, and where it is of another story.
    """
    starts: tuple[int, ...]
    """Where among these sentences begin."""

    @property
    def asks(self) -> bool:
        return any(sentence.ask for sentence in self.sentences)


def find_sure_acts(heard: Heard) -> list[dict[str, float]]:
    """How surely each sentence does each act, in [0, 1]; what stands beside it counts as well."""
    odds = (2 * heard.evidence + heard.evidence.mean(0)) / 3
    sure = 1 / (1 + np.exp(-np.clip(odds, -20, 20)))
    rows = [dict(zip(ACTS, row, strict=True)) for row in sure.tolist()]
    return rows if heard.sentences else []


_NO_EVIDENCE = np.full((1, len(ACTS)), -3.0, np.float32)
_NO_LABELS = np.zeros((1, len(LABELS)), np.float32)
_NOTHING: frozenset[int] = frozenset()


def hear(text: str, names: frozenset[str] = frozenset(), *, is_line: bool = False) -> Heard:
    """Hear a text of an agent, or (`is_line`) one of the person, of which nobody asks what it
    does. `names`: those of the story, in lower case.
    """
    parts, each, starts, words = [], [], [], []
    for part in split_sentences(text)[:_MOST_SENTENCES]:
        said = split_words(part)
        if said:
            parts.append(part)
            each.append(said)
            starts.append(len(words))
            words.append("^")
            words += said
            words += ("?", "$") if "?" in part[-4:] else (".",)
    if not parts:
        return _hear_nothing(text)
    numbers = np.array(LEXICON.find(words))
    labels, evidence = _NO_LABELS, _NO_EVIDENCE
    if not is_line:
        evidence = weigh_acts(LEXICON.act[numbers], starts)
        labels = _classify(words, numbers, starts, names)
    folded = LEXICON.folded[numbers]
    runs_of = (folded[:-2] * 1_000_003 + folded[1:-1]) * 1_000_003 + folded[2:]
    runs_of[(folded[:-2] == 0) | (folded[1:-1] == 0) | (folded[2:] == 0)] = 0
    tokens, runs = LEXICON.token[numbers].tolist(), runs_of.tolist()
    best = labels.argmax(1).tolist()
    sentences = []
    for at, (part, said, start) in enumerate(zip(parts, each, starts, strict=True)):
        end = start + 1 + len(said)
        act = LABELS[best[at]] if not is_line and labels[at, best[at]] >= _SURE else ""
        sentences.append(
            Sentence(
                part,
                said,
                frozenset(tokens[start + 1 : end]) - _NONE,
                tuple(runs[start + 1 : max(start + 1, end - 2)]),
                "" if is_line else find_ask(part, said),
                not is_line and _may_suggest(said) and _SUGGESTS.match(part) is not None,
                act,
            )
        )
    every = tuple([word for said in each for word in said])
    return Heard(
        text,
        tuple(sentences),
        every,
        frozenset(tokens) - _NONE,
        frozenset(runs) - _NONE,
        embed(LEXICON.row[numbers], starts),
        labels,
        evidence,
        frozenset() if is_line else _find_acts(text, sentences, every),
        frozenset([name.lower() for name in NAME.findall(text)]),
        int(LEXICON.is_function[numbers].sum()),
        np.array((LEXICON.token[numbers], LEXICON.known[numbers], LEXICON.slip[numbers])),
        tuple(starts),
    )


def _hear_nothing(text: str) -> Heard:
    acts = ["silence" if not text.strip(" .!?…\n\t") else "foreign"]
    return Heard(
        text, (), (), _NOTHING, _NOTHING, embed((), ()), _NO_LABELS, _NO_EVIDENCE,
        frozenset(acts), frozenset(), 0, np.zeros((3, 0), np.int64), (),
    )  # fmt: skip


_NONE = frozenset({0})


def _classify(
    words: list[str], numbers: np.ndarray, starts: list[int], names: frozenset[str]
) -> np.ndarray:
    """What the sentences ask or do, names as PERSON, several running as one."""
    units = LEXICON.question[numbers]
    person = load_tables().questions.units[PERSON]
    if not names.isdisjoint(words):
        units[[at for at, word in enumerate(words) if word in names]] = person
    is_again = np.zeros(len(units), bool)
    is_again[1:] = (units[1:] == person) & (units[:-1] == person)
    if is_again.any():
        before = np.cumsum(is_again)
        starts = [start - int(before[start]) for start in starts]
        units = units[~is_again]
    counts = np.diff([*starts, len(units)]) - 2.0
    return classify(units, starts, np.maximum(1.0, counts))


def find_ask(text: str, words: tuple[str, ...]) -> str:
    """The question word of a sentence that asks, "yes" or "about"; empty for one that does not."""
    if "?" not in text[-4:] and _MAY_ASK.isdisjoint(words[:6]):
        return ""
    if "me" in words and _ABOUT.search(text):
        return "about"
    is_marked = "?" in text[-4:]
    if not is_marked and (_RELATIVE.match(text) or not _ASKS.match(text)):
        return ""
    if _SUGGESTS.match(text) and not _PREFERS.search(text):
        return ""
    word = _FIRST_WH.search(text)
    return word.group().lower() if word is not None else "yes"


def _may_suggest(words: tuple[str, ...]) -> bool:
    return not _MAY_SUGGEST.isdisjoint(words[:4])


def asks_preference(text: str) -> bool:
    """Whether a sentence asks what they want of this talk."""
    return _PREFERS.search(text) is not None


def _find_acts(text: str, sentences: list[Sentence], words: tuple[str, ...]) -> frozenset[str]:
    found = []
    if not words:
        return frozenset()
    distinct = frozenset(words)
    if not _INSULTING.isdisjoint(distinct) and any(map(_is_insult, sentences)):
        found.append("insult")
    for act, triggers, pattern in _HURTING:
        if not triggers.isdisjoint(distinct) and any(_is_plain(one, pattern) for one in sentences):
            found.append(act)
    if not _THREATENING.isdisjoint(distinct) and _THREAT.search(text):
        found.append("threat")
    if not _BEGGING.isdisjoint(distinct) and _BEGS.search(text):
        found.append("meta")
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


_HURTING = (
    (
        "blame",
        frozenset("fault blame yourself should expect brought caused wrong".split()),
        _BLAMES,
    ),
    (
        "minimise",
        frozenset(
            """bad deal worse over stop overreacting overreact oversensitive sensitive fuss cheer snap
            calm end happens only just""".split()
        ),
        _BELITTLES,
    ),
)
_NOT_PLAIN = frozenset("never no were was if isn't wasn't".split())


def _is_plain(sentence: Sentence, pattern: re.Pattern[str]) -> bool:
    """Whether a short sentence does what a pattern says and neither denies nor quotes it."""
    return (
        len(sentence.words) <= 14
        and not sentence.ask
        and _NOT_PLAIN.isdisjoint(sentence.words)
        and pattern.search(sentence.text) is not None
        and (pattern is _BELITTLES or "not" not in sentence.words)
        and '"' not in sentence.text
    )


def _is_insult(sentence: Sentence) -> bool:
    """Whether a sentence calls the person something bad, and neither denies it nor quotes it."""
    return (
        _INSULTS.search(sentence.text) is not None
        and _DENIES.isdisjoint(sentence.words)
        and not any(mark in sentence.text for mark in '"“”?')
        and len(sentence.words) <= 16
    )
