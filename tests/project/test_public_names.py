"""What other programs may import: the public names, and the older names of modules until 1.0."""

import subprocess
import sys
from importlib import import_module

import pytest

import rlver_gym
from rlver_gym import (
    Dialogue,
    EmpathySession,
    PersonaLibrary,
    Scene,
    Turn,
    env_card,
    make_agent,
    make_user,
)


def test_one_dialogue_is_held_and_scored_again_through_public_names() -> None:
    card, persona = env_card("SAGE-Sentient-v0"), PersonaLibrary().get("theo-the-burst-pipe")
    session = EmpathySession(make_user("embedded"), persona, card, seed=3)
    session.start()
    agent = make_agent("listener", persona)
    while session.outcome is None:
        session.reply(agent.reply(tuple(session.dialogue.messages())))
    user, scene = make_user("embedded"), Scene(persona, card, 3)
    dialogue, emotion = Dialogue(session.dialogue.opening), card.start
    for turn in session.dialogue.turns:
        appraisal = user.appraise(scene, emotion, dialogue.with_utterance(turn.utterance))
        assert appraisal.change == turn.appraisal.change
        emotion = turn.emotion
        dialogue = dialogue.with_turn(
            Turn(turn.utterance, appraisal, emotion, 0.0, None, turn.reply)
        )
    assert emotion == session.emotion
    assert len(session.dialogue.turns) > 2


def test_every_public_name_is_there() -> None:
    assert all(getattr(rlver_gym, name) is not None for name in rlver_gym.__all__)


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("cards", "core.cards", "env_card"),
        ("dialogue", "core.dialogue", "Dialogue"),
        ("emotion", "core.emotion", "moved"),
        ("errors", "io.errors", "RlverError"),
        ("library", "core.library", "library"),
        ("users.base", "core.user", "Scene"),
    ],
)
def test_older_names_of_modules_give_the_same_things(old: str, new: str, name: str) -> None:
    code = (
        f"from rlver_gym.{old} import {name} as one; from rlver_gym.{new} import {name} as other;"
        " assert one is other"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_older_names_of_methods_do_the_same() -> None:
    dialogue = Dialogue("Hello.")
    assert dialogue.said("Hi.") == dialogue.with_utterance("Hi.")


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, rlver_gym; print([name for name in ('torch', 'openai', 'pydantic',"
        " 'rlver_gym.core.persona') if name in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout
        == "[]\n"
    )


def test_an_old_name_that_is_none_is_an_error() -> None:
    with pytest.raises(AttributeError):
        import_module("rlver_gym.cards").nothing_of_that_name  # noqa: B018
