"""Text for people, in which a terminal obeys nothing from outside; progress bars."""

import re
import time
from collections.abc import Iterable, Sequence
from typing import Any

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
    """Rich's console for text from outside: no markup unless asked for, nothing to obey."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    def print_line(self, *parts: str | Text | tuple[str, str], style: str = "") -> None:
        """Text, or parts of it with their styles, that the terminal breaks."""
        self.print(Text.assemble(*parts, style=style), soft_wrap=True)

    def print_table(
        self, rows: Iterable[Sequence[str]], title: str = "", notes: Iterable[str] = ()
    ) -> None:
        """Rows, their heading first, and a line for each note. The first column is bold and one
        line a cell; columns of figures stand right.
        """
        heading, *body = rows
        table = make_table(one_line(title))
        for number, name in enumerate(heading):
            is_text = any(_WORD.search(row[number]) for row in body)
            table.add_column(
                Text(name),
                style="" if number else "bold",
                justify="left" if is_text else "right",
                overflow="fold" if number else "ellipsis",
            )
        for first, *others in body:
            table.add_row(Text(one_line(first)), *map(Text, others))
        self.print(table)
        for note in notes:
            self.print_line(one_line(note))

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


COMMANDS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What a terminal or a browser obeys instead of showing: control characters but tab and line feed,
marks that turn the direction of writing, invisible tags, lone surrogates. Joiners are text: names
and emoji need them.
"""
REPLACEMENT = "\ufffd"
_WORD = re.compile(r"[^\W\d_]{3}")


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


def make_table(title: str = "", *, gap: int = 2) -> Table:
    """A table without lines, its columns `gap` blanks apart."""
    return Table(
        title=Text(title) if title else None,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, gap, 0, 0),
    )


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
