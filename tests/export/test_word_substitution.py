"""People whose words are exchanged for others: what the policy hears, and what they hear."""

import gymnasium as gym
import numpy as np
import pytest

from rlver_gym.export.word_substitution import (
    WordSubstitution,
    content_words,
    draw_word,
    replace_words,
)

VOCABULARY = [
    "brother",
    "piano",
    "letters",
    "friday",
    "whichever",
    "speak",
    "noon",
    "somebody",
    "work",
    "mother",
]


def env(share: float, **options: str) -> WordSubstitution:
    return WordSubstitution(gym.make("RLVER-Empathy-v0", **options), VOCABULARY, share)


def said(seed: int, share: float, *replies: str) -> list[str]:
    """What the person says from the beginning on."""
    with_person = env(share)
    heard = [with_person.reset(seed=seed)[0]]
    return heard + [with_person.step(reply)[0] for reply in replies]


@pytest.mark.parametrize("seed", range(12))
def test_only_words_of_the_vocabulary_are_exchanged(seed: int) -> None:
    plain, substitute_words = said(seed, 0.0, "Tell me more."), said(seed, 1.0, "Tell me more.")
    for was, now in zip(plain, substitute_words, strict=True):
        old, new = was.split(), now.split()
        assert len(old) == len(new)
        for one, other in zip(old, new, strict=True):
            assert one == other or set(content_words(one)) & set(VOCABULARY)


def test_a_reply_in_the_words_that_were_heard_is_worth_what_it_is_worth_in_theirs() -> None:
    for seed in range(8):
        own, other = env(0.0), env(1.0)
        theirs, heard = own.reset(seed=seed)[0], other.reset(seed=seed)[0]
        for _ in range(3):
            answer, *outcome, _ = own.step(f"You say: {theirs} What was that like?")
            answer_here, *outcome_here, _ = other.step(f"You say: {heard} What was that like?")
            assert outcome_here == outcome
            theirs, heard = answer, answer_here
            if outcome[1]:
                break


def test_the_same_seed_gives_the_same_words_in_every_environment() -> None:
    replies = ("Tell me more.", "And then?")
    assert said(3, 1.0, *replies) == said(3, 1.0, *replies)
    differ = [said(seed, 1.0) != said(seed, 0.0) for seed in range(30)]
    assert any(differ)


def test_the_share_decides_how_many_dialogues_are_exchanged() -> None:
    substitute_words = sum(said(seed, 0.5) != said(seed, 0.0) for seed in range(60))
    assert 0 < substitute_words < sum(said(seed, 1.0) != said(seed, 0.0) for seed in range(60))


def test_capitals_stay_where_they_were() -> None:
    assert replace_words("Friday, on friday.", {"friday": "asleep"}) == "Asleep, on asleep."


def test_new_words_are_known_ones_or_put_together_from_two() -> None:
    rng = np.random.default_rng(0)
    made = {draw_word(VOCABULARY, rng) for _ in range(200)}
    assert made & set(VOCABULARY)
    assert made - set(VOCABULARY)
