"""What comes from outside: files, JSON and text, read within bounds and shown without being
obeyed.
"""

import io
import os
import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlver_gym import RlverError
from rlver_gym.util.errors import CardError
from rlver_gym.util.files import path_inside, read_bytes, read_lines, read_text
from rlver_gym.util.json_text import dump_json, parse_json, parse_wire_json
from rlver_gym.util.terminal import SafeConsole, one_line, printable


def test_a_regular_file_is_read_whole_and_a_link_to_one_too(tmp_path):
    (tmp_path / "a").write_text("Grüße\n", encoding="utf-8")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert read_text(tmp_path / "b", max_bytes=100, error=CardError) == "Grüße\n"
    assert list(read_lines(tmp_path / "a", error=CardError)) == [(1, "Grüße")]


def test_a_file_over_the_bound_is_refused_without_reading_it_all(tmp_path):
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)  # sparse: a terabyte that takes no place
    with pytest.raises(CardError, match="larger than 1 MiB"):
        read_bytes(tmp_path / "huge", max_bytes=1 << 20, error=CardError)
    with pytest.raises(CardError, match="line 1: longer than 8 MiB"):
        list(read_lines(tmp_path / "huge", error=CardError))


def test_a_file_of_many_lines_is_bounded_as_a_whole_too(tmp_path):
    (tmp_path / "lines").write_text("12345\n" * 1000, encoding="utf-8")
    assert len(list(read_lines(tmp_path / "lines", error=CardError, max_bytes=6000))) == 1000
    with pytest.raises(CardError, match="larger than 5 KiB"):
        list(read_lines(tmp_path / "lines", error=CardError, max_bytes=5999))


def test_a_path_that_leads_out_of_its_folder_is_refused(tmp_path):
    folder = tmp_path / "theirs"
    (folder / "people").mkdir(parents=True)
    (tmp_path / "secret").write_text("mine", encoding="utf-8")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    (folder / "circle").symlink_to(folder / "circle")
    (folder / "good").symlink_to(folder / "people")
    (tmp_path / "mine").symlink_to(folder)
    for parts in (("link",), ("up", "secret"), ("..", "secret"), ("/etc/passwd",)):
        with pytest.raises(CardError, match="leads out of the folder"):
            path_inside(folder, *parts, error=CardError)
    assert path_inside(folder, "good", "a.yaml", error=CardError) == folder / "good" / "a.yaml"
    assert path_inside(tmp_path / "mine", "people", error=CardError) == tmp_path / "mine" / "people"


@pytest.mark.timeout(100)
def test_pipes_devices_sockets_and_folders_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        for name, kind in {"pipe": "a pipe", "zero": "a device", ".": "a folder"}.items():
            with pytest.raises(CardError, match=f"it is {kind}, not a regular file"):
                read_bytes(tmp_path / name, max_bytes=10, error=CardError)
        with pytest.raises(CardError, match="cannot be read"):
            read_bytes(tmp_path / "door", max_bytes=10, error=CardError)


def test_a_missing_file_bad_bytes_and_a_path_with_nul_are_errors_of_the_callers_kind(tmp_path):
    (tmp_path / "latin").write_bytes(b"ok\ncaf\xe9\n")
    says = r"cannot be read \(No such file or directory\). Look there."
    with pytest.raises(CardError, match=says):
        read_text(tmp_path / "none", max_bytes=10, error=CardError, hint="Look there.")
    with pytest.raises(CardError, match="line 2: not UTF-8 text"):
        list(read_lines(tmp_path / "latin", error=CardError))
    with pytest.raises(CardError, match="cannot be read"):
        read_text(tmp_path / "a\0b", max_bytes=10, error=CardError)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "deep"),
        ("[" * 65 + "]" * 65, "deep"),
        ('{"a":' * 65 + "1" + "}" * 65, "deep"),
        ('{"a":1,"a":2}', "'a' stands twice"),
        ("1" * 19, "more than 18 digits"),
        ("-" + "1" * 4999, "more than 18 digits"),
        ("1e999", "too large"),
        ("[NaN]", "NaN is no JSON number"),
        ("-Infinity", "no JSON number"),
        (r'"\ud800"', "surrogate"),
        (r'{"\udfff": 1}', "surrogate"),
        (b'"\xff"', "not UTF-8"),
        ("{", "Expecting"),
        ("", "Expecting"),
    ],
)
def test_json_that_is_not_small_flat_and_unambiguous_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        parse_json(text)


