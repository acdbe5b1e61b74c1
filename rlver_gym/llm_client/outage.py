"""Whether a server is down. While it is, all requests wait for it and no dialogue fails."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from rlver_gym.io.errors import ServerOutage
from rlver_gym.io.event_loop import REQUEST_ORIGIN
from rlver_gym.llm_client.retries import MAX_WAIT_S, Failure, Kind

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
    it asks, it is asked again after `max_wait_s`. An answer that cannot be
    used says nothing about it, and one dialogue alone never makes an outage. A server that fails
    from the first request on is not waited for: what is wrong with it is hardly that it is down for
    a while.
    """

    def __init__(
        self,
        server: str,
        max_wait_s: float | None,
        attempts: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`server`: its public address. `max_wait_s`: how long an outage is waited for, in seconds;
        None: nothing is an outage. `attempts`: how often a request is tried.
        """
        self.on_change: Callable[[str], None] | None = None
        """Called with a sentence for people when an outage begins, its end is put off, and it ends;
        on the event loop's thread.
        """
        self.count = 0
        """How many outages there were."""
        self._server = server
        self._ignored = max_wait_s is None
        self._max_wait_s = max_wait_s or 0.0
        self._several = min(_SEVERAL, 2 * attempts)
        self._clock = clock
        self._answered_at = clock()
        self._sleep = sleep
        self._answers = 0
        self._failures = 0
        self._dialogues: set[int] = set()
        """Those in which the server has failed since its last answer."""
        self._reason = ""
        self._since: float | None = None
        self._next = 0.0
        """When the server is asked again."""
        self._pause_s = _FIRST_PAUSE_S
        self._asked_until = 0.0
        """What the server's own word comes to, which may be longer than is waited for."""
        self._told: set[int] = set()
        """The dialogues that it asked to wait for longer than is allowed, since its last answer."""

    @property
    def is_down(self) -> bool:
        """Whether the server is down."""
        return self._since is not None

    async def pause(self, *, is_first: bool) -> bool:
        """Wait until the server may be asked; returns whether that is to find out if it is up
        again.

        ServerOutage when that takes too long; but a request that was not tried yet (`is_first`)
        comes later than the wait, and is tried once.
        """
        while self._since is not None:
            now, end = self._clock(), self._since + self._allowed_s
            if now >= self._next and (now < end or is_first):
                return True
            if is_first and now >= end and not self._asked_to_wait:
                return True
            if now >= end or self._asked_until > end:
                raise ServerOutage(self._message())
            await self._sleep(min(self._next - now, end - now, _NAP_S))
        return False

    def record_answer(self) -> bool:
        """Record that the server gave an answer; returns whether that ends an outage."""
        self._answers, self._answered_at = self._answers + 1, self._clock()
        self._failures, self._dialogues, self._told = 0, set(), set()
        if self._since is None:
            return False
        self._tell(f"{self._server} answers again after {self._clock() - self._since:,.0f} s")
        self._since, self._pause_s = None, _FIRST_PAUSE_S
        return True

    def record_failure(self, failure: Failure, *, probing: bool) -> None:
        """Record that an attempt gave no answer.

        `probing`: it was made to find out whether the server is up again.
        """
        if failure.kind in _OF_THE_SERVER:
            origin = REQUEST_ORIGIN.get()
            self._failures += 1
            here = {origin.dialogue} if origin else set()
            self._dialogues |= here
            self._told |= here if (failure.retry_after_s or 0.0) > self._max_wait_s else set()
        if probing and self._since is not None:
            self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
            self._put_off(failure)
            if self._asked_to_wait:
                self._tell(self._notice())

    @property
    def _asked_to_wait(self) -> bool:
        return self._asked_until > 0

    @property
    def _allowed_s(self) -> float:
        """How long this outage is waited for."""
        return self._max_wait_s if self._answers or self._asked_to_wait else 0.0

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
        return (
            not self._ignored
            and REQUEST_ORIGIN.get() is not None
            and failure.kind in _OF_THE_SERVER
        )

    def _is_outage(self, failure: Failure, timeout_s: float) -> bool:
        """Whether the server is down; if so by what is known now, it is from now on."""
        if not self._may_be_outage(failure):
            return False
        if self._since is not None:
            return True
        asked_to_wait = (failure.retry_after_s or 0.0) > min(timeout_s, MAX_WAIT_S)
        believed = asked_to_wait and (not self.is_nonsense(failure) or len(self._told) >= 2)
        if not believed and not self._fails_for_everybody():
            return False
        self._since = self._clock()
        self.count += 1
        self._put_off(failure)
        if self._allowed_s:
            self._tell(self._notice())
        return True

    def _fails_for_everybody(self) -> bool:
        is_quiet = self._clock() - self._answered_at >= _QUIET_S
        return is_quiet and self._failures >= self._several and len(self._dialogues) >= 2

    def _put_off(self, failure: Failure) -> None:
        """Set when the server is asked next: when it says, but never later than is waited for."""
        assert self._since is not None
        pause_s, now = failure.retry_after_s or 0.0, self._clock()
        self._asked_until = now + pause_s if pause_s > self._pause_s else 0.0
        self._reason = failure.reason
        last = max(self._since + self._max_wait_s, now + self._pause_s)
        self._next = min(now + max(pause_s, self._pause_s), last)

    def _notice(self) -> str:
        assert self._since is not None
        last = _clock_time(self._since + self._allowed_s - self._clock())
        if not self._asked_to_wait:
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
            return (
                f"{self._server} gives no usable answer, and has given none before"
                f" ({self._reason})."
            )
        allowed = f"{self._max_wait_s:g} s are allowed (--max-wait, max_wait_s)"
        if self._asked_to_wait:
            return (
                f"{self._server} asks to wait for {self._asked_until - self._clock():,.0f} s"
                f" ({self._reason}), and {allowed}."
            )
        return (
            f"{self._server} has failed since {_clock_time(self._since - self._clock())}"
            f" ({self._reason}), and {allowed}."
        )

    def _tell(self, notice: str) -> None:
        if self.on_change is not None:
            self.on_change(notice)


def _clock_time(in_s: float) -> str:
    """The time of day so many seconds from now, as people here read it; with the day when it is
    another.
    """
    now = datetime.now().astimezone()
    try:
        then = now + timedelta(seconds=in_s)
    except OverflowError:
        return "a time beyond all calendars"
    return then.strftime("%H:%M:%S" if then.date() == now.date() else "%Y-%m-%d %H:%M:%S")
