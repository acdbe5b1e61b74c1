"""Blind sheets of a policy's replies, and what readers wrote back."""

import json

import pytest
from paths import ROOT
from typer.testing import CliRunner

from rlver_gym.cli.root import app
from rlver_gym.corpora.corpus import Corpus
from rlver_gym.corpora.sheets import ANCHORS, read_sheets, write_sheets
from rlver_gym.util.errors import RecordingError

OWN, TRAIN = (Corpus(ROOT / "recordings" / "en" / name) for name in ("samples/own", "train"))
RATING = {
    **dict.fromkeys(("understood", "about", "human"), 2),
    "gives": 1,
    "pressure": 0,
    "false": 0,
    "words": "",
}


@pytest.fixture
def sample(tmp_path):
    """Thirty moments of a corpus, six replies each, the first of them rated."""
    folder = tmp_path / "drawn"
    folder.mkdir()
    source = ROOT / "recordings" / "en" / "samples" / "own"
    moments = (source / "moments.jsonl").read_text(encoding="utf-8").splitlines()[:30]
    first = json.loads(moments[0])["replies"][0]["id"]
    ratings = (source / "ratings.jsonl").read_text(encoding="utf-8").splitlines()
    rated = [line for line in ratings if json.loads(line)["reply"] == first]
    (folder / "moments.jsonl").write_text("\n".join(moments) + "\n", encoding="utf-8")
    (folder / "ratings.jsonl").write_text("\n".join(rated) + "\n", encoding="utf-8")
    (folder / "dialogues.jsonl").touch()
    (folder / "supporters.json").write_text((source / "supporters.json").read_text())
    return folder


def read_key(sheets):
    return json.loads((sheets / "key.json").read_text())


def test_sheets_are_blind_hold_every_unrated_reply_once_and_two_anchors_each(sample, tmp_path):
    count = write_sheets(Corpus(sample), TRAIN, tmp_path / "sheets", most=60)
    key, texts = read_key(tmp_path / "sheets"), sorted((tmp_path / "sheets").glob("sheet-*.md"))
    assert count == len(texts) == 4  # 179 replies, 58 and two anchors a sheet, no moment split
    todo = [entry["reply"] for entry in key.values() if entry["recorded"] is None]
    rated = {rating.reply for rating in Corpus(sample).ratings}
    assert sorted(todo) == sorted(x.id for x in Corpus(sample).replies() if x.id not in rated)
    supporters = {reply.id: reply.supporter for reply in TRAIN.replies()}
    for path in texts:
        text = path.read_text(encoding="utf-8")
        shown = [name for name in key if f"\n{name}: " in text]
        anchors = [key[name] for name in shown if key[name]["recorded"] is not None]
        assert len(shown) <= 60
        assert {supporters[entry["reply"]] for entry in anchors} == set(ANCHORS)
        assert not any(entry["reply"] in text for entry in key.values())
        assert not any(word in text for word in (*ANCHORS, "qwen", "recorded"))
    again = tmp_path / "again"
    write_sheets(Corpus(sample), TRAIN, again, most=60)
    assert (again / texts[0].name).read_text() == texts[0].read_text()


def test_a_folder_that_holds_something_is_never_replaced_by_sheets(sample, tmp_path):
    sheets = tmp_path / "sheets"
    write_sheets(Corpus(sample), TRAIN, sheets)
    write_ratings(sheets, "ann", [])
    for taken in (sheets, sample):
        before = sorted(taken.rglob("*"))
        with pytest.raises(RecordingError, match=r"is not empty.*--out"):
            write_sheets(Corpus(sample), TRAIN, taken)
        assert sorted(taken.rglob("*")) == before


def write_ratings(sheets, reader, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (sheets / "ratings" / f"{reader}.jsonl").write_text(text, encoding="utf-8")


def test_ratings_go_back_once_and_anchors_tell_how_strict_a_reader_was(sample, tmp_path):
    sheets, before = tmp_path / "sheets", len(Corpus(sample).ratings)
    recorded = str(ROOT / "recordings" / "en" / "train")
    command = ["sheets", "write", str(sample), "--recorded", recorded, "--out", str(sheets)]
    assert CliRunner().invoke(app, command).exit_code == 0
    lines = [
        {"id": name, "thought": f"No. {number}", **RATING, "change": int(known or 0) - 2}
        for number, (name, entry) in enumerate(read_key(sheets).items())
        if (known := entry["recorded"]) is None or known > -8
    ]
    write_ratings(sheets, "anna", lines)
    reading = read_sheets(sheets, sample)
    assert reading.added == 179
    assert reading.strictness["anna"] == pytest.approx(-2, abs=0.6)
    after = Corpus(sample).ratings
    assert len(after) == before + 179
    assert {(rating.reader, rating.change) for rating in after[before:]} == {("anna", -2)}
    shown = CliRunner().invoke(app, ["sheets", "read", str(sheets), str(sample)]).output
    assert "0 new ratings" in shown
    assert "anna: anchors -" in shown
    anchor = next(line for line in lines if read_key(sheets)[line["id"]]["recorded"] is not None)
    write_ratings(sheets, "anna", [anchor, anchor, anchor | {"change": 10}])
    with pytest.raises(RecordingError, match=r"anna.jsonl:3: gives \+10 where anna gave"):
        read_sheets(sheets, sample)
    rated = next(line for line in lines if read_key(sheets)[line["id"]]["recorded"] is None)
    write_ratings(sheets, "anna", [rated | {"change": 3}])
    with pytest.raises(RecordingError, match=r"anna.jsonl:1: gives \+3 where anna gave -2 before"):
        read_sheets(sheets, sample)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": "s99-0001"}, "anna.jsonl:2: rates what stands in no sheet"),
        ({"change": 11}, "anna.jsonl:2: is no rating"),
        ({"thought": ""}, "anna.jsonl:2: is no rating"),
        ({"false": 1}, "anna.jsonl:2: is false without words"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_written(change, says, sample, tmp_path):
    sheets = tmp_path / "sheets"
    write_sheets(Corpus(sample), TRAIN, sheets)
    names = [name for name, entry in read_key(sheets).items() if entry["recorded"] is None]
    lines = [{"id": name, "thought": "No.", **RATING, "change": 1} for name in names[:2]]
    write_ratings(sheets, "anna", [lines[0], lines[1] | change])
    before = (sample / "ratings.jsonl").read_bytes()
    with pytest.raises(RecordingError, match=says):
        read_sheets(sheets, sample)
    assert (sample / "ratings.jsonl").read_bytes() == before


def test_a_corpus_with_nothing_to_rate_or_without_anchors_is_refused(sample, tmp_path):
    with pytest.raises(RecordingError, match="no unrated reply"):
        write_sheets(OWN, TRAIN, tmp_path / "sheets")
    with pytest.raises(RecordingError, match="no moment with rated replies of rogers and nobody"):
        write_sheets(Corpus(sample), TRAIN, tmp_path / "sheets", anchors=("rogers", "nobody"))
