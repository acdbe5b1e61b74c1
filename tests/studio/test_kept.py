"""What is written beside a run: acknowledged when it is on the disk, and of two studios at once."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from types import SimpleNamespace

import pytest
from full_disk import files_of_at_most
from studios import KIND, Client

from rlver_gym.studio.pairs import Pairs
from rlver_gym.studio.runs import Runs
from rlver_gym.util.json_lines import open_locked, write_lines

KEY = "echo/gus-the-flatmate/0"


def asks(studio, kind):
    """For something that is kept its file, and a request that adds a line to it."""
    mine = {"run": studio.run, "rater": "Ann"}
    name, pair = (studio.get(one, **mine)["next"]["name"] for one in ("rate", "pair"))
    said = {"rater": "Ann", "agent": KIND, "words": "My dog died."}
    talk = studio.post("confide", **said)["id"] if kind == "feeling" else ""
    turn = {"run": studio.run, "dialogue": KEY, "turn": 1}
    run = studio.folder
    return {
        "note": (run / "notes.jsonl", "note", {**turn, "text": "It copies."}),
        "branch": (run / "studio/branches.jsonl", "branch", {**turn, "words": "Hello."}),
        "rating": (run / "ratings.jsonl", "rate", {**mine, "name": name, "turn": 1, "change": 2}),
        "preference": (run / "preferences.jsonl", "prefer", {**mine, "name": pair, "side": "left"}),
        "feeling": (studio.out / "ratings.jsonl", "confide-rate", {"talk": talk, "change": 3}),
        "words": (studio.out / "dialogues.jsonl", "confide", said),
    }[kind]


KINDS = ["note", "branch", "rating", "preference", "feeling", "words"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_full_disk_does_not_take_is_refused_in_words_and_granted_later(studio, kind):
    file, name, fields = asks(studio, kind)
    with files_of_at_most(30):
        assert "cannot be written" in studio.refusal(name, **fields)
    assert not file.exists() or file.read_bytes() == b""
    if kind == "feeling":
        say = {"talk": fields["talk"], "words": "He was old."}
        assert "rate the last reply first" in studio.refusal("confide-say", **say)
    studio.post(name, **fields)
    assert [len(json.loads(line)) > 2 for line in file.read_text().splitlines()] == [True]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(studio, kind):
    file, name, fields = asks(studio, kind)
    file.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(file)
    assert "not a regular file" in studio.refusal(name, **fields)


def test_a_note_that_another_studio_writes_meanwhile_is_kept(studio):
    file, name, fields = asks(studio, "note")
    theirs = {"dialogue": KEY, "turn": 2, "text": "By another studio."}
    with ThreadPoolExecutor(1) as pool:
        with open_locked(file, wait=True) as other:
            ours = pool.submit(studio.post, name, **fields)
            wait([ours], timeout=0.5)  # it has read the file, or waits for its turn
            write_lines(other, file, [json.dumps(theirs)])
        assert [one["text"] for one in ours.result()] == ["By another studio.", "It copies."]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)]
)
def test_a_studio_that_is_stopped_has_kept_what_it_acknowledged(held, tmp_path, stop, code):
    run = shutil.copytree(held, tmp_path / "run")
    command = [sys.executable, "-m", "rlver_gym", "studio", str(run), "--port", "0"]
    default_interrupt = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=default_interrupt
    ) as process:
        assert process.stdout
        port, token = re.findall(r":(\d+)/\?token=(\S+)", process.stdout.readline())[0]
        client = Client(SimpleNamespace(port=int(port), token=token), run, tmp_path)

        def write_notes(turn):
            fields = {"run": "run", "dialogue": KEY, "turn": turn}
            number = 0
            with suppress(OSError, HTTPException):
                for number in range(10_000):
                    client.post("note", **fields, text=f"{number}")
            return number - 1

        with ThreadPoolExecutor(3) as pool:
            last = [pool.submit(write_notes, turn) for turn in range(3)]
            time.sleep(1)
            began = time.monotonic()
            process.send_signal(stop)
            assert process.wait(timeout=120) == code
            assert time.monotonic() - began < 9, "it gives requests 3 s"
    notes = [json.loads(line) for line in (run / "notes.jsonl").read_text().splitlines()]
    for turn, number in enumerate(one.result() for one in last):
        assert number > 0
        assert f"{number}" in [note["text"] for note in notes if note["turn"] == turn]


def test_the_pairs_of_a_thousand_agents_are_not_written_down(held):
    runs = Runs([held])
    ((label, run),) = runs.runs.items()
    many = {
        f"{number}/{key}": episode._replace(agent=f"{number}")
        for key, episode in run.dialogues.items()
        for number in range(1_000)
    }
    runs.runs[label] = run._replace(dialogues=many)
    began = time.monotonic()
    assert Pairs(runs).next(label, "Ann")["total"] == 8 * 3_000 * 2_999 // 2
    assert time.monotonic() - began < 20, "one by one they take minutes"
