"""The small pure parts: the emotion scale, words, rewards, cards."""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rlver_gym import env_card
from rlver_gym.core.cards import shipped_env_ids
from rlver_gym.core.emotion import Band, Outcome, apply_change, delta, terminal
from rlver_gym.core.words import content_stems, sentences, split_each, split_words, stem, words
from rlver_gym.util.errors import CardError, UnknownName


def test_bands_begin_where_sage_puts_them():
    begins = {"S": (100, 100), "A": (70, 99), "B": (40, 69), "C": (10, 39), "F": (0, 9)}
    for band, (lowest, highest) in begins.items():
        assert (Band.of(lowest), Band.of(highest)) == (band, band)


def test_emotion_stays_on_its_scale():
    assert (apply_change(95, 10), apply_change(3, -10), apply_change(50, -7)) == (100, 0, 43)


def test_delta_is_the_change_and_terminal_pays_only_at_the_end():
    assert delta(40, 47, None) == 7.0
    assert terminal(40, 47, None) == 0.0
    assert terminal(40, 47, Outcome.OUT_OF_TURNS) == 0.47
    assert terminal(12, 3, Outcome.LEFT) == 0.03


def test_stems_fold_inflections():
    for pair in (
        "carried carry",
        "promises promised",
        "realise realize",
        "planning planned",
        "nights night",
    ):
        assert len(set(map(stem, pair.split()))) == 1, pair


def test_contractions_are_written_out():
    assert words("I don’t, she's, can't") == ("i", "do", "not", "she", "is", "can", "not")
    assert words("They cannot") == ("they", "can", "not")


@given(st.text(st.sampled_from("abcZ019 '’‘.,!?-—\n\t\"“”ÉıİKſ你é²١\u0301"), max_size=40))
def test_words_are_the_runs_of_plain_letters_and_digits_wherever_they_stand(text):
    plain = text.lower().replace("’", "'").replace("‘", "'")
    runs = re.findall(r"[a-z0-9]+(?:'[a-z]+)?", plain)
    assert list(words(text)) == [word for run in runs for word in words(run)]


def test_sentences_and_content():
    assert sentences("Wait. Really?! Yes…\nOk") == ("Wait.", "Really?!", "Yes…", "Ok")
    stems = set(map(stem, ("carried", "heavy", "boxes")))
    assert content_stems("She carried the heavy boxes") == stems


def test_each_shipped_card_is_sound_and_named_like_its_file():
    assert [env_card(name).id for name in shipped_env_ids()] == list(shipped_env_ids())
    fields = ("start", "turns", "leave_below", "content_at", "reward", "split")
    for name, protocol in {
        "RLVER-Empathy-v0": (40, 8, 10, 100, "delta", "train"),
        "RLVER-Challenging-v0": (40, 8, 10, 100, "delta", "train"),
        "RLVER-Sparse-v0": (30, 8, 10, 100, "terminal", "train"),
        "SAGE-Sentient-v0": (40, 9, 10, 100, "delta", "test"),
    }.items():
        assert tuple(getattr(env_card(name), field) for field in fields) == protocol
    assert env_card("RLVER-Challenging-v0").difficulty == "challenging"


def test_outcomes_of_a_card():
    ends = {(100, 9): "content", (9, 9): "left", (10, 9): "out_of_turns", (10, 8): None}
    assert {place: env_card("SAGE-Sentient-v0").outcome(*place) for place in ends} == ends


def test_a_card_hash_changes_with_the_protocol_only():
    card = env_card("SAGE-Sentient-v0")
    assert card.model_copy(update={"notes": "other"}).hash == card.hash
    assert card.model_copy(update={"start": 41}).hash != card.hash


def test_an_unknown_environment_lists_near_ones():
    with pytest.raises(UnknownName, match="RLVER-Empathy-v0"):
        env_card("RLVER-Empathie-v0")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"turn": 3}, "turn: remove this field"),
        ({"turns": "eight"}, "turns: must be a whole number (found 'eight')"),
        ({"turns": None}, "turns"),
        ({"turns": 0}, "turns: must be at least 1 (found '0')"),
        ({"start": 5}, "must lie from"),
        ({"difficulty": "hard"}, "must be 'moderate' or 'challenging' (found 'hard')"),
        ({"summary": None}, "summary: must be text (found 'None')"),
    ],
)
def test_a_wrong_env_card_names_file_and_field_in_words(tmp_path, change, says):
    path = tmp_path / "card.yaml"
    path.write_text(yaml.safe_dump(env_card("RLVER-Empathy-v0").model_dump(mode="json") | change))
    with pytest.raises(CardError) as error:
        env_card(path)
    assert says in str(error.value)
    assert str(path) in str(error.value)


def test_many_texts_are_split_at_once_as_each_is_alone() -> None:
    texts = [
        "I can't.\nYou cannot",
        "",
        "\n",
        "ODD\u2028İ Ω’s",
        "it's 5\r\n o'clock",
        "no\x0b\x0cyes",
    ]
    assert split_each(texts) == list(map(split_words, texts))
    assert split_each(["a\nb"]) == [("a", "b")]
    assert split_each([]) == []
