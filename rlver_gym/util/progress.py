"""How far long work is: a bar on a terminal, elsewhere a line of text now and then."""

import time
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from rlver_gym.util.terminal import SafeConsole

SECONDS_BETWEEN_LINES = 5.0
"""Of progress where there is no terminal."""


class _LongWork(Progress):
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
    return _LongWork(
        *shown, *columns, console=SafeConsole(stderr=True, quiet=quiet), transient=True
    )
