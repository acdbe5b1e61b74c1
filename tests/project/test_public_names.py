"""What other programs may import: the public names."""

import inspect
import subprocess
import sys

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


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout


def test_one_dialogue_is_held_and_scored_again_through_public_names():
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


def test_every_public_name_is_there():
    assert all(getattr(rlver_gym, name) is not None for name in rlver_gym.__all__)
    assert dir(rlver_gym) == sorted(rlver_gym.__all__)


@pytest.mark.parametrize("name", sorted(set(rlver_gym.__all__) - {"__version__"}))
def test_a_public_name_and_its_methods_have_docstrings(name):
    value = getattr(rlver_gym, name)
    members = vars(value).items() if inspect.isclass(value) else ()
    methods = [
        name
        for name, member in members
        if name[0] != "_" and (inspect.isroutine(member) or isinstance(member, property))
    ]
    assert value.__doc__
    assert [name for name in methods if not inspect.getdoc(getattr(value, name))] == []


def test_importing_the_package_plants_no_module_that_is_no_file():
    code = (
        "import sys, rlver_gym; print([name for name, module in sys.modules.items() if"
        " name.startswith('rlver_gym') and module.__spec__ is None])"
    )
    assert run_python(code) == "[]\n"


def test_importing_the_package_loads_nothing_heavy():
    heavy = "torch transformers openai pydantic yaml rich typer rlver_gym.core.persona".split()
    loaded = f"print([name for name in {heavy} if name in sys.modules])"
    assert run_python(f"import sys, rlver_gym; {loaded}") == "[]\n"
    named = "import sys, rlver_gym.users.llm; print({'openai', 'torch'} & set(sys.modules))"
    assert run_python(named) == "set()\n"
