"""Rating is blind, resumes, and is read by `rescore`; the agreement is that of the ratings."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from json_files import read_lines

from rlver_gym.bench.export.export import export
from rlver_gym.bench.opinions import gather_opinions
from rlver_gym.bench.raters import compare_raters
from rlver_gym.bench.recompute import Sources
from rlver_gym.bench.rescore import read_dialogues
from rlver_gym.bench.run import read_episodes
from rlver_gym.corpora.corpus import Corpus
from rlver_gym.util.correlation import correlation_within
from rlver_gym.util.errors import RunError
from rlver_gym.util.reliability import intraclass_correlation, krippendorff_alpha


def rate_next(studio, rater, changes):
    """Rate the next dialogue whole; gives its hidden name."""
    one = studio.get("rate", run=studio.run, rater=rater)["next"]
    whole = {"run": studio.run, "rater": rater, "name": one["name"], "fit": 1}
    for turn in range(1, len(one["turns"]) + 1):
        studio.post("rate", **whole, turn=turn, change=changes(one["name"], turn))
    return one["name"]


def test_what_is_rated_tells_neither_agent_nor_score(shared):
    shown = shared.get("rate", run=shared.run, rater="Ann")["next"]
    assert set(shown) == {
        "name",
        "person",
        "need",
        "disposition",
        "opening",
        "turns",
        "mine",
        "told",
    }
    assert all(len(turn) == 2 for turn in shown["turns"])
    known = {"/".join(map(str, one.key)) for one in read_episodes(shared.folder)}
    assert not any(key in json.dumps(shown) for key in known)
    assert len(shown["name"]) == 12


def test_all_raters_have_one_order_and_each_goes_on_where_they_stopped(studio):
    mine = [rate_next(studio, "Ann", lambda *_: 2) for _ in range(2)]
    theirs = [rate_next(studio, "Bo", lambda *_: 1) for _ in range(2)]
    assert mine == theirs
    shown = studio.get("rate", run=studio.run, rater="Ann")
    assert shown["done"] == 2
    name = shown["next"]["name"]
    studio.post("rate", run=studio.run, rater="Ann", name=name, turn=1, change=5)
    again = studio.get("rate", run=studio.run, rater="Ann")["next"]
    assert (again["name"], again["mine"]) == (name, {"1": 5.0})


def test_who_loads_the_page_again_is_given_what_they_said(studio):
    name = studio.get("rate", run=studio.run, rater="Ann")["next"]["name"]
    why = {"thought": "He heard me.", "factors": {**FACTORS, "false": 0}}
    place = {"run": studio.run, "rater": "Ann", "name": name, "turn": 1}
    studio.post("rate", **place, change=3, words="Tom", **why)
    told = studio.get("rate", run=studio.run, rater="Ann")["next"]["told"]
    assert told == {"1": {"change": 3, **why}}, "words are false only where something is"


def test_ratings_are_read_by_opinions(studio):
    name = rate_next(studio, "Ann", lambda *_: 1)
    lines = read_lines(studio.folder / "ratings.jsonl")
    assert [one["turn"] for one in lines] == [*range(1, len(lines) + 1)]
    assert {(one["change"], one["fit"], one["rater"]) for one in lines} == {(1, 1, "Ann")}
    last = {"run": studio.run, "rater": "Ann", "name": name, "turn": len(lines), "change": 1}
    studio.post("rate", **last, fit=1, final=63, natural=4)
    *_, ending = (studio.folder / "ratings.jsonl").read_text().splitlines()
    assert json.loads(ending) == {**lines[-1], "final": 63, "natural": 4}
    agent = lines[0]["dialogue"].split("/")[0]
    dialogues, _ = read_dialogues(studio.folder, Sources())
    rated = gather_opinions(studio.folder, dialogues, {}).emotions["rated"]
    assert rated == {agent: 40.0 + len(lines)}


def test_agents_have_names_for_a_rater_who_has_no_more_to_rate(studio):
    mine = {"run": studio.run, "rater": "Ann"}
    rate_next(studio, "Bo", lambda *_: 2)
    while studio.get("rate", **mine)["next"]:
        assert studio.get("agreement", **mine)["agents"] is None
        rate_next(studio, "Ann", lambda *_: 1)
    while pair := studio.get("pair", **mine)["next"]:
        assert studio.get("tally", **mine)["agents"] is None
        studio.post("prefer", **mine, name=pair["name"], side="even")
    dialogues, _ = read_dialogues(studio.folder, Sources())
    rated = gather_opinions(studio.folder, dialogues, {}).emotions["rated"]
    agents = studio.get("agreement", **mine)["agents"]
    assert {agent: by for agent, (_, by) in agents.items()} == rated
    assert set(studio.get("tally", **mine)["agents"]) == {"echo", "listener", "oracle"}
    for other in ({"rater": "Bo"}, {}):
        for name in ("agreement", "tally"):
            assert studio.get(name, run=studio.run, **other)["agents"] is None


def test_where_nothing_differs_within_a_dialogue_no_agreement_with_the_score_is_told():
    def one_turn(change):
        return SimpleNamespace(turns=[SimpleNamespace(appraisal=SimpleNamespace(change=change))])

    episodes = {str(number): one_turn(number) for number in range(5)}
    rated = {key: {"Ann": {1: float(key)}} for key in episodes}
    found = compare_raters(episodes, rated)
    assert np.isnan([found.raters[0].within_dialogue_r, found.within_dialogue_r]).all()


def test_the_agreement_is_that_of_the_ratings(studio):
    def opinion(shift):
        return lambda name, turn: (int(name, 16) + 3 * turn * shift) % 9 - 4

    for rater, shift in (("Ann", 1), ("Bo", 2)):
        for _ in range(3):
            rate_next(studio, rater, opinion(shift))
    rows = {}
    for line in map(json.loads, (studio.folder / "ratings.jsonl").read_text().splitlines()):
        place = rows.setdefault((line["dialogue"], line["turn"]), {})
        place[line["rater"]] = line["change"]
    pairs = np.array([[said["Ann"], said["Bo"]] for said in rows.values()], float)
    episodes = {"/".join(map(str, one.key)): one for one in read_episodes(studio.folder)}
    score = [float(episodes[key].turns[turn - 1].appraisal.change) for key, turn in rows]
    found = studio.get("agreement", run=studio.run)
    assert found["replies"] == found["shared"] == found["icc_replies"] == len(rows)
    assert found["alpha"] == pytest.approx(krippendorff_alpha(pairs.tolist()))
    assert found["icc"] == pytest.approx(intraclass_correlation(pairs))
    within = correlation_within(pairs.mean(axis=1), np.array(score), np.array([*rows])[:, 0])
    assert found["within_dialogue_r"] == pytest.approx(within)
    assert [(one["name"], one["dialogues"]) for one in found["raters"]] == [("Ann", 3), ("Bo", 3)]


def test_without_ratings_the_agreement_says_nothing(shared):
    found = shared.get("agreement", run=shared.run)
    assert (found["replies"], found["alpha"], found["icc"]) == (0, None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"change": 11},
        {"change": -11},
        {"change": 1.5},
        {"change": "much"},
        {"turn": 0},
        {"turn": 20},
        {"name": "echo/gus-the-flatmate/0"},
        {"rater": "../x"},
        {"fit": 3},
        {"final": 101},
        {"natural": 0},
    ],
)
def test_a_rating_outside_the_scale_or_the_queue_is_not_kept(shared, fields):
    name = shared.get("rate", run=shared.run, rater="Ann")["next"]["name"]
    whole = {"run": shared.run, "rater": "Ann", "name": name, "turn": 1, "change": 1}
    assert shared.refusal("rate", **{**whole, **fields})
    assert not (shared.folder / "ratings.jsonl").exists()


@pytest.mark.parametrize("line", ['{"dialogue": 1}', "[]", "{", '{"dialogue":"x","rater":"y"}'])
def test_a_damaged_file_of_ratings_is_named_with_its_line(studio, line):
    (studio.folder / "ratings.jsonl").write_text(f"\n{line}\n")
    path = f"/api/rate?run={studio.run}&rater=Ann"
    answer = studio.ask("GET", path, headers={"cookie": studio.cookie})
    assert (answer.status, "line 2" in answer.body["problem"]) == (400, True)


FACTORS = {"understood": 3, "about": 2, "gives": 4, "human": 1, "pressure": 0, "false": 1}


def test_ratings_that_say_why_are_read_as_a_corpus(studio, tmp_path):
    shown = studio.get("rate", run=studio.run, rater="Ann")["next"]
    whole = {"run": studio.run, "name": shown["name"], "change": 2}
    why = {"factors": FACTORS, "thought": "So, so.", "words": "Tom"}
    studio.post("rate", **whole, rater="Ann", turn=1, **why)
    studio.post("rate", **{**whole, "change": -3}, rater="Bo", turn=1, factors=FACTORS)
    studio.post("rate", **whole, rater="Ann", turn=2)
    done = export([studio.folder], "corpus", tmp_path / "corpus")
    assert (done.rows["ratings"], [*done.chosen.left_out.values()]) == (2, [1])
    (reply,) = Corpus(tmp_path / "corpus").rated_replies()
    assert reply.text == shown["turns"][0][0]
    assert reply.dialogue.opening == shown["opening"]
    ratings = [(one.reader, one.change, one.thought) for one in reply.ratings]
    assert ratings == [("Ann", 2, "So, so."), ("Bo", -3, "(nothing was noted)")]
    assert {name: reply.mean(name) for name in FACTORS} == FACTORS
    export([studio.folder], "corpus", tmp_path / "corpus")
    text = (tmp_path / "corpus" / "ratings.jsonl").read_text()
    added = text + text.splitlines()[0].replace('"Ann"', '"Cy"') + "\n"
    (tmp_path / "corpus" / "ratings.jsonl").write_text(added)
    with pytest.raises(RunError, match="holds 1 rating that the run does not"):
        export([studio.folder], "corpus", tmp_path / "corpus")
    assert (tmp_path / "corpus" / "ratings.jsonl").read_text() == added
    too_much = {**FACTORS, "gives": 5}
    assert "gives" in studio.refusal("rate", **whole, rater="Ann", turn=1, factors=too_much)


def test_a_run_in_which_nobody_says_why_makes_a_corpus_without_ratings(studio, tmp_path):
    rate_next(studio, "Ann", lambda *_: 1)
    done = export([studio.folder], "corpus", tmp_path / "corpus")
    assert done.rows == {"dialogues": len(read_episodes(studio.folder)), "ratings": 0}
    assert not Corpus(tmp_path / "corpus").ratings
    with pytest.raises(RunError, match="one run"):
        export([studio.folder, studio.folder], "corpus", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_pairs_are_blind_resume_and_say_who_helped_more(studio):
    episodes = {"/".join(map(str, one.key)): one for one in read_episodes(studio.folder)}
    sides = {"Ann": ["left", "right", "even"], "Bo": ["left", "left", "even"]}
    names = []
    for rater, told in sides.items():
        for done, side in enumerate(told):
            shown = studio.get("pair", run=studio.run, rater=rater)
            assert shown["done"] == done
            assert shown["total"] == 3 * 8
            known = json.dumps({**shown["next"], "turns": []})
            assert not any(agent in known for agent in ("echo", "listener", "oracle"))
            names.append(shown["next"]["name"])
            body = {"run": studio.run, "rater": rater, "name": names[-1], "side": side}
            assert studio.post("prefer", **body)["done"] == done + 1
    for rater in sides:  # names are for those who have compared all
        while one := studio.get("pair", run=studio.run, rater=rater)["next"]:
            body = {"run": studio.run, "rater": rater, "name": one["name"], "side": "left"}
            studio.post("prefer", **body)
    assert names[:3] == names[3:]
    lines = read_lines(studio.folder / "preferences.jsonl")
    pairs = [{line["left"], line["right"]} for line in lines if line["rater"] == "Ann"]
    assert len({frozenset(pair) for pair in pairs}) == len(pairs) == 24
    assert all(len({key.split("/", 1)[1] for key in pair}) == 1 for pair in pairs)
    found = studio.get("tally", run=studio.run, rater="Ann")
    assert (found["pairs"], found["raters"], found["shared"]) == (24, 2, 24)
    values = [[1, 1], [-1, 1], [0, 0], *[[1, 1]] * 21]
    assert found["alpha"] == pytest.approx(krippendorff_alpha(values))
    points = {"left": 1.0, "even": 0.5, "right": 0.0}
    for agent, (share, count) in found["agents"].items():
        mine = [
            points[one["preferred"]] if side == "left" else 1 - points[one["preferred"]]
            for one in lines
            for side in ("left", "right")
            if episodes[one[side]].agent == agent
        ]
        assert (share, count) == (pytest.approx(np.mean(mine)), len(mine))
    decided = [one for one in lines if one["preferred"] != "even"]
    higher = [
        (episodes[one["left"]].final > episodes[one["right"]].final) is (one["preferred"] == "left")
        for one in decided
        if episodes[one["left"]].final != episodes[one["right"]].final
    ]
    assert found["with_score"] == pytest.approx(np.mean(higher))


@pytest.mark.parametrize("fields", [{"side": "both"}, {"name": "x"}, {"rater": "../x"}])
def test_a_preference_outside_the_queue_is_not_kept(shared, fields):
    name = shared.get("pair", run=shared.run, rater="Ann")["next"]["name"]
    whole = {"run": shared.run, "rater": "Ann", "name": name, "side": "left"}
    assert shared.refusal("prefer", **{**whole, **fields})
    assert not (shared.folder / "preferences.jsonl").exists()
