"""`rlver-gym talk` at a real terminal: lines can be edited, commands are no turns, a paste is
one.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

import pytest
from commands import run_command
from interrupts import heeding_ctrl_c
from paths import ROOT

from rlver_gym.environment.episode import Episode
from rlver_gym.testing import ChatServer

PERSONA = "noor-missed-evening"
PARROT = '''
class Parrot:
    """Says what it heard, as Python would write it."""

    kind, version = "parrot", "1"

    def open(self, scene, emotion):
        return "Well?"

    def appraise(self, scene, emotion, dialogue):
        from rlver_gym import Appraisal, Reason
        return Appraisal(-1, "…", (Reason("base", -1.0, "one point down"),))

    def speak(self, scene, emotion, dialogue, appraisal):
        return f"heard {dialogue.utterance!r}."
'''


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, *words, cwd):
        self.leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
        with heeding_ctrl_c():
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rlver_gym", *words],
                stdin=follower,
                stdout=follower,
                stderr=follower,
                cwd=cwd,
                start_new_session=True,
                env={**os.environ, "TERM": "xterm", "PYTHONPATH": f"{ROOT}"},
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )
        os.close(follower)
        self.output = b""
        self.seen = 0

    def type(self, keys):
        os.write(self.leader, keys.encode())

    def wait_for(self, text, seconds=200):
        """What was shown up to this text, since the last wait."""
        deadline = time.monotonic() + seconds
        while text not in self.fresh:
            assert select.select([self.leader], [], [], max(0, deadline - time.monotonic()))[0], (
                text,
                self.fresh,
            )
            try:
                self.output += os.read(self.leader, 65536)
            except OSError:  # the program has ended
                raise AssertionError((text, self.fresh)) from None
        shown = self.fresh[: self.fresh.index(text) + len(text)]
        self.seen += len(shown)
        return shown

    @property
    def fresh(self):
        """What was shown since the last wait, without colours."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.output.decode(errors="replace"))[
            self.seen :
        ]

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.leader)


@pytest.fixture
def terminal(tmp_path):
    (tmp_path / "parrot_user.py").write_text(PARROT, encoding="utf-8")
    terminal = Terminal(
        "talk", "--persona", PERSONA, "--user", "parrot_user:Parrot", "--no-explain", cwd=tmp_path
    )
    try:
        terminal.wait_for("1/8  ")
        yield terminal
    finally:
        terminal.close()


def test_a_line_can_be_edited_and_called_back(terminal):
    terminal.type("Nine days, my friemd" + "\x1b[D" + "\x7fn\x05.\r")
    terminal.wait_for("heard 'Nine days, my friend.'.")
    terminal.wait_for("2/8  ")
    terminal.type("\x1b[A\r")
    terminal.wait_for("heard 'Nine days, my friend.'.")
    terminal.wait_for("3/8  ")


def test_a_pasted_text_is_one_turn_whether_the_terminal_marks_it_or_not(terminal):
    terminal.type("\x1b[200~One.\nTwo.\n\nThree.\x1b[201~")
    time.sleep(0.3)
    terminal.type("\r")
    terminal.wait_for(r"heard 'One.\nTwo.\n\nThree.'.")
    terminal.wait_for("2/8  ")
    terminal.type("Four.\nFive.\n\nSix.")
    time.sleep(0.3)
    terminal.type("\r")
    terminal.wait_for(r"heard 'Four.\nFive.\n\nSix.'.")
    terminal.wait_for("3/8  ")


def test_commands_are_no_turns(terminal):
    terminal.type("/help\r")
    shown = terminal.wait_for("1/8  ")
    assert all(command in shown for command in ("/why", "/quit", "silence"))
    terminal.type("/why\r")
    assert "say something first" in terminal.wait_for("1/8  ")
    terminal.type("/hlep\r")
    assert "There is no /hlep" in terminal.wait_for("1/8  ")
    terminal.type("Go on.\r")
    assert "one point down" not in terminal.wait_for("2/8  ")
    terminal.type("/why\r")
    assert "one point down" in terminal.wait_for("2/8  ")
    terminal.type("/quit\r")
    terminal.wait_for("You leave. Noor is at 39.")
    assert terminal.process.wait(10) == 0