def test_the_number_of_values_of_a_server_is_bounded():
    assert parse_wire_json(b"[1,2,3]", 3) == [1, 2, 3]
    with pytest.raises(ValueError, match="more than 2 values"):
        parse_wire_json(b"[1,2,3]", 2)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'{"a": "one\ntwo\t\x00"}', {"a": "one\ntwo\t\x00"}),
        (b"\xef\xbb\xbf[1]", [1]),
        ('["é"]'.encode("utf-16"), ["é"]),
        (b"[1e999, -Infinity]", [float("inf"), float("-inf")]),
        (b"[" + b"9" * 30 + b"]", [float("9" * 30)]),
        (b"[-" + b"9" * 10_000 + b"]", [float("-inf")]),
        (rb'"\ud800"', "\ud800"),
    ],
)
def test_what_most_decoders_take_from_a_server_is_taken_and_nowhere_else(content, value):
    assert parse_wire_json(content, 100) == value
    with pytest.raises(ValueError, match=r"."):
        parse_json(content)


@pytest.mark.parametrize("content", [b"[" * 65 + b"]" * 65, b"[" * 100_000, b'"\xff"', b"{", b""])
def test_what_no_decoder_takes_from_a_server_is_refused(content):
    with pytest.raises(ValueError, match=r"."):
        parse_wire_json(content, 200_000)


def test_a_key_that_stands_twice_is_found_in_one_pass_over_many_keys():
    keys = [*(f'"k{number}": 0' for number in range(80_000)), '"k79999": 0']
    began = time.process_time()
    with pytest.raises(ValueError, match="'k79999' stands twice"):
        parse_json("{" + ", ".join(keys) + "}")
    assert time.process_time() - began < 10


def test_json_within_the_bounds_is_what_the_standard_parser_gives():
    assert parse_json('{"a": [1, -2.5, "\\ud83d\\ude00", null]}') == {"a": [1, -2.5, "😀", None]}
    assert parse_json("[" * 64 + "]" * 64) is not None
    assert parse_json("[NaN]", allow_nan=True)[0] != parse_json("[NaN]", allow_nan=True)[0]


@given(st.text())
def test_printable_text_holds_no_character_that_a_terminal_obeys_and_keeps_its_length(text):
    shown = printable(text)
    assert len(shown) == len(text)
    assert printable(shown) == shown
    assert not any(char < " " and char not in "\n\t" for char in shown)
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    shown.encode()


def test_names_and_emoji_with_joiners_are_text():
    for text in ("👩‍👧 café, naïve, 你好", "می‌خواهم"):
        assert printable(text) == text


def test_one_line_is_cut_with_an_ellipsis():
    assert one_line("a\n\tb  c") == "a b c"
    assert one_line("x" * 50, max_chars=10) == "x" * 9 + "…"


def test_an_error_of_the_package_never_prints_what_it_quotes_as_a_command():
    told = str(RlverError("the server says \x1b]0;owned\x07"))
    assert told == "the server says \ufffd]0;owned\ufffd"


def test_the_console_shows_markup_and_escapes_instead_of_obeying_them():
    out = io.StringIO()
    console = SafeConsole(file=out, force_terminal=True, color_system="standard", width=80)
    console.print("[bold]no[/nope] \x1b[2J\x9b31m :smile:", style="red")
    text = out.getvalue()
    assert "[bold]no[/nope] \ufffd[2J\ufffd31m :smile:" in text
    assert text.startswith("\x1b[31m")


def test_json_for_a_terminal_holds_no_commands_and_means_the_same():
    said = ["caf\xe9 \u4f60\u597d \U0001f642", "\x7f\x9b31m", "\u202egnp.exe", "\U000e0041"]
    value = {"says\x1b[2J": said}
    text = dump_json(value)
    assert printable(text) == text
    assert "caf\xe9 \u4f60\u597d \U0001f642" in text
    assert parse_json(text) == value
    assert "\\udc9b" in dump_json("\udc9b")
