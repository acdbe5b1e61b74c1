"""The corpus as data to train on: replies that readers found good, and what they thought."""

import json
import shutil
from pathlib import Path

import pytest
from exports import rows as exported
from paths import ROOT

from rlver_gym.bench.export.export import ExportOptions, export
from rlver_gym.bench.export.select_dialogues import DialogueFilter
from rlver_gym.corpora.corpus import Corpus
from rlver_gym.util.errors import RecordingError, RunError

TRAIN = ROOT / "recordings" / "en" / "train"
FEW = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small corpus: the first dialogues and moments of the shipped one."""
    where = tmp_path_factory.mktemp("corpus")
    shutil.copy(TRAIN / "supporters.json", where)
    shutil.copy(TRAIN / "ratings.jsonl", where)
    for name in ("dialogues.jsonl", "moments.jsonl"):
        lines = (TRAIN / name).read_text(encoding="utf-8").split("\n")[:FEW]
        (where / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return where


@pytest.fixture(scope="module")
def rated(folder):
    """By the person's last words and the reply."""
    found = {}
    for one in Corpus(folder).rated_replies():
        found.setdefault((one.dialogue.user_lines[-1], one.text), []).append(one)
    return found


def test_demonstrations_carry_what_the_readers_made_of_them(folder, rated, tmp_path):
    rows = exported(folder, "sft", tmp_path)
    assert len(rows) > FEW
    for row in rows:
        said, told = row["completion"][0]["content"], row["metadata"]
        (one, *_) = rated[row["prompt"][-1]["content"], said]
        assert told["change"] == round(one.mean("change"))
        assert told["thought"] == one.ratings[0].thought
        assert (told["agent"], told["user"]) == (one.supporter, "readers")


def test_emotion_is_what_the_readers_changes_add_up_to(folder, tmp_path):
    for row in exported(folder, "openai", tmp_path):
        told, emotion = row["metadata"], 40
        for turn in told["turns"]:
            assert told["outcome"] is not None
            emotion = max(0, min(100, emotion + turn["change"]))
            assert turn["emotion"] == emotion
        assert told["final"] == emotion
        assert all(10 <= turn["emotion"] < 100 for turn in told["turns"][:-1])
        assert told["last_reply"]


@pytest.mark.slow
def test_pairs_are_two_replies_to_one_moment_by_what_readers_gave_them(tmp_path):
    """Where an earlier turn of a moment is a rated reply of another, only the rating counts."""
    changes = {}
    for one in Corpus(TRAIN).rated_replies():
        said = tuple(message.text for message in one.dialogue.messages())
        changes.setdefault((one.persona, said[:-1], said[-1]), []).append(round(one.mean("change")))
    out = tmp_path / "pairs.jsonl"
    export([TRAIN], "dpo", out, options=ExportOptions(min_margin=8))
    lines = out.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 1_000
    for row in map(json.loads, lines):
        before, told = tuple(one["content"] for one in row["prompt"]), row["metadata"]
        for name in ("chosen", "rejected"):
            rated = changes[told["persona"], before, row[name][0]["content"]]
            assert min(rated) <= told[name]["change"] <= max(rated)
        assert told["margin"] >= 8


def test_the_least_change_chooses_replies_and_roles_leave_machines_out(folder, tmp_path):
    rows = exported(folder, "sft", tmp_path, min_change=5, roles=True)
    corpus = Corpus(folder)
    moments = {reply.text for moment in corpus.moments for reply in moment.replies}
    assert {row["metadata"]["change"] >= 5 for row in rows} == {True}
    assert {corpus.supporters[row["metadata"]["agent"]].kind for row in rows} == {"role"}
    assert any(row["completion"][0]["content"] in moments for row in rows)


def test_the_hub_card_says_who_wrote_and_who_rated(folder, tmp_path):
    export([folder], "hf", tmp_path / "hf", options=ExportOptions(min_margin=10))
    assert "no human was asked" in (tmp_path / "hf" / "README.md").read_text(encoding="utf-8")


def test_who_only_answered_single_moments_can_be_chosen(folder, tmp_path):
    corpus = Corpus(folder)
    replies = {one.supporter for moment in corpus.moments for one in moment.replies}
    name = min(replies - {one.supporter for one in corpus.dialogues})
    rows = exported(folder, "sft", tmp_path, min_change=-10, wanted=DialogueFilter(agents=(name,)))
    assert {row["metadata"]["agent"] for row in rows} == {name}
    with pytest.raises(RunError, match="--min-change"):
        exported(folder, "sft", tmp_path, min_change=10)


def test_nothing_is_written_into_a_corpus(folder):
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(RunError, match="--out"):
        export([folder], "sft")
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_spoilt_corpus_is_named(folder, tmp_path):
    spoilt = Path(shutil.copytree(folder, tmp_path / "spoilt"))
    (spoilt / "dialogues.jsonl").write_text('{"id": 3}\n', encoding="utf-8")
    with pytest.raises(RecordingError, match=r"dialogues.jsonl:1"):
        export([spoilt], "sft", tmp_path / "out.jsonl")
