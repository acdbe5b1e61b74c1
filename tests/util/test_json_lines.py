"""Files that grow: what is acknowledged is there, whole and once, whatever happens meanwhile."""

import json
import logging
import subprocess
import sys

import pytest
from full_disk import files_of_at_most

from rlver_gym.util.errors import CardError, RunError
from rlver_gym.util.json_lines import append_json, append_lines, open_locked, read_json_lines

NAME = "ratings.jsonl"


def values(folder):
    return [value for _, value in read_json_lines(folder, NAME)]


@pytest.mark.parametrize("size", range(1, 400, 20))
def test_a_full_disk_loses_nothing_acknowledged_and_leaves_no_part_of_a_line(tmp_path, size):
    kept = []

    def fill_disk():
        for number in range(100):
            pair = {"number": number, "text": "ä" * 5}, {"more": number}
            append_json(tmp_path, NAME, *pair)
            kept.extend(pair)

    with files_of_at_most(size), pytest.raises(RunError, match="Free some space"):
        fill_disk()
    assert values(tmp_path) == kept
    append_json(tmp_path, NAME, {"number": "later"})
    assert values(tmp_path) == [*kept, {"number": "later"}]


@pytest.mark.parametrize(
    ("left", "kept", "is_told"),
    [
        ('{"a": 1}\n{"a": 2', [{"a": 1}], True),
        ('{"a": 2', [], True),
        ('{"a": 1}\n{"a": "\u00e4'.encode()[:-1], [{"a": 1}], True),
        ('{"a": 1}\n{"a": "' + "x" * 200_000, [{"a": 1}], True),
        ('{"a": 1}\n{"a": 2}', [{"a": 1}, {"a": 2}], False),
        ('{"a": 1}\n', [{"a": 1}], False),
        ('\ufeff{"a": 1}\n', [{"a": 1}], False),
        ("", [], False),
    ],
)
def test_what_a_crash_left_of_a_line_is_dropped_in_words_before_the_next_is_written(
    tmp_path, caplog, left, kept, is_told
):
    (tmp_path / NAME).write_bytes(left if isinstance(left, bytes) else left.encode())
    if not isinstance(left, bytes):
        assert values(tmp_path) == kept
    with caplog.at_level(logging.WARNING):
        append_json(tmp_path, NAME, {"a": 3})
    assert values(tmp_path) == [*kept, {"a": 3}]
    assert ("cut off" in caplog.text) is is_told


def test_a_line_in_the_middle_that_is_no_json_is_named(tmp_path):
    (tmp_path / NAME).write_text('{"a": 1\n{"a": 2}\n', encoding="utf-8")
    with pytest.raises(RunError, match="line 1: is no JSON"):
        values(tmp_path)
    (tmp_path / NAME).write_text('{"a": 1\n', encoding="utf-8")
    with pytest.raises(RunError, match="line 1: is no JSON"):
        values(tmp_path)


WRITER = """
import sys
from pathlib import Path
from rlver_gym.util.json_lines import append_json
for number in range(60):
    first = {"by": sys.argv[2], "number": number}
    append_json(Path(sys.argv[1]), "ratings.jsonl", first, {"x": "y" * 9000})
"""


def test_writers_in_several_processes_write_every_line_once_and_whole(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in "abc"
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    lines = values(tmp_path)
    for name in "abc":
        own = [at for at, line in enumerate(lines) if line.get("by") == name]
        assert [lines[at]["number"] for at in own] == list(range(60))
        assert all(lines[at + 1] == {"x": "y" * 9000} for at in own)


def test_a_file_that_another_writer_holds_is_waited_for_or_refused(tmp_path):
    path = tmp_path / NAME
    refused = pytest.raises(RunError, match="another process is writing here")
    with open_locked(path), refused, open_locked(path):
        pass
    append_lines(path, [json.dumps({"a": 1})])
    assert values(tmp_path) == [{"a": 1}]


@pytest.mark.parametrize("kind", ["link", "folder", "circle"])
def test_a_path_that_is_no_file_of_the_folder_is_refused(tmp_path, kind):
    folder, outside = tmp_path / "run", tmp_path / "precious"
    folder.mkdir()
    outside.write_text("mine", encoding="utf-8")
    path = folder / NAME
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(outside if kind == "link" else path)
    with pytest.raises(CardError, match=r"leads out|not a regular file"):
        append_lines(path, ["{}"], CardError)
    assert outside.read_text(encoding="utf-8") == "mine"
