"""The terminal: text for people, in which it obeys nothing from outside, tables, progress bars, and
what they are asked. Whatever the terminal is, and where there is none.
"""

import codecs
import io
import json
import os
import re
import select
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

SECONDS_BETWEEN_LINES = 5.0
"""Of progress where there is no terminal."""


class SafeConsole(Console):
    """Rich's console for text from outside: no markup unless asked for, nothing to obey. What the
    encoding of a terminal lacks is shown by the nearest that it has.
    """

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
        """Rows, their heading first, and a line for each note. The first column is bold and one
        line a cell; columns of figures stand right.

        No word and no figure is broken: where there is no room for them, columns of figures stand
        below each other, and other rows are lists of what stands under which heading.
        """
        heading, *body = ([one_line(row[0]), *map(printable, row[1:])] for row in rows)
        columns = [_Column.of(cells) for cells in zip(heading, *body, strict=True)]
        if title:
            self.print(Text(one_line(title), style="bold"))
        tables = _arrange_columns(columns, self.width) or [_make_list(heading, body)]
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
        return fit_encoding(printable(text), self.encoding)


_GAP, _NARROW_GAP = 2, 1
"""Blanks between columns; the other one where it lets all of them stand beside each other."""
_WORD = re.compile(r"[^\W\d_]{3}")


class _Column(NamedTuple):
    """A column of a table; `least` and `most` are how wide it can be, in cells of the terminal."""

    name: str
    cells: tuple[str, ...]
    is_text: bool
    least: int
    most: int

    @classmethod
    def of(cls, column: Sequence[str]) -> "_Column":
        name, *cells = column
        is_text = 2 * sum(map(bool, map(_WORD.search, cells))) > sum(map(bool, cells))
        pieces = [*name.split(), *(word for cell in cells for word in _split_cell(cell, is_text))]
        lines = (line for cell in column for line in cell.split("\n"))
        widths = (max(map(cell_len, texts), default=0) for texts in (pieces, lines))
        return cls(name, tuple(cells), is_text, *widths)


def _split_cell(cell: str, is_text: bool) -> list[str]:
    """What of it cannot be broken."""
    return cell.split() if is_text else cell.split("\n")


def _arrange_columns(columns: Sequence[_Column], width: int) -> list[Table | Text]:
    """One table, or several below each other, the first column in each; none where there is no room
    even for one other column, or for text.
    """
    first, *others = columns
    first = first._replace(least=first.most)
    for gap in (_GAP, _NARROW_GAP):
        if _has_room([first, *others], width, gap):
            return [_make_columns([first, *others], width, gap)]
    if any(column.is_text for column in others):
        return []
    parts: list[list[_Column]] = []
    for column in others:
        if not _has_room([first, column], width):
            return []
        if not parts or not _has_room([*parts[-1], column], width):
            parts.append([first])
        parts[-1].append(column)
    return [_make_columns(part, width) for part in parts]


def _has_room(columns: Sequence[_Column], width: int, gap: int = _GAP) -> bool:
    return sum(column.least for column in columns) + gap * (len(columns) - 1) <= width


def _make_columns(columns: Sequence[_Column], width: int, gap: int = _GAP) -> Table:
    """A table without lines. What is left of the width goes where it is narrowest."""
    widths = [column.least for column in columns]
    most = sum(column.most for column in columns)
    room = min(width - gap * (len(columns) - 1), most)
    while sum(widths) < room:
        narrow = [at for at, column in enumerate(columns) if widths[at] < column.most]
        widths[min(narrow, key=widths.__getitem__)] += 1
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(
            Text(column.name),
            style="" if number else "bold",
            justify="left" if column.is_text else "right",
            width=widths[number],
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, cells))
    return table


