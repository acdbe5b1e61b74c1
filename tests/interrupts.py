"""Stops and kills at a chosen place, and SIGINT for programs that tests start."""

import os
import signal
from contextlib import contextmanager


@contextmanager
def heeding_ctrl_c():
    """What is started here heeds SIGINT, which shells have ignored in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Killed(Exception):
    """Nobody is prepared for it."""


def end_in(patch, place, ending):
    """Have that call of a function of a module killed, or a signal sent there; what is raised."""
    module, name, at = place
    do, calls = getattr(module, name), []

    def end_and_do(*given, **named):
        calls.append(name)
        if len(calls) == at and ending == "killed":
            raise Killed
        if len(calls) == at:
            os.kill(os.getpid(), signal.Signals[ending])
        return do(*given, **named)

    patch.setattr(module, name, end_and_do)
    return Killed if ending == "killed" else KeyboardInterrupt
