"""Nothing that a model, a card or an agent says is a command to the terminal."""

import ast
from pathlib import Path

import pytest

import rlver_gym
from rlver_gym import Appraisal, EmpathyEnv, Message, Reason
from rlver_gym.agents.human import Human
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.terminal import format_count, printable

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e[/nope]"


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (1, ("seed",), "1 seed"),
        (0, ("episode",), "0 episodes"),
        (1944, ("dialogue",), "1,944 dialogues"),
        (1, ("person", "people"), "1 person"),
        (24, ("reply", "replies"), "24 replies"),
    ],
)
def test_a_count_agrees_with_its_noun(number, words, said):
    assert format_count(number, *words) == said


class Shouting(EmbeddedUser):
    """Says and thinks what a terminal would obey."""

    def open(self, scene, emotion):
        return ESCAPES

    def appraise(self, scene, emotion, dialogue):
        return Appraisal(1, ESCAPES, (Reason("x", 1.0, ESCAPES),))

    def speak(self, scene, emotion, dialogue, appraisal):
        return ESCAPES


@pytest.mark.parametrize("mode", ["human", "ansi"])
def test_an_environment_shows_hostile_words_and_obeys_none(mode, capsys):
    env = EmpathyEnv(user=Shouting(), render_mode=mode)
    env.reset(seed=0)
    env.step(ESCAPES)
    shown = capsys.readouterr().out if mode == "human" else str(env.render())
    assert printable(shown) == shown
    assert shown.count("owned") >= 3
    assert "[/nope]" in shown


def test_a_person_at_the_keyboard_sees_hostile_words_and_no_commands(capsys, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: "hi")
    assert Human().reply([Message("user", ESCAPES)]) == "hi"
    shown = capsys.readouterr().out
    assert printable(shown) == shown
    assert "[/nope]" in shown


def _calls():
    folder = Path(rlver_gym.__file__).parent
    return [
        (str(path.relative_to(folder)), node, node.func.id)
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]


def test_every_console_of_the_package_is_a_safe_one_and_no_column_of_text_is_markup():
    calls = _calls()
    assert any(name == "SafeConsole" for _, _, name in calls)
    assert [place for place, _, name in calls if name == "Console"] == []
    columns = [
        (place, node)
        for place, node, name in calls
        if name == "TextColumn" and "{" in ast.unparse(node.args[0])
    ]
    assert len(columns) >= 2
    assert [
        place for place, node in columns if [one.arg for one in node.keywords] != ["markup"]
    ] == []
