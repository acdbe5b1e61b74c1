"""Hear: what an utterance is, apart from any person. A pure function of the text."""

import re
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from rlver_gym.users.embedded.ear import ear
from rlver_gym.users.embedded.lexicon import lexicon
from rlver_gym.words import FUNCTION_WORDS, content, content_of, sentences, stem, words

_LIST_ITEM = re.compile(r"(?m)^[ \t]*(?:[-*•–]|\d{1,2}[.)]|#{1,6})\s+\S")
_INLINE_ITEM = re.compile(r"(?:^|\s)(?:\(?\d{1,2}[.)])\s+\w")
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]{2,}\b")
_MARK = re.compile(r"\d[.)]|\n[ \t]*[-*•–#]")
_PAUSE = re.compile(r"[,;:–—()-]")
_OPEN = frozenset({"what", "how", "which", "where", "when", "who", "why"})
_CLEAR = 0.5
"""An act done as surely as this is done."""
_PHRASE = 0.5
"""How surely a phrase of the lexicon does its act, at least."""
# Pronouns and "to be" folded, so that giving somebody's words back with "you" for "I" still counts as a copy.
_FOLDED = {
    **dict.fromkeys(("i", "me", "you", "myself", "yourself"), "you"),
    **dict.fromkeys(("my", "your", "mine", "yours"), "your"),
    **dict.fromkeys(("am", "are", "is"), "are"),
    **dict.fromkeys(("was", "were"), "were"),
}


class HeardSentence(NamedTuple):
    """One sentence of an utterance."""

    text: str
    stems: tuple[str, ...]
    content: frozenset[str]
    acts: dict[str, str]
    """Each act with the phrase that did it, as stems; empty when the ear alone heard it."""
    names: frozenset[str]
    """Capitalised words that do not only begin the sentence, lower-case."""
    fluent: bool
    """Whether it reads like language rather than a string of keywords."""
    sure: dict[str, float]
    """How surely it does each act, in (0.05, 1]."""


class _Sentence(NamedTuple):
    """One sentence by itself, whatever is said beside it."""

    text: str
    spoken: tuple[str, ...]
    stems: tuple[str, ...]
    content: frozenset[str]
    phrases: tuple[tuple[str, str], ...]
    """The acts whose phrases stand in it, each with the stems."""
    names: frozenset[str]
    fluent: bool
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
    content: frozenset[str]
    fourgrams: frozenset[int]
    """Word 4-grams with pronouns folded, by hash."""
    variety: float
    """Distinct share of its 4-grams, in [0, 1]: 1 unless it repeats itself."""
    list_items: int
    questions: int
    leaning: dict[str, float]
    """The ear's evidence for each act in logits, the mean over its sentences; empty when nothing reads like language."""


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
    sentences: frozenset[str]
    """Its sentences, case-folded."""


@lru_cache(maxsize=8_192)
def remember(text: str, language: str = "en") -> Remembered:
    """What stays of an utterance. Cached, because every turn looks back at all earlier ones."""
    heard = hear(text, language)
    sentences_ = frozenset(sentence.text.casefold() for sentence in heard.sentences)
    return Remembered(frozenset(heard.acts), heard.content, heard.fourgrams, sentences_)


@lru_cache(maxsize=8)
def hear(text: str, language: str = "en") -> Heard:
    """The utterance in pieces."""
    parts = [_sentence(part, language) for part in sentences(text)]
    heard = _with_the_ear(list({part.text: part for part in parts}.values()), language)
    spoken = tuple(chain.from_iterable(part.spoken for part in parts))
    acts: dict[str, str] = {}
    for sentence in heard:
        for act in sorted(sentence.acts):
            acts.setdefault(act, sentence.text)
    said = _fourgrams_of(spoken)
    return Heard(
        sentences=heard,
        acts=acts,
        word_count=len(spoken),
        function_share=_function_words(spoken) / len(spoken) if spoken else 0.0,
        content=frozenset().union(*(sentence.content for sentence in heard)),
        fourgrams=said,
        variety=len(said) / (len(spoken) - 3) if len(spoken) > 3 else 1.0,
        list_items=_list_items(text),
        questions=text.count("?"),
        leaning=ear(language).leaning([part.evidence for part in parts if part.fluent]),
    )


