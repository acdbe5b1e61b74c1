"""Ctrl-C, heard for certain. A KeyboardInterrupt that arrives in a callback of the interpreter (a finalizer, a weak reference) is lost there; long work
therefore asks now and then whether there was one."""

from types import FrameType

_heard = False


def heard(number: int, frame: FrameType | None) -> None:
    """The handler of SIGINT: raise, and remember."""
    global _heard
    _heard = True
    raise KeyboardInterrupt


def check() -> None:
    """Raise KeyboardInterrupt when there was one before."""
    if _heard:
        raise KeyboardInterrupt
