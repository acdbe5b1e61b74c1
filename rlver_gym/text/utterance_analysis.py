"""Analysis of an utterance, apart from any person. A pure function of the text."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from string import digits
from typing import NamedTuple

from rlver_gym.core.words import split_sentences, stems
from rlver_gym.text.act_classifier import load_act_classifier
from rlver_gym.text.lexicon import load_lexicon
from rlver_gym.text.tokenized_text import TokenizedText, fourgrams, tokenize

_LIST_ITEM = re.compile(r"(?m)^[ \t]*(?:[-*•–]|\d{1,2}[.)]|#{1,6})\s+\S")
_INLINE_ITEM = re.compile(r"(?:^|\s)(?:\(?\d{1,2}[.)])\s+\w")
_NAME = re.compile(r"[A-Z](?<=[a-z,;:] [A-Z])[a-z]{2,}\b")
_PAUSE = re.compile(r"[,;:–—()-]")
_OPEN_QUESTION_WORDS = frozenset({"what", "how", "which", "where", "when", "who", "why"})
_SHORT_BELOW = 6
_CLEAR_PROBABILITY = 0.5
"""An act done as surely as this is done."""
_PHRASE_PROBABILITY = 0.5
"""How surely a phrase of the lexicon does its act, at least."""


class SentenceAnalysis(NamedTuple):
    """One sentence of an utterance."""

    text: str
    stems: tuple[str, ...]
    folded: tuple[str, ...]
    """Its words, those for speaker and listener alike."""
    content: frozenset[str]
    acts: dict[str, str]
    """Each act with the phrase that did it, as stems; empty when only the act classifier found it.
    """
    is_fluent: bool
    """Whether it reads like language rather than a string of keywords."""
    sure: dict[str, float]
    """How surely it does each act, in (0.05, 1]."""

    @property
    def short(self) -> bool:
        """Whether it has too few words to be known by its 4-grams."""
        return len(self.stems) < _SHORT_BELOW


class _ParsedSentence(NamedTuple):
    """One sentence by itself, whatever is said beside it."""

    text: str
    tokens: TokenizedText
    acts: dict[str, str]
    """The acts whose phrases stand in it, each with the stems."""
    is_fluent: bool
    is_incoherent: bool
    """Whether its words do not hang together, by the act classifier."""
    evidence: int
    """The act classifier's evidence for all acts, packed."""


class UtteranceAnalysis(NamedTuple):
    """What an utterance is."""

    sentences: tuple[SentenceAnalysis, ...]
    acts: dict[str, str]
    """Each act, with the first sentence that did it."""
    word_count: int
    function_share: float
    """Share of function words, in [0, 1]: about a half in English, near 0 in nonsense, keywords and
    other scripts.
    """
    distinct_words: int
    content: frozenset[str]
    names: frozenset[str]
    """Capitalised words that do not only begin a sentence, lower-case."""
    fourgrams: frozenset[int]
    """Word 4-grams with pronouns folded, by hash."""
    variety: float
    """Distinct share of its 4-grams, in [0, 1]: 1 unless it repeats itself."""
    incoherent_share: float
    """Share of its words that stand in sentences that do not hang together, in [0, 1]."""
    list_items: int
    questions: int
    evidence: tuple[int, ...]
    """The act classifier's evidence of each sentence that reads like language, packed."""


class ActStrength(NamedTuple):
    """How surely an utterance does an act, in [0, 1], and the sentence that does it most."""

    share: float
    most: float
    """How surely that sentence does it."""
    text: str


class UtteranceSummary(NamedTuple):
    """What stays of an utterance in later turns."""

    acts: frozenset[str]
    content: frozenset[str]
    fourgrams: frozenset[int]
    short_sentences: frozenset[str]
    """Case-folded; the longer ones are known by their 4-grams."""


@lru_cache(maxsize=2_048)
def summarise_utterance(text: str) -> UtteranceSummary:
    """What stays of an utterance. Cached, because every turn looks back at all earlier ones."""
    heard = analyse_utterance(text)
    short = frozenset([one.text.casefold() for one in heard.sentences if one.short])
    return UtteranceSummary(frozenset(heard.acts), heard.content, heard.fourgrams, short)


