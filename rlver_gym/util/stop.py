"""Ctrl-C and SIGTERM for work that has to end whole."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_NOTICE = b"\nstopping at the end of this step. Once more stops at once.\n"
_ECHO_S = 1.0
"""Launchers pass a signal on that the terminal has given everybody already."""


class StopRequested(KeyboardInterrupt):
    """A stop where everything is whole."""


@contextmanager
def handle_stops(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Call the handler for Ctrl-C and SIGTERM unless ignored; in the main thread alone."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def exit_at_once(number: int, frame: FrameType | None) -> None:
    """A handler for while modules are imported, where nothing can be lost: a KeyboardInterrupt that
    passes code made from text, as dataclasses are, ends Python by SIGINT, whatever the exit code.
    """
    print("\nstopped.", file=sys.stderr, flush=True)
    os._exit(130)


class StopSignals:
    """Ctrl-C and SIGTERM in steps: the first one is noted, and raises StopRequested where a step is
    `interruptible` or the next such begins; another one raises KeyboardInterrupt at once.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._requested_at = 0.0
        self._is_interruptible = False

    @contextmanager
    def listen(self) -> Iterator[None]:
        with handle_stops(self._handle):
            yield

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.is_requested:
            self.is_requested, self._requested_at = True, now
            if self._is_interruptible:
                raise StopRequested
            os.write(2, _NOTICE)
        elif now > self._requested_at + _ECHO_S:
            raise KeyboardInterrupt

    @contextmanager
    def interruptible(self, agree: Callable[[bool], bool] | None = None) -> Iterator[None]:
        """A step that changes nothing which is kept. `agree`: whether any of several processes was
        stopped; they go through the step together then, and stop before the next.
        """
        try:
            self._is_interruptible = agree is None
            if self.is_requested if agree is None else agree(self.is_requested):
                raise StopRequested
            yield
        finally:
            self._is_interruptible = False
