"""A thread for what would block an event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Does one thing after the other, in the order asked. It never keeps the process from ending, whatever it is doing."""

    def __init__(self) -> None:
        """The thread begins with the first thing to do."""
        self._asked: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        self._thread: Thread | None = None

    async def __call__(self, act: Callable[..., T], *arguments: Any) -> T:
        """What `act(*arguments)` gives or raises. Cancelled before its turn, it is not done at all."""
        if self._thread is None:
            self._thread = Thread(target=self._work, name="rlver-gym worker", daemon=True)
            self._thread.start()
        future: Future[T] = Future()
        self._asked.put((future, act, arguments))
        return await asyncio.wrap_future(future)

    def stop(self) -> None:
        """End the thread once what was asked so far is done."""
        self._asked.put(None)

    def _work(self) -> None:
        while asked := self._asked.get():
            future, act, arguments = asked
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(act(*arguments))
            except Exception as error:  # anybody's code; whoever asked shall see it
                future.set_exception(_raisable(error))
            except BaseException as error:  # an exit would end the event loop, on which others wait
                future.set_exception(RuntimeError(f"it raised {type(error).__name__}: {error}"))


def _raisable(error: Exception) -> Exception:
    """The error, or what stands for it: a StopIteration cannot be raised into a future."""
    return RuntimeError("it raised StopIteration") if isinstance(error, StopIteration) else error
