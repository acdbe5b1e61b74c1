"""Tables for a terminal of any width: no word and no figure is broken."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

_GAP, _NARROW_GAP = 2, 1
"""Blanks between columns; the other one where it lets all of them stand beside each other."""
_WORD = re.compile(r"[^\W\d_]{3}")


def make_tables(rows: Iterable[Sequence[str]], width: int) -> list[Table | Text]:
    """Tables or a list of the rows, their heading first; columns of figures stand right."""
    heading, *body = rows
    columns = [_Column.of(cells) for cells in zip(heading, *body, strict=True)]
    return _arrange_columns(columns, width) or [_make_list(heading, body)]


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
        apart = None if is_text else "\n"
        pieces = [*name.split(), *(word for cell in cells for word in cell.split(apart))]
        lines = (line for cell in column for line in cell.split("\n"))
        widths = (max(map(cell_len, texts), default=0) for texts in (pieces, lines))
        return cls(name, tuple(cells), is_text, *widths)


def _arrange_columns(columns: Sequence[_Column], width: int) -> list[Table | Text]:
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
    # The gaps are columns: rich before 14.3 takes room for padding behind the last one.
    table = Table(box=None, padding=0)
    for number, column in enumerate(columns):
        if number:
            table.add_column(width=gap)
        table.add_column(
            Text(column.name),
            style="" if number else "bold",
            justify="left" if column.is_text else "right",
            width=widths[number],
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        first, *others = map(Text, cells)
        table.add_row(first, *(text for cell in others for text in ("", cell)))
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