def _make_list(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Text:
    text = Text()
    for first, *others in rows:
        text.append(f"{first}\n", style="bold")
        for name, cell in zip(heading[1:], others, strict=True):
            if cell.strip():
                text.append(f"  {' '.join(name.split())}: {cell}\n")
    text.rstrip()
    return text


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
    """`printable`, on one line; longer than `max_chars` it is cut, with an ellipsis at the end.

    The limit goes by name: pydantic before 2.8 gives a second argument to validators that take two.
    """
    line = " ".join(printable(text[: 4 * max_chars] if max_chars else text).split())
    return line if max_chars is None or len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def escape_markdown(text: str) -> str:
    """One line, cut as `one_line` does, that Markdown and HTML show as it is."""
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
    return "".join(one if one.isascii() else "?" for one in text), error.end


def _replace_by_json_escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_SHOW_NEAREST, _replace_by_nearest)
codecs.register_error(_ESCAPE_JSON, _replace_by_json_escape)


def fit_encoding(text: str, encoding: str, errors: str = _SHOW_NEAREST) -> str:
    """The text with what an encoding lacks replaced."""
    return text if encoding.startswith("utf") else text.encode(encoding, errors).decode(encoding)


def print_text(text: str, *, is_json: bool = False) -> None:
    """Text on standard output as it is, not broken into lines. `is_json`: what the encoding lacks
    is escaped so that it is the same JSON.
    """
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    print(
        fit_encoding(printable(text), encoding, _ESCAPE_JSON if is_json else _SHOW_NEAREST),
        flush=True,
    )


def prepare_terminal() -> None:
    """Make the standard streams of this process fit for a command: there, whatever the shell has
    closed, with an encoding that fails at no character, and as wide as a terminal can be.
    """
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


def can_ask() -> bool:
    """Whether somebody is at a terminal to answer."""
    return bool(sys.stdin and sys.stdin.isatty())


_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_PASTE_GAP_S = 0.05
"""Lines that come faster than this were not typed."""


def read_utterance(console: Console, prompt: Text) -> str:
    """What was typed after the prompt, or pasted: then it may have several lines.

    Without a terminal, one line. EOFError at the end of input.
    """
    if not can_ask() or not sys.stdout.isatty():
        console.print(prompt, end="")
        if sys.stdin is None:
            raise EOFError
        return input()
    lines = [input(_render_prompt(console, prompt))]
    while _is_input_pending():
        lines.append(input())
    return "\n".join(lines)


def _render_prompt(console: Console, prompt: Text) -> str:
    """The prompt as `input` takes it: the line editor counts its cells, and must know which
    characters take none.
    """
    with console.capture() as shown:
        console.print(prompt, end="", soft_wrap=True)
    return _STYLE.sub("\x01\\g<0>\x02", shown.get()) if _enable_line_editing() else shown.get()


def _enable_line_editing() -> bool:
    """Whether `input` lets people edit the line, from now on."""
    try:
        import readline  # noqa: PLC0415 (it speaks to the terminal when it is imported)
    except ImportError:
        return False
    readline.parse_and_bind("set enable-bracketed-paste on")  # Python turns it off
    return True


def _is_input_pending() -> bool:
    """Whether the next line is there already, as the rest of a paste is in terminals that do not
    mark pastes.
    """
    if sys.platform == "win32":
        return False
    return bool(select.select([sys.stdin], [], [], _PASTE_GAP_S)[0])


class LongWork(Progress):
    """A progress bar; where there is no terminal, a line of text every few seconds."""

    _told_at = 0.0

    def start(self) -> None:
        self._told_at = time.monotonic()
        super().start()

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._tell(task_id)

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        self._tell(task_id)

    def _tell(self, task_id: TaskID) -> None:
        now = time.monotonic()
        if self.console.is_terminal or now - self._told_at < SECONDS_BETWEEN_LINES:
            return
        self._told_at = now
        task = self._tasks[task_id]
        total = "" if task.total is None else f" of {task.total:,.0f}"
        self.console.print(f"{task.description.strip()}: {task.completed:,.0f}{total}")


def progress_bar(*columns: ProgressColumn, quiet: bool = False) -> Progress:
    """A bar that goes away when the work is done; `quiet`: nothing is printed on its console."""
    shown = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    return LongWork(*shown, *columns, console=SafeConsole(stderr=True, quiet=quiet), transient=True)
