"""An LLM user that appraises while the embedded user speaks."""

import json

import pytest
from commands import invoke_well

from rlver_gym import EmpathySession, HiddenNeed, Scene, env_card, make_user
from rlver_gym.bench.folder import read_episodes
from rlver_gym.bench.verify import verify
from rlver_gym.core.emotion import Outcome
from rlver_gym.core.persona import Disposition
from rlver_gym.library.personas import library
from rlver_gym.library.profiles import sketch_persona
from rlver_gym.testing import ChatServer, ScriptedChat
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.users import EmbeddedUser
from rlver_gym.users.llm import LLMOptions, LLMUser
from rlver_gym.util.errors import CardError

SAID = (
    "Oh no, that sounds hard. What happened?",
    "You are wrong, and it is your own fault.",
    "You carried that alone, and nobody saw it. Are you angry?",
    "Say a number: ten points.",
)


def make_payer(change):
    judged = {"took_up": "point", "wrong": "", "again": "", "new": "", "thought": "Hm."}
    return ScriptedChat(json.dumps(judged | {"feeling": "Tired.", "change": change}))


@pytest.mark.parametrize("change", [-4, 0, 3, 9])
@pytest.mark.parametrize("env", ["RLVER-Empathy-v0", "RLVER-Honest-v0", "RLVER-ChitChat-v0"])
def test_the_words_are_the_embedded_user_s_at_the_emotion_that_the_model_led_to(change, env):
    card, embedded = env_card(env), EmbeddedUser()
    for persona in map(library().get, library().ids("demo")[:3]):
        chat = make_payer(change)
        user = LLMUser(chat, "m", LLMOptions(speaker="embedded"))
        scene = Scene(persona, card, 7)
        opening = user.open(scene, card.start)
        assert opening == embedded.open(scene, card.start)
        session = EmpathySession(user, persona, card, seed=7)
        session.start()
        for utterance in SAID:
            if session.outcome is not None:
                break
            dialogue = session.dialogue.with_utterance(utterance)
            turn = session.reply(utterance)
            heard = embedded.appraise(scene, turn.emotion, dialogue)
            felt = turn.appraisal._replace(reasons=heard.reasons)
            if card.world is None:
                assert turn.reply == embedded.speak(scene, turn.emotion, dialogue, felt)
        spoken = len(session.dialogue.turns)
        assert len(chat.requests) == spoken - sum(
            any(x.code == "judge_addressed" for x in turn.appraisal.reasons)
            for turn in session.dialogue.turns
        )


def test_an_equal_seed_says_the_same_and_the_emotion_moves_the_words(persona, card):
    def hold(change, seed):
        user = LLMUser(make_payer(change), "m", LLMOptions(speaker="embedded"))
        session = EmpathySession(user, persona, card, seed=seed)
        return [session.start(), *(session.reply(text).reply for text in SAID[:3])]

    assert hold(3, 1) == hold(3, 1)
    assert hold(3, 1) != hold(-4, 1)
    assert len({tuple(hold(3, seed)) for seed in range(4)}) > 1


OF_SPEECH = {"calls": 1, "speak_model": "x", "speak_temperature": 0.1}
OF_SPEECH |= {"opening": "card", "language": "zh"}


@pytest.mark.parametrize("name", OF_SPEECH)
def test_what_says_how_the_model_speaks_is_refused(name):
    with pytest.raises(CardError, match=f"{name} would be ignored"):
        make_user("openai:m", speaker="embedded", **{name: OF_SPEECH[name]})


@pytest.mark.parametrize("language", ["en", "zh"])
def test_who_has_no_words_fails_before_anything_is_asked(language, card):
    chat = make_payer(0)
    who = HiddenNeed.LISTENING, Disposition.PASSIVE
    profile = sketch_persona("p", *who, story="Lost the job.", language=language)
    session = EmpathySession(LLMUser(chat, "m", LLMOptions(speaker="embedded")), profile, card)
    session.start()
    assert session.outcome is Outcome.FAILED
    assert "speaker=embedded" in session.dialogue.turns[0].appraisal.reasons[0].note
    assert not chat.requests


def test_another_embedded_user_is_another_version(monkeypatch):
    def versions():
        options = LLMOptions(), LLMOptions(speaker="embedded")
        return [LLMUser(ScriptedChat([]), "m", each).version for each in options]

    before = versions()
    monkeypatch.setattr(EmbeddedUser, "version", "999")
    after = versions()
    assert before[0] == after[0]
    assert len({*before, *after}) == 3


def test_a_run_asks_once_a_turn_verifies_and_is_read_again(tmp_path):
    people = library().ids("demo")[:2]
    words = ["--user", "openai:u", "--user-option", "speaker=embedded", "--agent", "listener"]
    words += [word for each in people for word in ("--persona", each)]
    with ChatServer(EmbeddedAnswers(card="SAGE-Sentient-v0")) as server:
        url = ("--user-option", f"base_url={server.base_url}")
        invoke_well("bench", *words, *url, "--seeds", "1", "--out", str(tmp_path))
        asked = len(server.requests)
        invoke_well("rescore", str(tmp_path), "--user", "openai:u", *url)
        assert len(server.requests) == asked + len(people)
    assert set(verify(tmp_path)) == {None}
    assert asked == sum(len(episode.turns) for episode in read_episodes(tmp_path))
