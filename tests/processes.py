"""Which process started which, for tests that kill some of them."""

from collections.abc import Iterator
from pathlib import Path


def ancestors(pid: int) -> Iterator[int]:
    """The process that started this one, and so on, up to the first."""
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return
        yield pid
