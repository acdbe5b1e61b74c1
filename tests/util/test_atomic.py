"""Files written all or nothing."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import CardError, RunError
from rlver_gym.util.folders import write_folder


def test_a_file_is_written_whole_with_its_folders_and_leaves_no_draft(tmp_path):
    path = tmp_path / "a" / "b" / "out.json"
    write_atomically(path, "first\n")
    write_atomically(path, "second\n")
    assert path.read_text(encoding="utf-8") == "second\n"
    assert [one.name for one in path.parent.iterdir()] == ["out.json"]


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "out.json"
    path.write_text("before", encoding="utf-8")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"No space left on device.*Free some space"):
        write_atomically(path, "after")
    assert path.read_text(encoding="utf-8") == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["out.json"]


def test_errors_are_of_the_callers_kind_and_name_a_remedy(tmp_path):
    with pytest.raises(CardError, match=r"It is a folder\. Give the path of a file"):
        write_atomically(tmp_path, "x", CardError)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(CardError, match="A file lies where a folder is needed"):
        write_atomically(tmp_path / "file" / "out.json", "x", CardError)


def test_many_writers_of_one_file_neither_fail_nor_let_a_reader_see_a_part(tmp_path):
    path, texts = tmp_path / "out.json", [str(number) * 200_000 for number in range(3)]
    write_atomically(path, texts[0])
    with ThreadPoolExecutor(max_workers=3) as pool:
        writing = [pool.submit(write_atomically, path, text) for text in texts * 20]
        seen = {path.read_text(encoding="utf-8") for _ in range(100)}
        for one in writing:
            one.result()
    assert seen <= set(texts)
    assert [one.name for one in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_folder_whose_exchange_broke_off_half_way_is_there_again(
    is_killed, tmp_path, monkeypatch
):
    path, rename = tmp_path / "model", Path.rename

    def write(text):
        with write_folder(path, RunError) as draft:
            (draft / "weights").write_text(text, encoding="utf-8")

    def break_off(source, target):
        if source.name == ".model.part":
            raise KeyboardInterrupt
        return rename(source, target)

    write("first")
    if is_killed:
        path.rename(tmp_path / ".model.old")
        (tmp_path / ".model.part").mkdir()
        with pytest.raises(KeyboardInterrupt), write_folder(path, RunError):
            raise KeyboardInterrupt
    else:
        monkeypatch.setattr(Path, "rename", break_off)
        with pytest.raises(KeyboardInterrupt):
            write("second")
        monkeypatch.undo()
    assert (path / "weights").read_text(encoding="utf-8") == "first"
    write("third")
    assert (path / "weights").read_text(encoding="utf-8") == "third"
    assert [one.name for one in tmp_path.iterdir()] == ["model"]


@pytest.mark.timeout(100)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_link_or_pipe_that_lies_where_the_draft_goes_is_not_written_through(tmp_path, kind):
    precious, out = tmp_path / "precious", tmp_path / "out.json"
    precious.write_text("mine", encoding="utf-8")
    draft = tmp_path / "out.json.part"
    draft.symlink_to(precious) if kind == "link" else os.mkfifo(draft)
    write_atomically(out, "new")
    assert precious.read_text(encoding="utf-8") == "mine"
    assert out.read_text(encoding="utf-8") == "new"
    assert not out.is_symlink()