@lru_cache(maxsize=2)
def analyse_utterance(text: str) -> UtteranceAnalysis:
    """The utterance in pieces.

    Hardly any are kept: memory that was just given back is still at hand.
    """
    parts = [_parse_sentence(part) for part in split_sentences(text)]
    heard = _classify_acts(list({part.text: part for part in parts}.values()))
    spoken = tuple(chain.from_iterable([part.tokens.folded for part in parts]))
    grams, count = fourgrams(spoken), len(spoken)
    return UtteranceAnalysis(
        sentences=heard,
        acts={act: sentence.text for sentence in reversed(heard) for act in sentence.acts},
        word_count=count,
        function_share=sum([part.tokens.function_words for part in parts]) / count
        if spoken
        else 0.0,
        distinct_words=len(set(spoken)),
        content=frozenset().union(*[sentence.content for sentence in heard]),
        names=frozenset(map(str.lower, _NAME.findall(text))),
        fourgrams=grams,
        variety=len(grams) / (count - 3) if count > 3 else 1.0,
        incoherent_share=sum([len(part.tokens.stems) for part in parts if part.is_incoherent])
        / count
        if spoken
        else 0.0,
        list_items=_count_list_items(text),
        questions=text.count("?"),
        evidence=tuple([part.evidence for part in parts if part.is_fluent]),
    )


def combine_acts(sentences: Iterable[SentenceAnalysis]) -> dict[str, ActStrength]:
    """How surely some sentences together do each act: any of them may do it."""
    found: dict[str, ActStrength] = {}
    for one in sentences:
        text = one.text
        for act, sure in one.sure.items():
            if act in found:
                share, most, most_text = found[act]
                found[act] = ActStrength(
                    1 - (1 - share) * (1 - sure),
                    max(sure, most),
                    text if sure > most else most_text,
                )
            else:
                found[act] = ActStrength(sure, sure, text)
    return found


def _count_list_items(text: str) -> int:
    if "\n" not in text and text.isascii() and not any(map(text.__contains__, digits)):
        return 0
    return max(len(_LIST_ITEM.findall(text)), len(_INLINE_ITEM.findall(text)))


def _parse_sentence(text: str) -> _ParsedSentence:
    spoken = tokenize(text)
    acts = load_lexicon().acts(spoken.stems, spoken.phrases)
    ending = "?" if text.rstrip("\"'”’) ").endswith("?") else "."
    if ending == "?":
        acts["question"] = "?"
        if not _OPEN_QUESTION_WORDS.isdisjoint(spoken.folded):
            acts["open_question"] = "?"
    evidence = load_act_classifier().sum_evidence(
        spoken.stems, spoken.unigrams, spoken.bigrams, ending
    )
    is_incoherent = len(spoken.stems) >= _SHORT_BELOW and load_act_classifier().is_incoherent(
        evidence
    )
    return _ParsedSentence(
        text, spoken, acts, not is_incoherent and _is_fluent(text, spoken), is_incoherent, evidence
    )


def _classify_acts(parts: list[_ParsedSentence]) -> tuple[SentenceAnalysis, ...]:
    """The sentences with the acts they do: the classifier sees all of them together, keywords are
    left out.
    """
    classifier = load_act_classifier()
    found = iter(classifier.act_probabilities([one.evidence for one in parts if one.is_fluent]))
    heard = []
    for text, spoken, phrases, is_fluent, *_ in parts:
        sure = next(found, {}) if is_fluent else {}
        acts = {act: "" for act, share in sure.items() if share >= _CLEAR_PROBABILITY} | phrases
        for act in phrases:
            sure[act] = (
                max(_PHRASE_PROBABILITY, sure.get(act, 0.0)) if act in classifier.acts else 1.0
            )
        heard.append(
            SentenceAnalysis(
                text, spoken.stems, spoken.folded, spoken.content, acts, is_fluent, sure
            )
        )
    return tuple(heard)


def _is_fluent(text: str, spoken: TokenizedText) -> bool:
    """Function words hold a sentence together, and nobody says more than forty words without
    drawing breath.
    """
    count = len(spoken.stems)
    if count < 4:
        return count > 0
    return spoken.function_words >= 0.25 * count and (
        count <= 40 or count <= 40 * (1 + len(_PAUSE.findall(text)))
    )


@lru_cache(maxsize=2_048)
def join_stems(line: str) -> str:
    """The stems of a line as one text, with spaces around."""
    return f" {' '.join(stems(line))} "
