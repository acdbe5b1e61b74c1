"""What a person may tell now, out of the card: their disclosures in order, facts that the last words touch, people not named yet. Knows no prompt."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from rlver_gym.dialogue import Dialogue
from rlver_gym.persona import Fact, Persona
from rlver_gym.users.trust import Depth
from rlver_gym.words import content

_MAX_DISCLOSURES = 5
"""Offered at once: the next in order, so that a story is told from its beginning."""
_MAX_FACTS = 6
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
        """Of all that may be told."""
        return tuple(dict.fromkeys((*self.disclosures, *self.facts)))


def material(persona: Persona, dialogue: Dialogue, depth: Depth) -> Material:
    """What is left to tell, no deeper than `depth` and nothing that presupposes what was not told."""
    told = told_ids(persona, dialogue)
    disclosures = [one for one in persona.situation.disclosures if one.depth <= depth and one.id not in told]
    facts = [one for one in _facts(persona) if one.depth <= depth and one.id not in told and told.issuperset(one.after)]
    spoken = " ".join(dialogue.user_lines).casefold()
    return Material(
        {one.id: one.normal for one in disclosures[:_MAX_DISCLOSURES]},
        {one.id: one.answers[0] for one in _touched(facts, dialogue.utterance or "")},
        {
            one.name: one.introduction
            for one in persona.situation.people
            if one.introduction and one.name.casefold() not in spoken
        },
    )


def told_ids(persona: Persona, dialogue: Dialogue) -> frozenset[str]:
    """The ids of all that the person has told: what the record says of a turn; where it says nothing, what the text tells."""
    told = {one for turn in dialogue.turns for one in turn.disclosures or ()}
    lines = [dialogue.opening, *(turn.reply for turn in dialogue.turns if turn.disclosures is None)]
    spoken = [topics(line) for line in lines if line]
    return frozenset(
        told
        | {one.id for one in persona.situation.disclosures if _is_told((one.high, one.normal, one.low), spoken)}
        | {one.id for one in _facts(persona) if _is_told(one.answers, spoken)}
    )


def topics(text: str) -> frozenset[str]:
    """What a text is about: the stems of its words, and pairs of neighbouring Chinese characters."""
    return content(text) | {run[at : at + 2] for run in _HAN.findall(text) for at in range(len(run) - 1)}


def _facts(persona: Persona) -> Iterator[Fact]:
    """Those of the situation, then those of the person, each id once."""
    known = set()
    for one in (*persona.situation.facts, *persona.person.facts):
        if one.id not in known:
            known.add(one.id)
            yield one


def _is_told(wordings: tuple[str, ...], spoken: list[frozenset[str]]) -> bool:
    """Whether one line holds most of what one of the wordings is about."""
    about = [found for found in map(topics, wordings) if len(found) > 1]
    return any(len(one & line) >= _MOSTLY * len(one) for one in about for line in spoken)


def _touched(facts: list[Fact], utterance: str) -> list[Fact]:
    """The facts that the utterance shares most with, in the card's order; the first ones where card and utterance are in scripts that share nothing."""
    asked = topics(utterance)
    if facts and _HAN.search(utterance) and not _HAN.search(facts[0].answers[0]):
        return facts[:_MAX_FACTS]
    shared = [len(asked & topics(" ".join((*one.about, *one.asked)))) for one in facts]
    nearest = sorted(range(len(facts)), key=lambda number: -shared[number])[:_MAX_FACTS]
    return [facts[number] for number in sorted(nearest) if shared[number]]
