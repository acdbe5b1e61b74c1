"""The small pure parts: the emotion scale, words, rewards, cards."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlver_gym.core.cards import EnvCard, env_card, shipped_env_ids
from rlver_gym.core.emotion import Band, Outcome, apply_change, delta, terminal
from rlver_gym.core.library import parse_card
from rlver_gym.core.words import content_stems, sentences, stem, words
from rlver_gym.util.errors import CardError, UnknownName


@pytest.mark.parametrize(
    ("emotion", "band"),
    [
        (100, "S"),
        (99, "A"),
        (70, "A"),
        (69, "B"),
        (40, "B"),
        (39, "C"),
        (10, "C"),
        (9, "F"),
        (0, "F"),
    ],
)
def test_bands_begin_where_sage_puts_them(emotion: int, band: str) -> None:
    assert Band.of(emotion) == band


def test_emotion_stays_on_its_scale() -> None:
    assert (apply_change(95, 10), apply_change(3, -10), apply_change(50, -7)) == (100, 0, 43)


def test_delta_is_the_change_and_terminal_pays_only_at_the_end() -> None:
    assert delta(40, 47, None) == 7.0
    assert terminal(40, 47, None) == 0.0
    assert terminal(40, 47, Outcome.OUT_OF_TURNS) == 0.47
    assert terminal(12, 3, Outcome.LEFT) == 0.03


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("carried", "carry"),
        ("promises", "promised"),
        ("realise", "realize"),
        ("planning", "planned"),
        ("nights", "night"),
    ],
)
def test_stems_fold_inflections(a: str, b: str) -> None:
    assert stem(a) == stem(b)


def test_contractions_are_written_out() -> None:
    assert words("I don’t, she's, can't") == ("i", "do", "not", "she", "is", "can", "not")
    assert words("They cannot") == ("they", "can", "not")


@given(st.text(st.sampled_from("abcZ019 '’‘.,!?-—\n\t\"“”ÉıİKſ你é²١\u0301"), max_size=40))
def test_words_are_the_runs_of_plain_letters_and_digits_wherever_they_stand(text: str) -> None:
    assert list(words(text)) == _in_full(text.lower().replace("’", "'").replace("‘", "'"))


def _in_full(plain: str) -> list[str]:
    return [word for run in re.findall(r"[a-z0-9]+(?:'[a-z]+)?", plain) for word in words(run)]


def test_sentences_and_content() -> None:
    assert sentences("Wait. Really?! Yes…\nOk") == ("Wait.", "Really?!", "Yes…", "Ok")
    assert content_stems("She carried the heavy boxes") == {
        stem("carried"),
        stem("heavy"),
        stem("boxes"),
    }


def test_each_shipped_card_is_sound_and_named_like_its_file() -> None:
    assert [env_card(name).id for name in shipped_env_ids()] == list(shipped_env_ids())
    protocols = {
        card.id: (
            card.start,
            card.turns,
            card.leave_below,
            card.content_at,
            card.reward,
            card.split,
        )
        for card in map(env_card, shipped_env_ids())
    }
    assert protocols["RLVER-Empathy-v0"] == (40, 8, 10, 100, "delta", "train")
    assert protocols["RLVER-Challenging-v0"] == protocols["RLVER-Empathy-v0"]
    assert protocols["RLVER-Sparse-v0"] == (30, 8, 10, 100, "terminal", "train")
    assert protocols["SAGE-Sentient-v0"] == (40, 9, 10, 100, "delta", "test")
    assert env_card("RLVER-Challenging-v0").difficulty == "challenging"


def test_outcomes_of_a_card() -> None:
    card = env_card("SAGE-Sentient-v0")
    assert [card.outcome(100, 9), card.outcome(9, 9), card.outcome(10, 9), card.outcome(10, 8)] == [
        Outcome.CONTENT,
        Outcome.LEFT,
        Outcome.OUT_OF_TURNS,
        None,
    ]


def test_a_card_hash_changes_with_the_protocol_only() -> None:
    card = env_card("SAGE-Sentient-v0")
    assert card.model_copy(update={"notes": "other"}).hash == card.hash
    assert card.model_copy(update={"start": 41}).hash != card.hash


def test_an_unknown_environment_lists_near_ones() -> None:
    with pytest.raises(UnknownName, match="RLVER-Empathy-v0"):
        env_card("RLVER-Empathie-v0")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"turn": 3}, "turn: remove this field"),
        ({"turns": "many"}, "turns"),
        ({"start": 5}, "must lie from"),
        ({"turns": None}, "turns"),
    ],
)
def test_a_wrong_env_card_names_the_field(tmp_path, change: dict[str, object], says: str) -> None:
    import yaml

    path = tmp_path / "card.yaml"
    path.write_text(yaml.safe_dump(env_card("RLVER-Empathy-v0").model_dump(mode="json") | change))
    with pytest.raises(CardError, match=says) as error:
        env_card(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("turns", "eight", "turns: must be a whole number (found 'eight')"),
        ("turns", 0, "turns: must be at least 1 (found '0')"),
        ("difficulty", "hard", "difficulty: must be 'moderate' or 'challenging' (found 'hard')"),
        ("summary", None, "summary: must be text (found 'None')"),
    ],
)
def test_what_is_wrong_with_a_field_is_said_in_words(field: str, value: object, says: str) -> None:
    card = {**env_card("RLVER-Empathy-v0").model_dump(), field: value}
    with pytest.raises(CardError) as caught:
        parse_card(EnvCard, card, "card.yaml")
    assert says in str(caught.value)
