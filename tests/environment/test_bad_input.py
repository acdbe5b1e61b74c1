"""What an agent may throw at the environment."""

import pytest

from rlver_gym import EmpathyEnv, env_card
from rlver_gym.util.errors import UtteranceError

PERSONA = "noor-missed-evening"
NASTY = {
    "empty": "",
    "nul": "hello\x00there",
    "escape": "\x1b[31mred\x1b[0m",
    "right to left": "\u202eolleh שלום عليكم",
    "megabyte": "I hear you. " * 90_000,
}


@pytest.mark.parametrize("name", NASTY)
def test_nasty_text_is_heard_or_cut_as_documented(name):
    env = EmpathyEnv(persona=PERSONA, render_mode="ansi")
    env.reset(seed=0)
    reply, reward, _, truncated, info = env.step(NASTY[name])
    assert reply
    assert -10 <= reward <= 0
    assert not truncated
    assert info["cut_chars"] == max(0, len(NASTY[name]) - 4000)
    heard = env.session.dialogue.turns[0].utterance
    assert len(heard) <= 4000
    assert "\x00" not in heard
    assert "\x1b" not in env.render()


@pytest.mark.parametrize(
    ("thing", "says"),
    [
        *((thing, "must be a string") for thing in (None, 5, b"bytes", ["a"], {"text": "a"})),
        ("half a smile \ud83d", r"U\+D83D.*errors='replace'"),
    ],
)
def test_what_is_no_text_gets_a_clear_error_and_costs_no_turn(thing, says):
    env = EmpathyEnv(persona=PERSONA)
    env.reset(seed=0)
    with pytest.raises(UtteranceError, match=says):
        env.step(thing)
    assert env.step("A whole one.")[4]["turn"] == 1


def test_a_strict_card_refuses_what_is_too_long():
    strict = {"overlong": "error", "max_utterance_chars": 20}
    card = env_card("RLVER-Empathy-v0").model_copy(update=strict)
    env = EmpathyEnv(card, persona=PERSONA)
    env.reset(seed=0)
    with pytest.raises(UtteranceError, match="allows 20"):
        env.step("x" * 21)