def done_by(heard: Heard, without: frozenset[int] = frozenset()) -> dict[str, Done]:
    """How surely an utterance does each act, some sentences left out: any of the others may do it."""
    found: dict[str, Done] = {}
    for number, one in enumerate(heard.sentences):
        if number not in without:
            for act, share in one.sure.items():
                before = found.get(act)
                if before is None:
                    found[act] = Done(share, share, one.text)
                else:
                    text = one.text if share > before.most else before.text
                    found[act] = Done(1 - (1 - before.share) * (1 - share), max(share, before.most), text)
    return found


def _list_items(text: str) -> int:
    if not _MARK.search(text):
        return 0
    return max(len(_LIST_ITEM.findall(text)), len(_INLINE_ITEM.findall(text)))


@lru_cache(maxsize=2_048)
def _sentence(text: str, language: str) -> _Sentence:
    """Cached, because whoever says a sentence once says it again, to others."""
    spoken = words(text)
    stems = tuple(map(stem, spoken))
    phrases = lexicon(language).acts(stems)
    ending = "?" if text.rstrip("\"'”’) ").endswith("?") else "."
    if ending == "?":
        phrases["question"] = "?"
        if not _OPEN.isdisjoint(spoken):
            phrases["open_question"] = "?"
    return _Sentence(
        text=text,
        spoken=spoken,
        stems=stems,
        content=content_of(spoken),
        phrases=tuple(phrases.items()),
        names=frozenset(name.lower() for name in _NAME.findall(text)),
        fluent=bool(spoken) and _is_fluent(text, spoken),
        evidence=ear(language).evidence(stems, ending),
    )


def _with_the_ear(parts: list[_Sentence], language: str) -> tuple[HeardSentence, ...]:
    """The sentences with what they do by the ear: it listens to all of them together, and to keywords not at all."""
    listening = ear(language)
    found = iter(listening.sureness([one.evidence for one in parts if one.fluent]))
    heard = []
    for one in parts:
        sure = next(found, {}) if one.fluent else {}
        acts = dict(one.phrases)
        clear = {act: "" for act, share in sure.items() if share >= _CLEAR and act not in acts}
        sure.update((act, max(_PHRASE, sure.get(act, 0.0)) if act in listening.acts else 1.0) for act in acts)
        acts.update(clear)
        heard.append(HeardSentence(one.text, one.stems, one.content, acts, one.names, one.fluent, sure))
    return tuple(heard)


def _is_fluent(text: str, spoken: tuple[str, ...]) -> bool:
    """Function words hold a sentence together, and nobody says more than forty words without drawing breath."""
    if len(spoken) < 4:
        return True
    if _function_words(spoken) < 0.25 * len(spoken):
        return False
    return len(spoken) <= 40 or len(spoken) <= 40 * (1 + len(_PAUSE.findall(text)))


def _function_words(spoken: tuple[str, ...]) -> int:
    return sum(map(FUNCTION_WORDS.__contains__, spoken))


def fourgrams(text: str) -> frozenset[int]:
    """The word 4-grams of a text, pronouns folded, as hashes: only equality within one process is asked of them, and integers cost the garbage collector nothing."""
    return _fourgrams_of(words(text))


def _fourgrams_of(spoken: tuple[str, ...]) -> frozenset[int]:
    folded = tuple(map(_FOLDED.get, spoken, spoken))
    return frozenset(map(hash, zip(folded, folded[1:], folded[2:], folded[3:], strict=False)))


@lru_cache(maxsize=256)
def said_so_far(lines: tuple[str, ...]) -> tuple[frozenset[int], frozenset[str]]:
    """The folded 4-grams and the content of some lines together. Cached, and built on those of all lines but the last."""
    if not lines:
        return frozenset(), frozenset()
    before, about = said_so_far(lines[:-1])
    return before | fourgrams(lines[-1]), about | content(lines[-1])


@lru_cache(maxsize=8_192)
def folded_text(line: str) -> str:
    """The stems of a line as one text, with spaces around."""
    return f" {' '.join(map(stem, words(line)))} "
