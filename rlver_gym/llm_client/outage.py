"""Whether a server is down. While it is, all requests wait for it and no dialogue fails."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta

from rlver_gym.io.errors import ServerOutage
from rlver_gym.io.event_loop import REQUEST_ORIGIN
from rlver_gym.llm_client.refusals import MAX_WAIT_S, Failure, Kind

_SEVERAL, _QUIET_S = 6, 1.0
"""So many failures (fewer where a request has few attempts), in at least two dialogues, with no
answer between them nor for so long, make an outage.
"""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 30.0
_DOUBT_S = 2.0
"""How long the first dialogue in which the server fails waits for what happens in others."""
_NAP_S = 0.25
"""After this the one who waits looks up: another's answer may have changed everything."""
_OF_THE_SERVER = (Kind.NO_CONNECTION, Kind.BROKEN, Kind.BUSY)


class Outage:
    """The state of one server: up, or down since some moment. Belongs to one event loop.

    Down means that the server failed several times in at least two dialogues without an answer
    between, or that it asked to wait for longer than a request may take; for longer than
    `max_wait_s` only where it asks two dialogues so, since one such word may be nonsense. Whatever
    it asks, it is asked again after `max_wait_s`. A server that fails from the first request on is
    not waited for: what is wrong with it is hardly that it is down for a while.
    """

    def __init__(
        self,
        server: str,
        max_wait_s: float | None,
        attempts: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`server`: its public address. `max_wait_s`: None: nothing is an outage. `attempts`: how
        often a request is tried.
        """
        self.on_change: Callable[[str], None] | None = None
        """Called with a sentence for people when an outage begins, is put off, and ends."""
        self.count = 0
        """How many outages there were."""
        self._server, self._is_ignored = server, max_wait_s is None
        self._max_wait_s, self._several = max_wait_s or 0.0, min(_SEVERAL, 2 * attempts)
        self._clock, self._sleep = clock, sleep
        self._answers, self._answered_at = 0, clock()
        self._failures = 0
        self._dialogues: set[int] = set()
        """Those in which the server has failed since its last answer."""
        self._told: set[int] = set()
        """Those that it asked to wait for longer than is allowed, since its last answer."""
        self._reason, self._since = "", None
        self._turn = asyncio.Lock()
        self._next, self._pause_s = 0.0, _FIRST_PAUSE_S
        """When the server is asked again."""
        self._asked_until = 0.0
        """What the server's own word comes to, which may be longer than is waited for; else 0."""

    @asynccontextmanager
    async def pause(self, *, is_first: bool) -> AsyncIterator[bool]:
        """Wait until the server may be asked; gives whether that is to find out if it is up again,
        which one request does at a time. ServerOutage when that takes too long; but a request that
        was not tried yet (`is_first`) comes later than the wait, and is tried once.
        """
        async with AsyncExitStack() as turn:
            if self._since is not None:
                await turn.enter_async_context(self._turn)
                await self._wait(is_first)
            is_probe = self._since is not None
            if not is_probe:
                await turn.aclose()
            yield is_probe

    async def _wait(self, is_first: bool) -> None:
        while (since := self._since) is not None:
            now, end = self._clock(), since + self._allowed_s
            is_over, is_due = now >= end, now >= self._next
            if is_due if not is_over else is_first and (is_due or not self._asked_until):
                return
            if is_over or self._asked_until > end:
                raise ServerOutage(self._message())
            await self._sleep(min(self._next - now, end - now, _NAP_S))

    def record_answer(self) -> None:
        """Record that the server gave an answer."""
        self._answers, self._answered_at = self._answers + 1, self._clock()
        self._failures, self._dialogues, self._told = 0, set(), set()
        if self._since is not None:
            self._tell(f"{self._server} answers again after {self._clock() - self._since:,.0f} s")
            self._since, self._pause_s = None, _FIRST_PAUSE_S

    def record_failure(self, failure: Failure, *, is_probe: bool) -> None:
        """Record that an attempt gave no answer. An unusable one says nothing about the server."""
        if failure.kind in _OF_THE_SERVER:
            origin = REQUEST_ORIGIN.get()
            here = {origin.dialogue} if origin else set()
            self._failures += 1
            self._dialogues |= here
            self._told |= here if (failure.retry_after_s or 0.0) > self._max_wait_s else set()
        if is_probe and self._since is not None:
            self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
            self._put_off(failure)
            if self._asked_until:
                self._tell(self._notice())

    async def may_wait(self, failure: Failure, timeout_s: float) -> bool:
        """Whether a request that failed so for the last time may wait for the end of an outage
        instead. `timeout_s`: how long a request may take.

        For the first to fail this takes a moment: whether it is alone with that, others have to
        show. Only requests of dialogues wait: who asks for a single answer gets the error.
        """
        answers, end = self._answers, self._clock() + _DOUBT_S
        while not self._is_outage(failure, timeout_s):
            if not self._may_be_outage(failure) or self._answers != answers or self._clock() >= end:
                return False
            await self._sleep(_NAP_S)
        return True

    def is_nonsense(self, failure: Failure) -> bool:
        """Whether a server that is not down asked a dialogue to wait for longer than is allowed."""
        return self._may_be_outage(failure) and (failure.retry_after_s or 0.0) > self._max_wait_s

    def _may_be_outage(self, failure: Failure) -> bool:
        is_asked_for = not self._is_ignored and REQUEST_ORIGIN.get() is not None
        return is_asked_for and failure.kind in _OF_THE_SERVER

    def _is_outage(self, failure: Failure, timeout_s: float) -> bool:
        """Whether the server is down; if so by what is known now, it is from now on."""
        if not self._may_be_outage(failure) or self._since is not None:
            return self._may_be_outage(failure)
        asked_to_wait = (failure.retry_after_s or 0.0) > min(timeout_s, MAX_WAIT_S)
        is_believed = asked_to_wait and (not self.is_nonsense(failure) or len(self._told) >= 2)
        is_quiet = self._clock() - self._answered_at >= _QUIET_S
        for_all = is_quiet and self._failures >= self._several and len(self._dialogues) >= 2
        if not is_believed and not for_all:
            return False
        self._since = self._clock()
        self.count += 1
        self._put_off(failure)
        if self._allowed_s:
            self._tell(self._notice())
        return True

    @property
    def _allowed_s(self) -> float:
        """How long this outage is waited for."""
        return self._max_wait_s if self._answers or self._asked_until else 0.0

    def _put_off(self, failure: Failure) -> None:
        """Set when the server is asked next: when it says, but never later than is waited for."""
        assert self._since is not None
        asked_s, now = failure.retry_after_s or 0.0, self._clock()
        self._asked_until = now + asked_s if asked_s > self._pause_s else 0.0
        self._reason = failure.reason
        last = max(self._since + self._max_wait_s, now + self._pause_s)
        self._next = min(now + max(asked_s, self._pause_s), last)

    def _notice(self) -> str:
        assert self._since is not None
        last = _clock_time(self._since + self._allowed_s - self._clock())
        if not self._asked_until:
            return (
                f"{self._server} fails ({self._reason}): waiting for it until {last} at most"
                " (--max-wait)"
            )
        then = _clock_time(self._asked_until - self._clock())
        return (
            f"{self._server} asks to wait ({self._reason}): going on at {then}, if that is before"
            f" {last} (--max-wait)"
        )

    def _message(self) -> str:
        assert self._since is not None
        if not self._allowed_s and self._max_wait_s:
            what = "gives no usable answer, and has given none before"
            return f"{self._server} {what} ({self._reason})."
        allowed = f"{self._max_wait_s:g} s are allowed (--max-wait, max_wait_s)"
        what = f"has failed since {_clock_time(self._since - self._clock())}"
        if self._asked_until:
            what = f"asks to wait for {self._asked_until - self._clock():,.0f} s"
        return f"{self._server} {what} ({self._reason}), and {allowed}."

    def _tell(self, notice: str) -> None:
        if self.on_change is not None:
            self.on_change(notice)


def _clock_time(in_s: float) -> str:
    """The time of day so many seconds from now, with the day when it is another."""
    now = datetime.now().astimezone()
    try:
        then = now + timedelta(seconds=in_s)
    except OverflowError:
        return "a time beyond all calendars"
    return then.strftime("%H:%M:%S" if then.date() == now.date() else "%Y-%m-%d %H:%M:%S")
