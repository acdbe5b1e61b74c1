"""English and Chinese versions of one exchange: the change must have the same sign, though the two
languages are appraised in different ways.

`data/both_languages.json`: for eight shipped people, one of each hidden need, their story and
opening in Chinese and four replies in both languages: two that serve the need with what happened to
them, two that do not. They were written with the people's cards at hand, anchors included, which
makes the good ones easy for English; but before any of them was appraised, and no wording was
changed afterwards. English is appraised by the persona's card, Chinese by the measured weights,
default preset; emotion 40, turn 1.

Signs agree in 28 of 32 exchanges (88 %). All 16 good replies raise in Chinese and 15 in English; of
the 16 bad ones all lower or leave it in English, and 13 in Chinese. `MISSED` names the other four,
and why they are missed. It was 29 before version 8 asked whether a reply belongs, and 27 before the
lexicon learned more ways to blame, insult and belittle; these cases were in sight then, so the
share is a floor against slipping back, no estimate for other exchanges.
"""

import json
from typing import NamedTuple

import pytest
from paths import DATA

from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.library import library
from rlver_gym.core.persona import Disposition, HiddenNeed, Persona
from rlver_gym.data.sage import sketch_persona
from rlver_gym.users import EmbeddedUser, Scene

PEOPLE: dict[str, dict] = json.loads((DATA / "both_languages.json").read_text(encoding="utf-8"))
CARD, START = env_card("SAGE-Sentient-v0"), 40
MISSED = {
    (
        "paul-they-stop-talking",
        "clears them of the farewell",
    ): (
        "English: it speaks of what the person has not told yet, which readers mostly saw in"
        " replies meant for somebody else"
    ),
    (
        "ilse-after-the-crash",
        "minimising",
    ): "one phrase of several is heard, and its 3 points do not outweigh being talked to",
    (
        "ilse-after-the-crash",
        "another story",
    ): "at turn 1 too little is told for relevance to count in full; 3 points remain",
    (
        "renata-grandmothers-flat",
        "advice that was not asked for",
    ): "orders without 应该 are not heard as advice, and one costs 2 points",
}


class Exchange(NamedTuple):
    """One reply in both languages, and what it changes in each."""

    persona: str
    why: str
    good: bool
    english: int
    chinese: int

    @property
    def agrees(self) -> bool:
        return (self.english > 0) == (self.chinese > 0)

    @property
    def missed(self) -> bool:
        return (self.persona, self.why) in MISSED


def chinese_twin(persona: Persona, told: dict) -> Persona:
    return sketch_persona(
        f"{persona.id}-zh",
        persona.need,
        persona.person.disposition,
        story=told["story"],
        opening=told["opening"],
    )


def change(persona: Persona, utterance: str) -> int:
    dialogue = Dialogue(persona.situation.openings.normal).with_utterance(utterance)
    return EmbeddedUser().appraise(Scene(persona, CARD, 0), START, dialogue).change


@pytest.fixture(scope="module")
def exchanges() -> list[Exchange]:
    found = []
    for persona_id, told in PEOPLE.items():
        persona = library().get(persona_id)
        twin = chinese_twin(persona, told)
        found += [
            Exchange(
                persona_id,
                one["why"],
                kind == "good",
                change(persona, one["en"]),
                change(twin, one["zh"]),
            )
            for kind in ("good", "bad")
            for one in told[kind]
        ]
    return found


def test_the_exchanges_are_whole() -> None:
    people = [library().get(persona_id) for persona_id in PEOPLE]
    replies = [one for told in PEOPLE.values() for kind in ("good", "bad") for one in told[kind]]
    named = {
        (persona_id, one["why"])
        for persona_id, told in PEOPLE.items()
        for one in (*told["good"], *told["bad"])
    }
    assert sorted(persona.need for persona in people) == sorted(HiddenNeed)
    assert {persona.person.disposition for persona in people} == set(Disposition)
    assert {persona.split for persona in people} == {"train", "validation", "test"}
    assert all(len(told["good"]) == len(told["bad"]) == 2 for told in PEOPLE.values())
    assert all(300 <= len(told["story"]) <= 500 for told in PEOPLE.values())
    assert all(
        80 <= len(one["zh"]) <= 250 and 40 <= len(one["en"].split()) <= 90 for one in replies
    )
    assert len(named) == len(replies)
    assert MISSED.keys() < named


def test_the_sign_of_the_change_agrees_between_the_languages(exchanges: list[Exchange]) -> None:
    assert [one for one in exchanges if not one.agrees and not one.missed] == []
    assert sum(one.agrees for one in exchanges) >= 28


def test_what_serves_the_need_raises_in_both_languages(exchanges: list[Exchange]) -> None:
    assert [
        one
        for one in exchanges
        if one.good and min(one.english, one.chinese) <= 0 and not one.missed
    ] == []


def test_what_does_not_serve_the_need_never_raises_in_english(exchanges: list[Exchange]) -> None:
    assert [one for one in exchanges if not one.good and one.english > 0] == []


@pytest.mark.parametrize("language", ["english", "chinese"])
def test_the_good_replies_bring_more_than_the_bad_ones(
    exchanges: list[Exchange], language: str
) -> None:
    """Every good one more than every bad one to the same person."""
    wrong = [
        (good, bad)
        for good in exchanges
        for bad in exchanges
        if good.persona == bad.persona
        and good.good
        and not bad.good
        and getattr(good, language) <= getattr(bad, language)
    ]
    assert wrong == []
