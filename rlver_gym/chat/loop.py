"""One event loop in a thread of its own, so that blocking code, notebooks and threads can all wait for coroutines."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_owner: int | None = None
"""The process that the loop belongs to: after a fork its thread is gone, and the child needs one of its own."""


def _running() -> asyncio.AbstractEventLoop:
    global _loop, _owner
    with _lock:
        if _loop is None or _owner != os.getpid():
            _loop, _owner = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="rlver-gym", daemon=True).start()
        return _loop


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and wait for its result; works inside a running event loop too. An interrupt cancels it.

    Not to be called from a coroutine that itself runs on the background loop: it would wait for itself.
    """
    future = asyncio.run_coroutine_threadsafe(work, _running())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never has to wait, without any event loop. RuntimeError when it does wait."""
    try:
        work.send(None)
    except StopIteration as finished:
        return finished.value
    work.close()
    raise RuntimeError("this coroutine waits for something; run it on an event loop")
