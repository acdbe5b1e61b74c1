"""Code that is not ours: it may block, exit, raise or never return; its caller goes on."""

import asyncio
import importlib
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from rlver_gym.util.errors import RlverError, UnknownName
from rlver_gym.util.event_loop import Worker, start_loop
from rlver_gym.util.lookalikes import look_alike, strip_invisible
from rlver_gym.util.terminal import one_line

T = TypeVar("T")
_MAX_CHARS = 300
_LIVENESS_TIMEOUT_S = 1.0


class CodeFailed(Exception):
    """Code of somebody's own raised or exited. The message says what, and in which line."""


class CodeTimeout(Exception):
    """Code of somebody's own did not return in time; its thread is abandoned."""


class CodeRunner:
    """Calls code in a thread of its own, one call at a time, each for `timeout_s` seconds at most:
    then the thread is abandoned, since Python cannot end it, and the next call gets a new one.
    """

    def __init__(self, timeout_s: float | None) -> None:
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
            self._loop = start_loop("rlver-gym own code loop")
        future = asyncio.run_coroutine_threadsafe(_convert_errors(act, arguments), self._loop)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.timeout_s)
        except TimeoutError:
            if not await _is_loop_alive(self._loop):
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


async def _is_loop_alive(loop: asyncio.AbstractEventLoop | None) -> bool:
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


def is_own_name(name: str, reserved: Collection[str]) -> bool:
    """Whether the name has the form MODULE:NAME, with none of the reserved words as the module."""
    module, _, attribute = name.partition(":")
    parts = (attribute, *module.split("."))
    return module not in reserved and all(part.isidentifier() for part in parts)


def check_name(
    what: str,
    name: str,
    names: Sequence[str],
    forms: str,
    reserved: Collection[str],
    *,
    is_known: bool,
) -> None:
    """UnknownName for what no agent or user (`what`) is called: neither `is_known`, nor MODULE:NAME
    without what nobody sees and without a module that can be taken for a `reserved` word. `names`
    are looked through for one that was meant, `forms` tells all. Nothing is imported.
    """
    if name != one_line(strip_invisible(name)):
        raise UnknownName(f"the {what} {name[:80]!r} has signs in its name that nobody sees.")
    if is_known:
        return
    if not is_own_name(name, reserved):
        raise UnknownName.of(what, name, names, forms)
    for word in reserved:
        if look_alike(name, word) or look_alike(name.partition(":")[0], word):
            raise UnknownName(
                f"the {what} {name[:80]} can be taken for {word}. Give its module another name."
            )


def import_own(what: str, name: str, error: type[RlverError]) -> ModuleType:
    """The module of MODULE:NAME, from the current directory too. `error` when it fails."""
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.insert(0, os.getcwd())
    module = name.partition(":")[0]
    try:
        return importlib.import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # a module may raise anything when it is imported
        why = f"{describe_error(problem)}). Mend its module, or install what it imports."
        missing = problem.name if isinstance(problem, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            why = (
                f"there is no module {missing!r} in {os.getcwd()} or on PYTHONPATH). Start the"
                " command in the folder that holds it, or add that folder to PYTHONPATH; a file"
                " NAME.py is the module NAME."
            )
        raise error(f"the {what} {name} cannot be imported ({why}") from problem


def make_own(what: str, name: str, error: type[RlverError], hint: str, /, **options: Any) -> Any:
    """What MODULE:NAME makes of the options. `error` when it is not there or makes nothing."""
    module = import_own(what, name, error)
    factory = getattr(module, name.partition(":")[2], None)
    if not callable(factory):
        place = module.__file__ or "its module"
        raise error(
            f"the {what} {name} is not there: {place} has no class or function of that name. {hint}"
        )
    try:
        return factory(**options)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # anybody's code
        raise error(
            f"the {what} {name} cannot be made ({describe_error(problem)}). {hint}"
        ) from problem


def _find_place(error: BaseException) -> str:
    """Where it was raised, in brackets, in the caller's own code; "" for nowhere."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places = [(error.filename, error.lineno)]
    places = [place for place in places if not place[0].startswith(_CALLERS)]
    own = [
        place
        for place in places
        if not place[0].startswith(_LIBRARIES) and "-packages" not in place[0]
    ]
    return "".join(f" ({one_line(file)}, line {line})" for file, line in (own or places)[-1:])


_CALLERS = ("<frozen ", f"{Path(importlib.__file__).parent}{os.sep}", __file__)
_LIBRARIES = (f"{Path(__file__).parent.parent}{os.sep}", f"{Path(os.__file__).parent}{os.sep}")
