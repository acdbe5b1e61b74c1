"""The progress bar of long work, on standard error."""

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rlver_gym.io.terminal import SafeConsole


def progress_bar(*, quiet: bool = False) -> Progress:
    """A bar that goes away when the work is done; `quiet`: none, and nothing else is printed on its console."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=SafeConsole(stderr=True, quiet=quiet), transient=True)
