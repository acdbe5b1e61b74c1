"""The record of a dialogue as a line of JSON: read back as it was, or refused in words."""

import json

import pytest

from rlver_gym.environment.episode import Episode
from rlver_gym.util.errors import RunError


@pytest.fixture
def line(session):
    session.reply("Nine days, and nobody asked how you are.")
    session.reply("What was the worst of it?")
    return Episode.of(session, "me").to_json()


def refusal(line):
    with pytest.raises(RunError) as error:
        Episode.from_json(line, "episodes.jsonl, line 3")
    return str(error.value)


def edit(line, change):
    record = json.loads(line)
    change(record)
    return json.dumps(record)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda record: record.pop("persona"), "persona of the episode: add this field"),
        (lambda record: record.pop("turns"), "turns of the episode: add this field"),
        (lambda record: record["turns"][1].pop("reward"), "reward of turn 2: add this field"),
        (lambda record: record["turns"][0].pop("outcome"), "outcome of turn 1: add this field"),
        (lambda record: record.update(turns=5), "turns of the episode: must be a list"),
        (lambda record: record.update(turns=["a"]), "turn 1: must hold fields"),
        (
            lambda record: record["turns"][0].update(reasons=[["code", 1.0]]),
            "reasons.0.2 of turn 1: add this field",
        ),
    ],
)
def test_what_is_missing_or_of_another_form_is_named_in_words(line, change, says):
    assert refusal(edit(line, change)) == (
        f"episodes.jsonl, line 3: not an episode record ({says}). Was the file edited or cut?"
    )


@pytest.mark.parametrize(
    "text", ["[1, 2]", '"text"', "null", "[]", "{", '{"agent": 5}', '{"a":1,"a":2}']
)
def test_what_is_no_record_is_refused_in_words_and_not_by_a_class_of_python(text):
    told = refusal(text)
    assert "Error" not in told
    assert ("must hold fields" in told) == (text[0] != "{")


def test_a_refusal_is_bounded(line):
    assert len(refusal(edit(line, lambda record: record.update(need="a" * 100_000)))) < 700
