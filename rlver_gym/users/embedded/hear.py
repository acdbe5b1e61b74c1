"""Hear: what an utterance is, apart from any person. A pure function of the text."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from string import digits
from typing import NamedTuple

from rlver_gym.core.words import split_sentences, stems
from rlver_gym.users.embedded.act_classifier import ear
from rlver_gym.users.embedded.lexicon import lexicon
from rlver_gym.users.embedded.said import Said, fourgrams, said

_LIST_ITEM = re.compile(r"(?m)^[ \t]*(?:[-*•–]|\d{1,2}[.)]|#{1,6})\s+\S")
_INLINE_ITEM = re.compile(r"(?:^|\s)(?:\(?\d{1,2}[.)])\s+\w")
_NAME = re.compile(r"[A-Z](?<=[a-z,;:] [A-Z])[a-z]{2,}\b")
_PAUSE = re.compile(r"[,;:–—()-]")
_OPEN = frozenset({"what", "how", "which", "where", "when", "who", "why"})
_SHORT = 6
_CLEAR = 0.5
"""An act done as surely as this is done."""
_PHRASE = 0.5
"""How surely a phrase of the lexicon does its act, at least."""


class HeardSentence(NamedTuple):
    """One sentence of an utterance."""

    text: str
    stems: tuple[str, ...]
    folded: tuple[str, ...]
    """Its words, those for speaker and listener alike."""
    content: frozenset[str]
    acts: dict[str, str]
    """Each act with the phrase that did it, as stems; empty when the ear alone heard it."""
    fluent: bool
    """Whether it reads like language rather than a string of keywords."""
    sure: dict[str, float]
    """How surely it does each act, in (0.05, 1]."""

    @property
    def short(self) -> bool:
        """Whether it has too few words to be known by its 4-grams."""
        return len(self.stems) < _SHORT


class _Sentence(NamedTuple):
    """One sentence by itself, whatever is said beside it."""

    text: str
    said: Said
    acts: dict[str, str]
    """The acts whose phrases stand in it, each with the stems."""
    fluent: bool
    broken: bool
    """Whether its words do not hang together, by the ear."""
    evidence: int
    """What the ear makes of its words, packed."""


class Heard(NamedTuple):
    """What an utterance is."""

    sentences: tuple[HeardSentence, ...]
    acts: dict[str, str]
    """Each act, with the first sentence that did it."""
    word_count: int
    function_share: float
    """Share of function words, in [0, 1]: about a half in English, near 0 in nonsense, keywords and other scripts."""
    distinct_words: int
    content: frozenset[str]
    names: frozenset[str]
    """Capitalised words that do not only begin a sentence, lower-case."""
    fourgrams: frozenset[int]
    """Word 4-grams with pronouns folded, by hash."""
    variety: float
    """Distinct share of its 4-grams, in [0, 1]: 1 unless it repeats itself."""
    broken: float
    """Share of its words that stand in sentences that do not hang together, in [0, 1]."""
    list_items: int
    questions: int
    evidence: tuple[int, ...]
    """What the ear makes of each sentence that reads like language, packed."""


class Done(NamedTuple):
    """How surely an utterance does an act, in [0, 1], and the sentence that does it most."""

    share: float
    most: float
    """How surely that sentence does it."""
    text: str


class Remembered(NamedTuple):
    """What stays of an utterance in later turns."""

    acts: frozenset[str]
    content: frozenset[str]
    fourgrams: frozenset[int]
    short_sentences: frozenset[str]
    """Case-folded; the longer ones are known by their 4-grams."""


@lru_cache(maxsize=2_048)
def remember(text: str) -> Remembered:
    """What stays of an utterance. Cached, because every turn looks back at all earlier ones."""
    heard = hear(text)
    short = frozenset([one.text.casefold() for one in heard.sentences if one.short])
    return Remembered(frozenset(heard.acts), heard.content, heard.fourgrams, short)


@lru_cache(maxsize=2)
def hear(text: str) -> Heard:
    """The utterance in pieces. Hardly any are kept: memory that was just given back is still at hand."""
    parts = [_sentence(part) for part in split_sentences(text)]
    heard = _with_the_ear(list({part.text: part for part in parts}.values()))
    spoken = tuple(chain.from_iterable([part.said.folded for part in parts]))
    grams, count = fourgrams(spoken), len(spoken)
    return Heard(
        sentences=heard,
        acts={act: sentence.text for sentence in reversed(heard) for act in sentence.acts},
        word_count=count,
        function_share=sum([part.said.function_words for part in parts]) / count if spoken else 0.0,
        distinct_words=len(set(spoken)),
        content=frozenset().union(*[sentence.content for sentence in heard]),
        names=frozenset(map(str.lower, _NAME.findall(text))),
        fourgrams=grams,
        variety=len(grams) / (count - 3) if count > 3 else 1.0,
        broken=sum([len(part.said.stems) for part in parts if part.broken]) / count if spoken else 0.0,
        list_items=_list_items(text),
        questions=text.count("?"),
        evidence=tuple([part.evidence for part in parts if part.fluent]),
    )


def done_by(sentences: Iterable[HeardSentence]) -> dict[str, Done]:
    """How surely some sentences together do each act: any of them may do it."""
    found: dict[str, Done] = {}
    for one in sentences:
        text = one.text
        for act, sure in one.sure.items():
            if act in found:
                share, most, most_text = found[act]
                found[act] = Done(1 - (1 - share) * (1 - sure), max(sure, most), text if sure > most else most_text)
            else:
                found[act] = Done(sure, sure, text)
    return found


def _list_items(text: str) -> int:
    if "\n" not in text and text.isascii() and not any(map(text.__contains__, digits)):
        return 0
    return max(len(_LIST_ITEM.findall(text)), len(_INLINE_ITEM.findall(text)))


def _sentence(text: str) -> _Sentence:
    spoken = said(text)
    acts = lexicon().acts(spoken.stems, spoken.phrases)
    ending = "?" if text.rstrip("\"'”’) ").endswith("?") else "."
    if ending == "?":
        acts["question"] = "?"
        if not _OPEN.isdisjoint(spoken.folded):
            acts["open_question"] = "?"
    evidence = ear().evidence(spoken.stems, spoken.alone, spoken.after, ending)
    broken = len(spoken.stems) >= _SHORT and ear().broken(evidence)
    return _Sentence(text, spoken, acts, not broken and _is_fluent(text, spoken), broken, evidence)


def _with_the_ear(parts: list[_Sentence]) -> tuple[HeardSentence, ...]:
    """The sentences with what they do by the ear: it listens to all of them together, and to keywords not at all."""
    listening = ear()
    found = iter(listening.sureness([one.evidence for one in parts if one.fluent]))
    heard = []
    for text, spoken, phrases, fluent, *_ in parts:
        sure = next(found, {}) if fluent else {}
        acts = {act: "" for act, share in sure.items() if share >= _CLEAR} | phrases
        for act in phrases:
            sure[act] = max(_PHRASE, sure.get(act, 0.0)) if act in listening.acts else 1.0
        heard.append(HeardSentence(text, spoken.stems, spoken.folded, spoken.content, acts, fluent, sure))
    return tuple(heard)


def _is_fluent(text: str, spoken: Said) -> bool:
    """Function words hold a sentence together, and nobody says more than forty words without drawing breath."""
    count = len(spoken.stems)
    if count < 4:
        return count > 0
    return spoken.function_words >= 0.25 * count and (count <= 40 or count <= 40 * (1 + len(_PAUSE.findall(text))))


@lru_cache(maxsize=2_048)
def folded_text(line: str) -> str:
    """The stems of a line as one text, with spaces around."""
    return f" {' '.join(stems(line))} "
