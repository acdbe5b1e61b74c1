"""One event loop in a thread of its own, so that blocking code, notebooks and threads can all wait for coroutines."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
THREAD = "rlver-gym loop"

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_owner: int | None = None
"""The process that the loop belongs to: after a fork its thread is gone, and the child needs one of its own."""


def _running() -> asyncio.AbstractEventLoop:
    global _loop, _owner
    with _lock:
        if _loop is None or _owner != os.getpid():
            _loop, _owner = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name=THREAD, daemon=True).start()
        return _loop


def begin(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine on the background loop without waiting for it. Cancel the future to stop it."""
    return asyncio.run_coroutine_threadsafe(work, _running())


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and wait for its result; works inside a running event loop too. An interrupt cancels it.

    RuntimeError when called from a coroutine that itself runs on the background loop: it would wait for itself.
    """
    if threading.current_thread().name == THREAD:
        work.close()
        raise RuntimeError("this would wait for itself. Await it, as in `await session.areply(words)`.")
    future = begin(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def there(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine that has to run on the background loop, from whichever loop runs here."""
    home = _running()
    if asyncio.get_running_loop() is home:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, home))


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never has to wait, without any event loop. RuntimeError when it does wait."""
    try:
        work.send(None)
    except StopIteration as finished:
        return finished.value
    work.close()
    raise RuntimeError("this coroutine waits for something; run it on an event loop")