def test_one_empty_line_is_no_turn_and_the_second_in_a_row_is_silence(terminal):
    terminal.type("\r")
    shown = terminal.wait_for("1/8  ")
    assert "You said nothing. Enter again to stay silent" in shown
    terminal.type("/why\r")
    terminal.wait_for("1/8  ")
    terminal.type(" \r")
    assert "You said nothing" in terminal.wait_for("1/8  ")
    terminal.type("Go on.\r")
    terminal.wait_for("heard 'Go on.'.")
    terminal.wait_for("2/8  ")
    terminal.type("\r")
    assert "You said nothing" in terminal.wait_for("2/8  ")
    terminal.type("\r")
    assert "You said nothing" not in terminal.wait_for("heard ''.")
    terminal.wait_for("3/8  ")
    terminal.type("\r")
    assert "You said nothing" in terminal.wait_for("3/8  ")


def test_ctrl_c_ends_the_talk_on_a_line_of_its_own(terminal):
    terminal.type("I was about to say")
    terminal.wait_for("about to say")
    time.sleep(0.3)  # the line editor has it by then, not the terminal
    terminal.type("\x03")
    assert re.search(r"\nYou leave\. Noor is at 40\.", terminal.wait_for("is at 40."))
    assert terminal.process.wait(10) == 130


def test_ctrl_c_ends_any_command_with_a_line_that_says_so(tmp_path):
    terminal = Terminal("bench", "--seeds", "200", "--out", str(tmp_path / "run"), cwd=tmp_path)
    try:
        terminal.wait_for("0:00:0")
        terminal.type("\x03")
        assert "Traceback" not in terminal.wait_for("stopped.\r\n")
        assert terminal.process.wait(10) == 130
    finally:
        terminal.close()


def test_lines_of_a_file_are_turns_each(tmp_path):
    (tmp_path / "parrot_user.py").write_text(PARROT, encoding="utf-8")
    words = ["talk", "--persona", PERSONA, "--user", "parrot_user:Parrot"]
    done = run_command(*words, input="One.\nTwo.\n", cwd=tmp_path)
    assert "heard 'One.'." in done.stdout
    assert "heard 'Two.'." in done.stdout
    assert "You leave." in done.stdout


def talk_with(folder, *lines):
    """What a talk without a terminal shows."""
    typed = "\n".join([*lines, "/quit", ""])
    done = run_command("talk", "--persona", PERSONA, input=typed, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_turn_is_taken_back_said_otherwise_and_saved(tmp_path):
    (tmp_path / "mine").write_text("precious")
    shown = talk_with(
        tmp_path, "/undo", "Cheer up!", "/retry", "/retry What happened?", "And then?", "/undo",
        "/save", "/save mine", "/save talk.jsonl", "/save talk.jsonl"
    )  # fmt: skip
    for hint in ("say something first", "/retry WORDS", "/save FILE", "mine is there already"):
        assert hint in shown
    assert shown.count("taken back") == 2
    assert shown.count("Saved as talk.jsonl") == 2
    assert (tmp_path / "mine").read_text() == "precious"
    (line,) = (tmp_path / "talk.jsonl").read_text(encoding="utf-8").splitlines()
    saved = Episode.from_json(line)
    assert (saved.agent, saved.persona) == ("human", PERSONA)
    assert [turn.utterance for turn in saved.turns] == ["What happened?"]


def test_a_saved_talk_is_written_again_when_it_ends(tmp_path):
    shown = talk_with(tmp_path, "You poor thing.", "/save talk.jsonl", *["Whatever."] * 7)
    assert "They wanted: reflection" in shown
    saved = Episode.from_json((tmp_path / "talk.jsonl").read_text(encoding="utf-8"))
    assert saved.outcome is not None
    assert len(saved.turns) > 1


def test_a_saved_talk_is_written_again_when_you_leave(tmp_path):
    talk_with(tmp_path, "You poor thing.", "/save talk.jsonl", "And then?")
    saved = Episode.from_json((tmp_path / "talk.jsonl").read_text(encoding="utf-8"))
    assert [turn.utterance for turn in saved.turns] == ["You poor thing.", "And then?"]


@pytest.mark.parametrize("opens", ["card", "model"])
def test_a_user_that_fails_is_an_error_with_its_reason_and_no_change_of_0(opens):
    with ChatServer("I cannot help with that.") as server:
        told = ("--user", "openai:m", "--user-option", f"base_url={server.base_url}")
        told += ("--user-option", f"opening={opens}", "--persona", PERSONA)
        done = [run_command("appraise", *told, "Hello there.")]
        done += [run_command("talk", *told)] if opens == "model" else []
    for one in done:
        assert one.returncode == 2
        assert "m gave no usable answer" in one.stderr
        assert "larger model" in " ".join(one.stderr.split())
