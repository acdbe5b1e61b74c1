"""What a person may tell now, out of the card: their disclosures in order, facts that the last
words touch, people not named yet. Knows no prompt.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.persona import Disclosure, Fact, Persona
from rlver_gym.core.user import Depth
from rlver_gym.core.words import content_stems

_MAX_NEXT = 4
"""Disclosures offered at once because they come next, so that a story is told from its beginning.
"""
_MAX_ASKED = 2
"""Disclosures offered because the last words touch them."""
_MAX_FACTS = 6
MAX_OFFERED = _MAX_NEXT + _MAX_ASKED + _MAX_FACTS
_HAN = re.compile(r"[\u4e00-\u9fff]+")
_MOSTLY = 0.7
"""The share of what a wording is about that a line must hold to have told it."""


class Material(NamedTuple):
    """What may be told now, by id in the card's order."""

    disclosures: dict[str, str]
    """To be told unasked."""
    facts: dict[str, str]
    """Answers to what the last words ask or claim."""
    introductions: dict[str, str]
    """How to name people for the first time, by name."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.disclosures, *self.facts)))


def select_material(persona: Persona, dialogue: Dialogue, depth: Depth) -> Material:
    """What is left to tell, no deeper than `depth` and nothing that presupposes what was not
    told.
    """
    told = find_told_ids(persona, dialogue)
    utterance = dialogue.utterance or ""
    asked = topics(utterance)
    least = 1 if "?" in utterance or "？" in utterance else 2
    disclosures = [
        one for one in persona.situation.disclosures if one.depth <= depth and one.id not in told
    ]
    facts = [
        one
        for one in _facts(persona)
        if one.depth <= depth and one.id not in told and told.issuperset(one.after)
    ]
    spoken = " ".join(dialogue.user_lines).casefold()
    return Material(
        {one.id: one.normal for one in _select_next(disclosures, asked, least)},
        {one.id: one.answers[0] for one in _select_answers(facts, asked, least)},
        {
            one.name: one.introduction
            for one in persona.situation.people
            if one.introduction and one.name.casefold() not in spoken
        },
    )


def find_told_ids(persona: Persona, dialogue: Dialogue) -> frozenset[str]:
    """The ids of all that the person has told: what the record says, and what the text tells, of
    the card's wordings as of their own.
    """
    named = {one for turn in dialogue.turns for one in turn.disclosures or ()}
    wordings = list_wordings(persona)
    shown = [wordings[one][0] for one in named & wordings.keys()]
    spoken = [topics(line) for line in (*dialogue.user_lines, *shown) if line]
    return frozenset(named | {one for one, texts in wordings.items() if _is_told(texts, spoken)})


def list_wordings(persona: Persona) -> dict[str, tuple[str, ...]]:
    """Every fact and disclosure of the card by id, in all its wordings."""
    wordings = {fact.id: fact.answers for fact in _facts(persona)}
    return wordings | {x.id: (x.normal, x.high, x.low) for x in persona.situation.disclosures}


@lru_cache(maxsize=1 << 14)  # the wordings of a card are looked at in every turn
def topics(text: str) -> frozenset[str]:
    """What a text is about: the stems of its words, and pairs of neighbouring Chinese
    characters.
    """
    return content_stems(text) | {
        run[at : at + 2] for run in _HAN.findall(text) for at in range(len(run) - 1)
    }


def _facts(persona: Persona) -> Iterator[Fact]:
    """Those of the situation, then those of the person, each id once."""
    known = set()
    for one in (*persona.situation.facts, *persona.person.facts):
        if one.id not in known:
            known.add(one.id)
            yield one


def _is_told(wordings: tuple[str, ...], spoken: list[frozenset[str]]) -> bool:
    """Whether one line holds most of what one of the wordings is about."""
    return any(
        len(about & line) >= _MOSTLY * len(about)
        for about in map(topics, wordings)
        if len(about) > 1
        for line in spoken
        if not about.isdisjoint(line)
    )


def _select_next(
    disclosures: list[Disclosure], asked: frozenset[str], least: int
) -> list[Disclosure]:
    """The next in order, and of the others those that share most with what was asked."""
    later = disclosures[_MAX_NEXT:]
    nearest = _select_nearest([topics(one.normal) for one in later], asked, _MAX_ASKED, least)
    return disclosures[:_MAX_NEXT] + [later[number] for number in nearest]


def _select_answers(facts: list[Fact], asked: frozenset[str], least: int) -> list[Fact]:
    """The facts that share most with what was asked; the first ones where card and utterance are in
    scripts that share nothing.
    """
    if facts and any(map(_HAN.match, asked)) and not _HAN.search(facts[0].answers[0]):
        return facts[:_MAX_FACTS]
    about = [topics(" ".join((*one.about, *one.asked))) for one in facts]
    return [facts[number] for number in _select_nearest(about, asked, _MAX_FACTS, least)]


def _select_nearest(
    about: list[frozenset[str]], asked: frozenset[str], most: int, least: int
) -> list[int]:
    """The numbers of those that share most with what was asked, in order: up to `most`, each with
    `least` topics at least.
    """
    shared = [len(asked & one) for one in about]
    nearest = sorted(range(len(about)), key=lambda number: -shared[number])[:most]
    return [number for number in sorted(nearest) if shared[number] >= least]
