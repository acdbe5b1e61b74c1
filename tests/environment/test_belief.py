"""The belief channel: what the agent takes the person to feel and need, beside the mood."""

import gymnasium as gym
import pytest

from rlver_gym import HiddenNeed
from rlver_gym.environment.belief import (
    FORM,
    NEEDS,
    BeliefChannel,
    compute_brier_score,
    split_belief,
)
from rlver_gym.util.errors import UtteranceError

PERSONA = "noor-the-old-dog"  # whose need is deep_empathy
MIXED = {"praise": 0.75, "motives": 0.25}


def make(**options):
    env = BeliefChannel(gym.make("RLVER-Empathy-v0", persona=PERSONA), **options)
    env.reset(seed=0)
    return env


@pytest.mark.parametrize(
    ("text", "emotion", "needs", "words"),
    [
        (FORM, 35, {"praise": 0.7, "listening": 0.3}, "What was that like for you?"),
        ("[belief emotion: 12]\nHello.", 12, None, "Hello."),
        ("[Belief need=motives] Hello.", None, {"motives": 1.0}, "Hello."),
        ("[belief emotion=999 need=praise:3,motives:1] Hi.", 100, MIXED, "Hi."),
        ("[belief need=love:1] Hi.", None, None, "Hi."),
        ("[Belief Emotion=35 Need=Praise:0.7] Hi.", 35, {"praise": 1.0}, "Hi."),
        ("[belief need=praise:3000,motives:1000] Hi.", None, MIXED, "Hi."),
        ("[belief need=praise:" + "9" * 400 + "] Hi.", None, {"praise": 1.0}, "Hi."),
        ("[belief need=praise:0] Hi.", None, None, "Hi."),
        ("I read [belief emotion=3] there.", None, None, "I read [belief emotion=3] there."),
        ("", None, None, ""),
    ],
)
def test_a_belief_is_read_from_a_tag_and_is_not_heard(text, emotion, needs, words):
    stated, heard = split_belief(text)
    assert (stated.emotion, heard) == (emotion, words)
    assert stated.needs == (None if needs is None else pytest.approx(needs))


def test_the_person_hears_the_words_alone_and_the_reward_is_theirs():
    plain = gym.make("RLVER-Empathy-v0", persona=PERSONA)
    plain.reset(seed=0)
    words = "You carried him down those stairs. How was that?"
    reply, reward, *_ = plain.step(words)
    told = make().step(f"[belief emotion=40 need=deep_empathy] {words}")
    assert told[:2] == (reply, reward)
    assert told[4]["belief"]["emotion_error"] == 0
    assert (told[4]["belief"]["brier"], told[4]["belief"]["is_right"]) == (0, True)
    silent = make().step(words)[4]["belief"]
    assert (silent["brier"], silent["is_right"], silent["emotion_error"]) == (None, None, None)


def test_briers_score_by_hand():
    even = dict.fromkeys(NEEDS, 1 / 8)
    assert compute_brier_score(even, HiddenNeed.PRAISE) == pytest.approx(0.875)
    assert compute_brier_score({HiddenNeed.PRAISE: 1.0}, HiddenNeed.PRAISE) == 0
    assert compute_brier_score({HiddenNeed.PRAISE: 1.0}, HiddenNeed.MOTIVES) == 2


def test_a_belief_is_paid_only_where_that_was_asked_for():
    right = "[belief need=deep_empathy] Hello."
    unpaid, paid = make().step(right)[1], make(weight=2.0).step(right)[1]
    assert paid == pytest.approx(float(unpaid) + 2 * 0.875)


def test_the_action_may_be_a_dict():
    env = make(as_dict=True)
    need = NEEDS.index(HiddenNeed.DEEP_EMPATHY)
    action = {"utterance": "Hello.", "emotion": 50, "need": need}
    assert env.action_space.contains(action)
    found = env.step(action)[4]["belief"]
    assert (found["emotion_error"], found["is_right"]) == (10, True)
    with pytest.raises(UtteranceError, match="needs an utterance"):
        env.step({"emotion": 3})
    env.action_space.seed(0)
    for _ in range(20):
        action = env.action_space.sample()
        assert env.action_space.contains(action)
        if env.step(action)[2]:
            env.reset(seed=1)
