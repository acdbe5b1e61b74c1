"""The corpus of rated replies keeps its promises, and what is wrong with a folder is said."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from fidelity import describe_agreement
from json_files import read_lines, write_lines
from ordinary_talk import compare
from paths import ROOT

from rlver_gym.core.capabilities import HIGHEST, JUDGED, LOWEST
from rlver_gym.corpora.corpus import Corpus
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import RecordingError

SHIPPED = ROOT / "recordings" / "en"


def _script(path):
    spec = importlib.util.spec_from_file_location(f"benchmarks_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = _script(ROOT / "benchmarks" / "corpus.py")


@pytest.fixture(scope="module")
def splits():
    return {name: Corpus(SHIPPED / name) for name in tool.SPLITS}


def test_what_trained_policies_said_stands_apart_and_is_rated_whole(splits):
    policies = Corpus(SHIPPED / "policies")
    replies = list(policies.replies())
    assert len(replies) == len(policies.rated_replies()) == 1_078
    assert {one.kind for one in replies} == {"machine"}
    shipped = library()
    met = {shipped.pairings[one.persona].split for one in policies.dialogues}
    assert met == {"train", "validation"}
    known = {one.id for corpus in splits.values() for one in corpus.replies()}
    assert not known & {one.id for one in replies}


def test_whole_dialogues_are_rated_on_every_capability_by_two_readers():
    rated = {}
    path = ROOT / "research" / "capabilities" / "ratings.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        assert set(one) == {"folder", "dialogue", "reader", "why", *JUDGED}
        assert {one[name] for name in JUDGED} <= set(range(LOWEST, HIGHEST + 1))
        rated.setdefault((one["folder"], one["dialogue"]), set()).add(one["reader"])
    assert len(rated) == 314
    assert {len(readers) for readers in rated.values()} == {2}
    folders = {folder for folder, _ in rated}
    held = {(at, one.id) for at in folders for one in Corpus(SHIPPED / at).dialogues}
    assert rated.keys() <= held


@pytest.mark.parametrize(
    "folder",
    sorted(path.parent for path in (ROOT / "recordings").rglob("supporters.json")),
    ids=lambda path: "-".join(path.parts[-2:]),
)
def test_every_folder_of_rated_replies_is_readable(folder):
    corpus = Corpus(folder)
    replies = list(corpus.replies())
    assert len({one.id for one in replies}) == len(replies) > 0
    assert {one.reply for one in corpus.ratings} <= {one.id for one in replies}
    assert {one.supporter for one in replies} == set(corpus.supporters)
    assert {one.persona for one in replies} <= set(library().ids())
    for place in (*corpus.dialogues, *corpus.moments):
        assert place.opening
        assert all(turn.user.strip() for turn in place.turns)


def test_samples_of_policies_and_talk_are_rated_whole_and_those_for_test_people_stand_apart(splits):
    samples = {name: Corpus(SHIPPED / "samples" / name) for name in (*tool.SPLITS, "own")}
    samples["talk"] = Corpus(SHIPPED / "talk")
    test_people = set(library().ids("test"))
    for name, corpus in samples.items():
        replies = list(corpus.replies())
        assert len(replies) == len(corpus.rated_replies())
        assert {one.persona in test_people for one in replies} == {name == "test"}
        split = "test" if name == "test" else "train"
        assert list(tool._strays(split, corpus, test_people)) == []
    every = (*splits.values(), *samples.values(), Corpus(SHIPPED / "tricks"))
    known = [one.id for corpus in every for one in corpus.replies()]
    assert len(set(known)) == len(known)


def test_the_rated_dialogues_of_policies_end_where_the_docs_say():
    changes = {}
    for one in Corpus(SHIPPED / "samples" / "test").rated_replies():
        if one.place.startswith("d-"):
            changes.setdefault((one.supporter, one.place), []).append(one.mean("change"))
    finals = {}
    for (supporter, _), said in changes.items():
        emotion = 40.0
        for change in said:
            emotion = max(0, min(100, emotion + change)) if emotion >= 10 else emotion
        finals.setdefault(supporter, []).append(emotion)
    counts = {who: len(each) for who, each in finals.items()}
    assert counts == dict.fromkeys(finals, 24) | {"qwen-ppo-readers": 19}
    assert {who: f"{np.mean(each):.1f}" for who, each in finals.items()} == {
        "qwen-base-cool": "10.4",
        "qwen-sft-cool": "18.1",
        "qwen-grpo": "6.3",
        "qwen-1.5b-base": "16.2",
        "qwen-1.5b-sft": "19.1",
        "qwen-sft-second": "8.0",
        "qwen-dpo": "20.4",
        "qwen-grpo-readers": "17.2",
        "qwen-ppo-readers": "16.6",
    }


@pytest.mark.parametrize(
    ("folder", "page"),
    [
        ("ordinary", "docs/embedded-user.md"),
        ("talk", "research/version12.md"),
        ("tricks", "research/version12.md"),
    ],
)
def test_ordinary_talk_ends_where_the_docs_say(folder, page):
    text = (ROOT / page).read_text(encoding="utf-8")
    _version, *lines = compare(SHIPPED / folder, EmbeddedUser())
    finals = [" | ".join(re.findall(r"\b(?:readers|user) +(\d+)", line)) for line in lines]
    assert [final for final in finals if f"| {final} |" not in text] == []
    assert len(lines) == len(Corpus(SHIPPED / folder).supporters)


def test_best_of_n_gains_with_readers_what_the_docs_say():
    folder = SHIPPED / "samples" / "test"
    change = {one.id: one.mean("change") for one in Corpus(folder).rated_replies()}
    gains = {}
    for moment in read_lines(folder / "moments.jsonl"):
        by = {}
        for reply in moment["replies"]:
            for name in reply.get("chosen_by", []):
                by.setdefault(name, []).append(change[reply["id"]])
        for name, values in by.items():
            gains.setdefault(name, []).append(float(np.mean(values) - np.mean(by["single"])))
    assert {name: f"{np.mean(each):.1f}".replace("-", "−") for name, each in gains.items()} == {
        "single": "0.0",
        "best8-words": "−0.6",
        "best8-reader": "−0.2",
        "best8-pessimistic": "−0.2",
        "best16-pessimistic": "−0.8",
    }


def test_the_shipped_corpus_keeps_its_promises(splits):
    assert list(tool.problems(splits)) == []


def test_two_readers_agree_on_every_factor(splits):
    rated = (one for corpus in splits.values() for one in corpus.rated_replies())
    assert min(agreement for agreement, _ in tool.compare_readers(rated).values()) >= 0.7


def test_a_reply_stands_in_its_dialogue_and_holds_its_ratings(splits):
    rated = splits["train"].rated_replies()
    whole = next(one for one in splits["train"].dialogues if len(one.turns) > 3 and one.turns[2].id)
    third = next(one for one in rated if one.id == whole.turns[2].id)
    assert third.text == whole.turns[2].agent
    assert third.dialogue.user_lines == (whole.opening, whole.turns[0].user, whole.turns[1].user)
    twice = next(one for one in rated if len(one.ratings) == 2)
    assert twice.mean("change") == sum(one.change for one in twice.ratings) / 2


@pytest.fixture
def folder(tmp_path):
    """A copy of the corpus that may be spoilt."""
    return Path(shutil.copytree(SHIPPED, tmp_path / "en"))


def wrong(splits, folder, spoilt):
    return list(tool.problems({**splits, spoilt: Corpus(folder / spoilt)}))


def test_a_script_that_rates_is_found(splits, folder):
    path = folder / "train" / "ratings.jsonl"
    kept = read_lines(path)
    write_lines(
        path, [*({**one, "thought": "That was about me."} for one in kept[:200]), *kept[200:]]
    )
    assert wrong(splits, folder, "train") == ["thoughts stand there twice"]


@pytest.mark.slow
def test_a_script_that_writes_replies_is_found(splits, folder):
    path = folder / "train" / "dialogues.jsonl"
    kept = read_lines(path)
    for dialogue in kept[:60]:
        for turn in dialogue["turns"]:
            turn["agent"] = "What a heavy evening that was, your brother shouting on the stairs."
    write_lines(path, kept)
    assert any("nearly the same as another" in one for one in wrong(splits, folder, "train"))


def test_a_supporter_in_both_splits_is_found(splits, folder):
    path = folder / "test" / "dialogues.jsonl"
    write_lines(path, [{**one, "supporter": "rogers"} for one in read_lines(path)])
    assert "supporter rogers stands in both splits" in wrong(splits, folder, "test")


def test_what_is_no_line_of_a_corpus_is_named(folder):
    path = folder / "test" / "ratings.jsonl"
    first, *rest = read_lines(path)
    write_lines(path, [{**first, "understood": 5}, *rest])
    with pytest.raises(RecordingError, match=r"ratings\.jsonl:1: is no line of a corpus \(unders"):
        Corpus(folder / "test")
    (folder / "test" / "supporters.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RecordingError, match="supporters"):
        Corpus(folder / "test")


def test_a_user_that_feels_what_readers_feel_agrees_with_them(splits):
    rated = splits["test"].rated_replies()
    felt = np.array([one.mean("change") for one in rated])
    found = describe_agreement(rated, felt)
    assert next(iter(found)) == "within_dialogue_r"
    for name in ("within_dialogue_r", "within_moment_r", "within_person_r", "same_sign"):
        assert found[name] == pytest.approx(1.0), name
    assert describe_agreement(rated, -felt)["within_dialogue_r"] == pytest.approx(-1.0)


def test_knowing_who_speaks_is_no_agreement_within_a_dialogue(splits):
    rated = splits["test"].rated_replies()
    means = {}
    for one in rated:
        means.setdefault(one.place, []).append(one.mean("change"))
    places = {name: sum(values) / len(values) for name, values in means.items()}
    found = describe_agreement(rated, np.array([places[one.place] for one in rated]))
    assert found["within_dialogue_r"] == 0.0
    assert (found["within_person_r"] or 0.0) > 0.3


def test_folders_that_were_swapped_are_found(splits):
    found = list(tool.problems({"train": splits["test"], "test": splits["train"]}))
    assert "train: expert is of the split test" in found
    assert any("is of the other split" in one for one in found)
