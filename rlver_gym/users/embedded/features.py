"""The features of an utterance that calibration weighs: named, bounded, the same for every
language. Knows no weights.
"""

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from rlver_gym.core import words as english
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.persona import Persona
from rlver_gym.text.english.hear import hear, read_line
from rlver_gym.users.embedded import chinese
from rlver_gym.users.embedded.priors import load_priors

_LIST_ITEM = re.compile(
    r"(?m)^[ \t]*(?:[-*•–]|\d{1,2}[.)、．]|#{1,6}|[一二三四五六七八九十]、)\s*\S"
)
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]{2,}\b")
_CHARACTERS_PER_WORD = 1.6
"""An English word counts as so many Chinese characters, so that lengths mean the same."""


class TalkSentence(NamedTuple):
    """A sentence of an utterance that is talk, not a row of words."""

    about: frozenset[str]
    grams: frozenset[object]


class SurfaceFeatures(NamedTuple):
    """An utterance apart from any person."""

    length: float
    """In Chinese characters, or 1.6 times English words."""
    counts: dict[str, int]
    """How often each act was heard."""
    heard: dict[str, str]
    """The first words of each."""
    about: frozenset[str]
    """What it is about: content stems, or pairs of characters."""
    names: frozenset[str]
    """Names in it, as they stand in `about`."""
    grams: frozenset[object]
    """Runs of words or characters, by which copies are found."""
    parts: tuple[TalkSentence, ...]
    """Its sentences, those left out that are no talk."""
    list_items: int
    questions: int
    exclamations: int
    first_person: int
    readable: float
    """How much it looks like talk in this language, in [0, 1]."""


@lru_cache(maxsize=16_384)
def extract_surface_features(text: str, language: str) -> SurfaceFeatures:
    """The utterance in numbers."""
    return _extract_chinese(text) if language == "zh" else _extract_english(text)


def _extract_chinese(text: str) -> SurfaceFeatures:
    rule, said = load_priors().talk, chinese.sentences(text)
    talk = [one for one in said if chinese.is_talk(one, rule.everyday, rule.clause, rule.variety)]
    fluent = sum(map(len, talk)) / max(1, sum(map(len, said)))
    found = {
        act: hits for act, pattern in chinese.acts().items() if (hits := pattern.findall(text))
    }
    return SurfaceFeatures(
        length=len(text),
        counts={act: len(hits) for act, hits in found.items()},
        heard={act: hits[0] for act, hits in found.items()},
        about=chinese.content(text),
        names=chinese.names(text),
        grams=chinese.grams(text),
        parts=tuple(TalkSentence(chinese.content(one), chinese.grams(one)) for one in talk),
        list_items=len(_LIST_ITEM.findall(text)),
        questions=text.count("？") + text.count("?"),
        exclamations=text.count("！") + text.count("!"),
        first_person=text.count("我") - text.count("我们"),
        readable=ramp(chinese.han_share(text), 0.4, 0.8)
        * ramp(chinese.everyday_share(text), 0.1, 0.25)
        * ramp(fluent, *rule.ramp),
    )


def _extract_english(text: str) -> SurfaceFeatures:
    pieces, line = hear(text).pieces, hear(text).line
    counts: dict[str, int] = {}
    acts: dict[str, str] = {}
    for one in pieces:
        for act in sorted(one.clear_acts):
            counts[act] = counts.get(act, 0) + 1
            acts.setdefault(act, one.text)
    return SurfaceFeatures(
        length=len(line.words) * _CHARACTERS_PER_WORD,
        counts=counts,
        heard=acts,
        about=frozenset().union(*[_content(one.words) for one in pieces]),
        names=frozenset(english.stem(name.lower()) for name in _NAME.findall(text)),
        grams=line.runs,
        parts=tuple(
            TalkSentence(_content(one.words), frozenset(one.runs))
            for one in pieces
            if one.is_fluent
        ),
        list_items=len(_LIST_ITEM.findall(text)),
        questions=text.count("?"),
        exclamations=text.count("!"),
        first_person=sum(word in ("i", "me", "my") for word in line.words),
        readable=ramp(line.functions / max(1, len(line.words)), 0.1, 0.3),
    )


