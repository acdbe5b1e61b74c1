"""The terminal: text for people, in which it obeys nothing from outside."""

import codecs
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from rlver_gym.util.tables import make_tables


class SafeConsole(Console):
    """Rich's console for text from outside: no markup, nothing to obey, whatever the encoding."""

    def __init__(self, **options: Any) -> None:
        environ = _without_impossible_width(os.environ)
        usual = {"markup": False, "emoji": False, "highlight": False, "_environ": environ}
        super().__init__(**{**usual, **options})

    def print_line(self, *parts: str | Text | tuple[str, str], style: str = "") -> None:
        """Text, or parts of it with their styles, that the terminal breaks."""
        self.print(Text.assemble(*parts, style=style), soft_wrap=True)

    def print_table(
        self, rows: Iterable[Sequence[str]], title: str = "", notes: Iterable[str] = ()
    ) -> None:
        """Rows, their heading first, and a line for each note. No word and no figure is broken:
        where there is no room, columns of figures stand below each other, and other rows become
        lists.
        """
        shown = ([one_line(row[0]), *map(printable, row[1:])] for row in rows)
        tables = make_tables(shown, self.width)
        if title:
            self.print(Text(one_line(title), style="bold"))
        for number, table in enumerate(tables):
            if number:
                self.print()
            self.print(table)
        for note in notes:
            self.print_line(one_line(note))

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=self._fit(segment.text))

    def _fit(self, text: str) -> str:
        return _fit_encoding(printable(text), self.encoding)


COMMANDS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What a terminal or a browser obeys instead of showing: control characters but tab and line feed,
marks that turn the direction of writing, invisible tags, lone surrogates. Joiners are text: names
and emoji need them.
"""
REPLACEMENT = "\ufffd"


def printable(text: str) -> str:
    """The text, with U+FFFD for all that a terminal would obey but line feeds and tabs."""
    return COMMANDS.sub(REPLACEMENT, text)


def one_line(text: str, *, max_chars: int | None = None) -> str:
    """`printable`, on one line; longer than `max_chars` it is cut, with an ellipsis at the end."""
    line = " ".join(printable(text[: 4 * max_chars] if max_chars else text).split())
    return line if max_chars is None or len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def escape_markdown(text: str) -> str:
    """One line that Markdown and HTML show as it is."""
    line = one_line(text)
    return re.sub(r"([\\`*_\[\]<>#|~$&]|:(?=//)|(?<=www)\.)", r"\\\1", line)


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """The number with its noun: "1 seed", "1,944 dialogues"; `plural` where an s is not enough."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


_NEAREST = str.maketrans(
    {
        **dict.fromkeys("─━—–‐‑−", "-"),
        **dict.fromkeys("“”„«»", '"'),
        **dict.fromkeys("‘’‚", "'"),
        **dict.fromkeys("│┃", "|"),
        **dict.fromkeys("╭╮╰╯├┤", "+"),
        **dict.fromkeys("•·×", "*"),
        "…": ".",
        "→": ">",
        "\xa0": " ",
    }
)
_SHOW_NEAREST, _ESCAPE_JSON = "rlver_gym.nearest", "rlver_gym.json"
"""What is written for characters that an encoding lacks."""


def _replace_by_nearest(error: UnicodeError) -> tuple[str, int]:
    """One character for each, so that columns stay columns."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_NEAREST)
    return "".join(char if char.isascii() else "?" for char in text), error.end


def _replace_by_json_escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_SHOW_NEAREST, _replace_by_nearest)
codecs.register_error(_ESCAPE_JSON, _replace_by_json_escape)


def _fit_encoding(text: str, encoding: str, errors: str = _SHOW_NEAREST) -> str:
    return text if encoding.startswith("utf") else text.encode(encoding, errors).decode(encoding)


def print_text(text: str, *, is_json: bool = False) -> None:
    """Text on standard output, unbroken. `is_json`: escaped so that it is the same JSON."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    print(
        _fit_encoding(printable(text), encoding, _ESCAPE_JSON if is_json else _SHOW_NEAREST),
        flush=True,
    )


def prepare_terminal() -> None:
    """Make this process's standard streams open, wide enough, and unable to fail at a character."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # else the next file that is opened takes its descriptor
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(nothing, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if mode == "r" else _SHOW_NEAREST)
    if _without_impossible_width(os.environ) is not os.environ:
        del os.environ["COLUMNS"]


def _without_impossible_width(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment, but for a COLUMNS in which nothing could be shown."""
    width = environ.get("COLUMNS", "1")
    is_width = width.isascii() and width.isdecimal() and int(width) > 0
    return environ if is_width else {**environ, "COLUMNS": ""}
