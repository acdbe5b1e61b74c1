"""An event loop in a thread of its own, and a thread for what would block it."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")
V = TypeVar("V")
THREAD = "rlver-gym loop"


_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}
"""By process: a forked child, which has not the thread of its parent's, gets its own."""
_LOCK = threading.Lock()


def _start_loop() -> asyncio.AbstractEventLoop:
    with _LOCK:
        if os.getpid() not in _LOOPS:
            _LOOPS[os.getpid()] = start_loop(THREAD)
        return _LOOPS[os.getpid()]


def start_loop(thread: str) -> asyncio.AbstractEventLoop:
    """A loop that runs in a thread of that name, whatever its tasks raise."""
    loop = asyncio.new_event_loop()
    Thread(target=_run, args=(loop,), name=thread, daemon=True).start()
    return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        try:
            return loop.run_forever()
        except BaseException:
            pass  # of one task, whose result it is already: others wait for this loop


class BackgroundWork(Generic[T]):
    """A coroutine under way on the background loop, for a thread that waits for it."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._loop, self._process = _start_loop(), os.getpid()
        self._task: asyncio.Task[T] | None = None
        self._ended = threading.Event()
        self._loop.call_soon_threadsafe(self._start, work)

    def result(self) -> T:
        self._ended.wait()
        assert self._task is not None
        return self._task.result()

    def stop(self) -> None:
        """Cancel it, and wait until it has ended: nothing of it acts later."""
        is_lost = self._process != os.getpid() or sys.is_finalizing()
        if self._ended.is_set() or is_lost:
            return  # the loop's thread is not in a forked child, nor at the interpreter's end
        self._loop.call_soon_threadsafe(self._cancel)
        if threading.current_thread().name != THREAD:  # which would wait for itself
            self._ended.wait()

    def _start(self, work: Coroutine[Any, Any, T]) -> None:
        self._task = self._loop.create_task(_contain_exits(work))
        self._task.add_done_callback(self._end)

    def _cancel(self) -> None:
        assert self._task is not None
        self._task.cancel()

    def _end(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # seen: whoever waited may be gone, and asyncio would print it
        self._ended.set()


async def _contain_exits(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise _stand_for(error) from error


class Waits:
    """What the threads that joined wait for on the background loop, to be cancelled from another
    one: signals reach the main thread alone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[BackgroundWork[Any]] = set()
        self._is_over = False

    def join(self) -> None:
        """From now on this thread's waits are among them."""
        _JOINED.waits = self

    def cancel(self) -> None:
        """End them with CancelledError, and those that would begin later."""
        with self._lock:
            self._is_over, running = True, list(self._running)
        for work in running:
            work.stop()

    @contextmanager
    def hold(self, running: BackgroundWork[Any]) -> Iterator[None]:
        """Among them inside the block; once they are over it is ended at once."""
        with self._lock:
            self._running.add(running)
            is_over = self._is_over
        try:
            if is_over:
                running.stop()
            yield
        finally:
            with self._lock:
                self._running.discard(running)


_JOINED = threading.local()


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and wait for its result, inside a running event loop
    too. An interrupt cancels it, and is raised once it has ended; a second one does not wait.
    RuntimeError on the background loop itself.
    """
    if threading.current_thread().name == THREAD:
        work.close()
        raise RuntimeError(
            "this would wait for itself. Await it, as in `await session.areply(words)`."
        )
    running, waits = BackgroundWork(work), getattr(_JOINED, "waits", None)
    try:
        with waits.hold(running) if waits else nullcontext():
            return running.result()
    except BaseException:
        running.stop()
        raise


async def gather_all(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results. When one fails, the others are cancelled first."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def run_many(
    work: Callable[[V], Coroutine[Any, Any, T]], items: Iterable[V], at_once: int
) -> Iterator[T]:
    """What the work gives for each item, in their order, so many under way on the background loop
    at a time. An error, an interrupt, or somebody who has seen enough, ends all others first.
    """
    places = asyncio.Semaphore(at_once)

    async def run_in_place(item: V) -> T:
        async with places:
            return await work(item)

    under_way = [BackgroundWork(run_in_place(item)) for item in items]
    try:
        for running in under_way:
            yield running.result()
    finally:
        for running in reversed(under_way):  # so that no free place is taken by the next
            running.stop()


async def await_on_background_loop(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine that has to run on the background loop, from whichever loop runs here."""
    if asyncio.get_running_loop() is _start_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _start_loop()))


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends; RuntimeError when it does."""
    try:
        work.send(None)
    except StopIteration as finished:
        return finished.value
    work.close()
    raise RuntimeError("this coroutine waits for something; run it on an event loop")


class Worker:
    """Does one thing after the other, and never keeps the process from ending."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = (
            SimpleQueue()
        )
        self._owner: int | None = None

    async def __call__(self, act: Callable[..., T], *arguments: Any) -> T:
        """What `act(*arguments)` gives or raises. Cancelled before its turn, it is not done."""
        return await asyncio.wrap_future(self.submit(act, *arguments))

    def submit(self, act: Callable[..., T], *arguments: Any) -> Future[T]:
        if self._owner != os.getpid():
            if self._owner is not None:  # in a forked child: what was asked is the parent's to do
                self._calls = SimpleQueue()
            self._owner = os.getpid()
            Thread(target=self._work, name="rlver-gym worker", daemon=True).start()
        future: Future[T] = Future()
        self._calls.put((future, act, arguments))
        return future

    def stop(self) -> None:
        self._calls.put(None)

    def _work(self) -> None:
        while self._do(self._calls.get()):
            pass

    def _do(self, call: tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None) -> bool:
        """A call; whether to go on. Nothing of it is kept while the thread waits for the next."""
        if call is None:
            return False
        future, act, arguments = call
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(act(*arguments))
            except StopIteration as error:  # it cannot be raised into a future
                future.set_exception(_stand_for(error))
            except Exception as error:  # anybody's code; whoever asked shall see it
                future.set_exception(error)
            except BaseException as error:  # an exit would end the event loop, on which others wait
                future.set_exception(_stand_for(error))
        return True


def _stand_for(error: BaseException) -> RuntimeError:
    return RuntimeError(f"it raised {type(error).__name__}: {error}")
