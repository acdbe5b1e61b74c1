"""How people answer what was said rather than asked: in one of their manners, by what was done and
what it was worth to them.
"""

import pytest

from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason
from rlver_gym.core.inquiries import Remark
from rlver_gym.core.library import library
from rlver_gym.core.persona import Manner, Persona
from rlver_gym.core.user import Scene
from rlver_gym.users.embedded.hearing.utterance_parser import Act
from rlver_gym.users.embedded.speech import speak
from rlver_gym.users.embedded.speech.react import ALONE, GENTLE, REACTION_TO, find_substitute_manner

GRACE = library().get("grace-the-screenshots")


def answer(
    words: str,
    change: int,
    reasons: tuple[Reason, ...] = (),
    persona: Persona = GRACE,
    emotion: int = 45,
) -> str:
    scene = Scene(persona, env_card("SAGE-Sentient-v0"), 0)
    opening = persona.situation.openings.normal
    dialogue = Dialogue(opening, (), words)
    return speak.compose_reply(scene, emotion, dialogue, Appraisal(change, "", reasons))


def test_every_remark_has_a_manner_and_every_manner_answers_something() -> None:
    assert set(REACTION_TO) == set(Remark)
    done = {act.value for act in Act}
    asked = {"unknown", "unsure", "not_yet", "corrects", "yes", "no", "asked_again"}
    said = {*REACTION_TO.values(), "unconfirmed", "repeated", "helped", "pushed"}
    instead = {find_substitute_manner(manner) for manner in said | done | asked}
    assert done | asked | said | instead | {"tags"} >= {
        name for name in Manner.model_fields if not name.startswith("goodbye") and name != "openers"
    }
    assert set(Manner.model_fields) >= ALONE | GENTLE


@pytest.mark.parametrize(
    ("words", "manner"),
    [
        ("You are such a coward.", "hurt"),
        ("PULL YOURSELF TOGETHER NOW", "shouted"),
        ("Es tut mir so leid für dich", "foreign"),
        ("", "silence"),
        ("/help", "puzzled"),
        ("I have to go now, good night.", "farewell"),
        ("Hi there!", "greets"),
    ],
)
def test_what_is_done_with_the_words_is_answered_first(words: str, manner: str) -> None:
    lines = getattr(GRACE.person.manner, manner) or getattr(
        GRACE.person.manner, find_substitute_manner(manner)
    )
    assert answer(words, -3).startswith(lines)


@pytest.mark.parametrize("code", ["broken", "nonsense"])
def test_what_does_not_belong_puzzles(code: str) -> None:
    said = answer("The match ended three to one in the rain.", -5, (Reason(code, -5.0, "why"),))
    assert said in GRACE.person.manner.puzzled


def test_the_same_words_again_are_noticed() -> None:
    said = answer("That must be very lonely for you.", -4, (Reason("repetition", -4.0, "why"),))
    assert said in GRACE.person.manner.repeated


@pytest.mark.parametrize("words", ["I'm so sorry, that's awful.", "You did nothing wrong there."])
def test_kind_words_that_did_no_good_are_not_thanked_for(words: str) -> None:
    manner = GRACE.person.manner
    pleased = (*manner.sympathised, *manner.warmed, *manner.seen, *manner.heard)
    assert not answer(words, -5).startswith(pleased)


@pytest.mark.parametrize(("change", "manner"), [(5, "helped"), (-5, "pushed"), (0, "suggested")])
def test_advice_is_taken_or_resented_by_what_it_was_worth(change: int, manner: str) -> None:
    said = answer("You should try to do some yoga every single morning.", change)
    assert said.startswith(getattr(GRACE.person.manner, manner))


def test_blame_that_cost_nothing_does_not_hurt() -> None:
    assert not answer("You should have known, you brought it on yourself.", 2).startswith(
        GRACE.person.manner.hurt
    )


@pytest.mark.parametrize(
    ("change", "reasons", "kind"),
    [
        (6, (), "touched"),
        (2, (), "eased"),
        (-4, (), "missed"),
        (-1, (), "cold"),
        (-8, (), "hurt"),
        (-4, (Reason("nonsense", -4.0, "why"),), "puzzled"),
    ],
)
def test_what_they_think_goes_with_what_it_was_worth(
    change: int, reasons: tuple[Reason, ...], kind: str
) -> None:
    scene = Scene(GRACE, env_card("SAGE-Sentient-v0"), 0)
    said = speak.choose_thought(scene, Dialogue("Hm.", (), "Hm."), reasons, change)
    assert said in getattr(GRACE.person.thoughts, kind)
