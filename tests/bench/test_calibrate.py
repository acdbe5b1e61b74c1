"""`rlver-gym calibrate`: what a model may be used for, by how it judges rated replies."""

import json
from statistics import fmean

import pytest
from commands import invoke

from rlver_gym.bench.calibrate import (
    ALL_REPLIES,
    FEWEST_REPLIES,
    judge_places,
    read_places,
    summarise,
)
from rlver_gym.library.personas import library
from rlver_gym.testing import ChatServer, ScriptedChat
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.users.llm import LLMUser
from rlver_gym.users.llm.profile import profile_line
from rlver_gym.users.llm.prompts import words
from rlver_gym.util.errors import RunError

PLACES = read_places()
READERS = {
    text: (fmean(changes), place.persona)
    for place in PLACES
    for text, changes in zip(place.texts, place.readers, strict=True)
}


def calibrate(judge):
    """With a model that answers `judge(words, the person of the request)`."""
    lines = {profile_line(library().get(x), words("en")): x for _, x in READERS.values()}

    def answer(request):
        system = request.messages[0].content.split("\n")
        persona = next(lines[line] for line in system if line in lines)
        lines_told = request.messages[1].content.split("\n")
        state = json.loads(next(x for x in lines_told if x.startswith("{")))
        said = state.get("replies") or {
            str(line["number"]): line["text"] for line in state["conversation"] if "number" in line
        }
        changes = {key: round(judge(text, persona)) for key, text in said.items()}
        return json.dumps({key: {"change": change} for key, change in changes.items()})

    return summarise(list(judge_places(LLMUser(ScriptedChat(answer), "m"), PLACES)))


def as_readers(text, persona):
    value, whose = READERS.get(text, (0.0, ""))
    return value if whose == persona else 0.0


def test_every_place_has_two_readers_and_no_person_of_the_test_split():
    assert sum(len(place.texts) for place in PLACES) == ALL_REPLIES
    few = read_places(FEWEST_REPLIES)
    assert 50 < sum(len(place.texts) for place in few) <= FEWEST_REPLIES
    assert {place.is_moment for place in few} == {True, False}
    assert all(len(changes) == 2 for place in PLACES for changes in place.readers)
    assert not {place.persona for place in PLACES} & set(library().ids("test"))
    assert {len(place.texts) for place in PLACES if place.is_moment} == {6}


def test_a_model_that_judges_as_readers_do_may_pay():
    found = calibrate(as_readers)
    assert found.verdict == "pay"
    assert found.within.mean > 0.97
    assert found.swapped < 0.3
    assert (found.sign, found.ties, found.flips) == pytest.approx((1, 0, 0), abs=0.06)
    assert found.top_one == pytest.approx(1, abs=0.05)
    assert found.bias == pytest.approx(0, abs=0.2)


@pytest.mark.parametrize(
    ("judge", "verdict"),
    [
        (lambda text, persona: READERS.get(text, (0.0, ""))[0], "rank"),
        (lambda text, persona: -as_readers(text, persona), "neither"),
        (lambda text, persona: min(10, len(text.split()) / 5), "neither"),
        (lambda text, persona: 3, "neither"),
    ],
    ids=["whoever the person is", "upside down", "by length", "always the same"],
)
def test_others_may_not_pay(judge, verdict):
    assert calibrate(judge).verdict == verdict


def test_length_and_kindness_are_told_from_understanding():
    by_length = calibrate(lambda text, persona: min(10, len(text.split()) / 5))
    assert by_length.length > 0.7 > by_length.readers_length
    kinder = calibrate(lambda text, persona: min(10, as_readers(text, persona) + 2))
    assert 1 < kinder.bias < 2.1


def test_a_model_that_gives_no_number_is_named_and_has_no_verdict():
    user = LLMUser(ScriptedChat("I would rather not say."), "m")
    with pytest.raises(RunError, match=r"could not be used for 30 of 30 places: m gave no usable"):
        summarise(list(judge_places(user, PLACES)))


@pytest.mark.usefixtures("close_shared_clients")
def test_the_command_keeps_its_answers_and_asks_for_nothing_twice(tmp_path):
    out = tmp_path / "runs" / "c"
    with ChatServer(EmbeddedAnswers()) as server:
        asked = ["calibrate", "--user", "openai:any", "--out", str(out), "--json"]
        asked += ["--user-option", f"base_url={server.base_url}"]
        first = invoke(*asked)
        calls = len(server.requests)
        second = invoke(*asked)
        assert len(server.requests) == calls == 14 + 3 * 16
    told = json.loads(first.stdout)
    assert told["verdict"] == "neither"
    assert {**json.loads(second.stdout), "spent": ""} == {**told, "spent": ""}
    assert json.loads((out / "calibration.json").read_text())["within"] == told["within"]


def test_only_a_model_behind_a_server_is_calibrated():
    said = invoke("calibrate", "--user", "embedded")
    assert said.exit_code
    assert "were fitted to these replies" in str(said.exception)
