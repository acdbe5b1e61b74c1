"""Code that is not ours: it may block, exit, raise or never return; its caller goes on."""

import asyncio
import importlib
import inspect
import os
import sysconfig
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import TimeoutError as FutureTimeout
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from rlver_gym.io.errors import RlverError
from rlver_gym.io.event_loop import Worker
from rlver_gym.io.terminal import one_line

T = TypeVar("T")
_MAX_CHARS = 300
_LIVENESS_TIMEOUT_S = 1.0


class CodeFailed(Exception):
    """Code of somebody's own raised or exited. The message says what, and in which line."""


class CodeTimeout(Exception):
    """Code of somebody's own did not return in time; its thread is abandoned."""


class CodeRunner:
    """Calls code in a thread of its own, one call at a time, each for `timeout_s` seconds at most.

    After a timeout the thread is abandoned (Python cannot end it), and the next call gets a new
    one. No thread keeps the process from ending.
    """

    def __init__(self, timeout_s: float | None) -> None:
        """`timeout_s`: None for no limit."""
        self.timeout_s = timeout_s
        self._worker: Worker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, act: Callable[..., T], *arguments: Any) -> T:
        """What `act(*arguments)` gives; an RlverError, CodeFailed for others, or CodeTimeout."""
        self._worker = self._worker or Worker()
        future = self._worker.submit(_run, act, arguments)
        try:
            return future.result(self.timeout_s)
        except FutureTimeout:
            self._abandon_thread()
            raise CodeTimeout(self._too_long()) from None

    async def acall(self, act: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """As `call`, for coroutine functions, on one loop of their own, replaced when blocked."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            Thread(
                target=_run_loop, args=(self._loop,), name="rlver-gym own code loop", daemon=True
            ).start()
        future = asyncio.run_coroutine_threadsafe(_convert_errors(act, arguments), self._loop)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.timeout_s)
        except TimeoutError:
            if not await _responds(self._loop):
                self._loop = None
            raise CodeTimeout(self._too_long()) from None

    def _abandon_thread(self) -> None:
        if self._worker:
            self._worker.stop()
        self._worker = None

    __del__ = _abandon_thread

    def _too_long(self) -> str:
        return f"no answer within {self.timeout_s:g} s"


def _run(act: Callable[..., T], arguments: tuple[Any, ...]) -> T:
    try:
        return act(*arguments)
    except RlverError:
        raise
    except BaseException as error:  # anybody's code: an exit must not end the thread unheard
        raise CodeFailed(describe_error(error)) from None


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    while True:  # what a task of somebody's own raises, such as SystemExit, ends run_forever
        try:
            loop.run_forever()
        except BaseException:
            continue
        return


async def _responds(loop: asyncio.AbstractEventLoop | None) -> bool:
    """Whether the loop goes on, and is not blocked by what runs on it."""
    if loop is None:
        return False
    sign = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop))
    return bool((await asyncio.wait([sign], timeout=_LIVENESS_TIMEOUT_S))[0])


async def _convert_errors(act: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]) -> T:
    task = asyncio.current_task()
    try:
        return await act(*arguments)
    except RlverError:
        raise
    except BaseException as error:  # as above
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise CodeFailed(describe_error(error)) from None


def describe_error(error: BaseException) -> str:
    """The error's kind, message and place on one line, whatever it does when printed."""
    if isinstance(error, RuntimeError) and isinstance(
        error.__cause__, StopIteration | StopAsyncIteration
    ):
        error = error.__cause__  # what Python makes of one that is raised in a coroutine
    try:
        text = error.msg if isinstance(error, SyntaxError) and error.filename else str(error)
        message = one_line(text, max_chars=_MAX_CHARS)
    except BaseException:
        message = "its message cannot be printed"
    place = _find_place(error)
    return (
        f"{type(error).__name__}: {message}{place}" if message else f"{type(error).__name__}{place}"
    )


def locate_definition(thing: Any) -> str:
    """Where a class, function or method is defined, in brackets; "" when that is not known."""
    try:
        file, line = inspect.getsourcefile(thing), inspect.getsourcelines(thing)[1]
    except Exception:  # anybody's code
        return ""
    return _format_place(file, line) if file else ""


def _find_place(error: BaseException) -> str:
    """Where it was raised, in brackets: in the caller's own code, where that called a library; ""
    for what was raised outside of all code, such as a module that is not there.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return _format_place(error.filename, error.lineno)
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [one for one in frames if not one.filename.startswith((_PACKAGE, *_IMPORT_SYSTEM))]
    own = [one for one in theirs if not one.filename.startswith(_library_folders())]
    ours = [one for one in frames[-1:] if one.filename.startswith(_PACKAGE)]
    found = own or theirs or ours
    return _format_place(found[-1].filename, found[-1].lineno) if found else ""


def _format_place(file: str, line: int | None) -> str:
    return f" ({one_line(file)}, line {line})"


_PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"
_IMPORT_SYSTEM = ("<frozen ", f"{Path(importlib.__file__).parent}{os.sep}")


@cache
def _library_folders() -> tuple[str, ...]:
    """Where the standard library and installed packages lie."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in names)