def _content(words: Iterable[str]) -> frozenset[str]:
    return frozenset(filter(None, map(english.content_stem, words)))


class DialogueContext(NamedTuple):
    """What an utterance can be compared with."""

    story: frozenset[str]
    """What the person's story is about."""
    said: frozenset[str]
    """What the person has talked about so far."""
    last: frozenset[str]
    """What their last message is about."""
    their_grams: frozenset[object]
    earlier: tuple[SurfaceFeatures, ...]
    """The agent's earlier utterances."""


def build_context(persona: Persona, dialogue: Dialogue) -> DialogueContext:
    """What there is to compare with, at this point of the dialogue."""
    lines, language = dialogue.user_lines, persona.language
    about = english.content_stems if language == "en" else chinese.content
    return DialogueContext(
        story=_extract_story_words(persona),
        said=_union(map(about, lines)),
        last=about(lines[-1]),
        their_grams=_union(
            read_line(one).runs if language == "en" else chinese.grams(one) for one in lines
        ),
        earlier=tuple(
            extract_surface_features(text, language) for text in dialogue.earlier_utterances
        ),
    )


@lru_cache(maxsize=2_048)
def _extract_content(text: str, language: str) -> frozenset[str]:
    return english.content_stems(text) if language == "en" else chinese.content(text)


def _extract_story_words(persona: Persona) -> frozenset[str]:
    situation = persona.situation
    moments = (f"{one.what} {one.felt}" for one in situation.timeline)
    return _extract_content(
        "\n".join((persona.person.name, situation.cause, *moments, situation.now)), persona.language
    )


def compute_features(surface: SurfaceFeatures, context: DialogueContext) -> dict[str, float]:
    """Every feature by name, most of them in [0, 1]: cue densities tanh(n / (1 + length / 150)),
    form, relation to what was said.
    """
    size, found = surface.length, {}
    for act, count in surface.counts.items():
        found[act] = math.tanh(count / (1 + size / 150))
    found["length"] = math.log1p(size / 200)
    found["over"] = max(0.0, size - 400) / 300
    found["far_over"] = max(0.0, size - 800) / 300
    found["under"] = max(0.0, 60 - size) / 60
    found["list"] = min(surface.list_items, 12) / 12
    found["questions"] = min(surface.questions, 2) / 2
    found["many_questions"] = min(5, max(0, surface.questions - 3)) / 3
    found["first_person"] = min(max(0, surface.first_person), 8) / 8
    found["exclamations"] = math.tanh(surface.exclamations / 2 / (1 + size / 150))
    found["overlap"] = share(context.last & surface.about, context.last)
    found["repetition"] = max(
        (share(surface.grams & before.grams, surface.grams) for before in context.earlier),
        default=0.0,
    )
    return {name: value for name, value in found.items() if value}


def find_own_words(surface: SurfaceFeatures, context: DialogueContext) -> frozenset[str]:
    """What it is about in its own sentences: those that give the person's words back, and rows of
    words, are left out.
    """
    quoted_from = load_priors().talk.quoted
    return _union(
        part.about
        for part in surface.parts
        if part.grams and share(part.grams & context.their_grams, part.grams) < quoted_from
    )


def share(part: frozenset, whole: frozenset) -> float:
    """How large a part is; 0 of nothing."""
    return len(part) / len(whole) if whole else 0.0


def _union(parts: Iterable[frozenset]) -> frozenset:
    return frozenset().union(*parts)


def ramp(value: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, straight between."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


def compute_nearness(surface: SurfaceFeatures, context: DialogueContext) -> tuple[float, ...]:
    """How near an utterance is to this person, in the order of `NEARNESS`: what it shares with
    their last words, with all their words, with their story.
    """
    about, size = find_own_words(surface, context), max(1, len(surface.about))
    last, said = len(about & context.last), len(about & context.said)
    home = len(about & (context.said | context.story))
    return (
        math.sqrt(min(last / max(1, len(context.last)), 0.4)),
        min(last, 6) / 6,
        home / size,
        math.log1p(size),
        math.log1p(said),
        said / size,
        math.log1p(len(context.last)),
        last / size,
    )
