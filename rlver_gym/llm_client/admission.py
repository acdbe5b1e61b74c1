"""Whether a server is down, which all requests wait for. For one event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from rlver_gym.llm_client.refusals import MAX_WAIT_S, Failure, Kind
from rlver_gym.util.errors import ServerOutage
from rlver_gym.util.request_origin import REQUEST_ORIGIN

_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 30.0
_DOUBT_S, _NAP_S = 2.0, 0.25
"""How long the first dialogue in which the server fails waits for what happens in others."""
_OF_THE_SERVER = (Kind.NO_CONNECTION, Kind.BROKEN, Kind.BUSY)


class Outage:
    """Whether a server is down: requests of two dialogues used up their attempts with no answer
    between, or it asked to wait for too long. It is asked again now and then, and at the latest
    after `max_wait_s`. A server that never answered is not waited for.
    """

    def __init__(
        self,
        server: str,
        max_wait_s: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`server`: its public address. `max_wait_s`: None: nothing is an outage."""
        self.on_change: Callable[[str], None] = lambda notice: None
        """Called with a sentence for people when an outage begins, is put off, and ends."""
        self._server, self._is_ignored = server, max_wait_s is None
        self._max_wait_s, self._clock, self._sleep = max_wait_s or 0.0, clock, sleep
        self._num_answers = 0
        self._gave_up: set[int] = set()
        self._since: float | None = None
        self._reason, self._remedy, self._asked_until = "", "", 0.0
        """`_asked_until`: what the server's own word comes to, however late; 0 without one."""
        self._next, self._pause_s = 0.0, _FIRST_PAUSE_S
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def pause(self, *, is_first: bool) -> AsyncIterator[bool]:
        """Wait until the server may be asked; gives whether that is to find out if it is up again.
        ServerOutage when that takes too long, but not for a request that was not tried yet
        (`is_first`).
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
        while self._since is not None:
            now, end = self._clock(), self._since + self._allowed_s
            is_due = now >= self._next
            is_over = now >= end
            may_ask_once = is_first and (is_due or not self._asked_until)
            if may_ask_once if is_over else is_due:
                return
            if is_over or self._asked_until > end:
                raise ServerOutage(self._explain())
            await self._sleep(min(self._next - now, end - now, _NAP_S))

    def record_answer(self) -> None:
        self._num_answers += 1
        self._gave_up = set()
        if self._since is not None:
            took_s = self._clock() - self._since
            self._since, self._pause_s = None, _FIRST_PAUSE_S
            self.on_change(f"{self._server} answers again after {took_s:,.0f} s")

    def record_failed_probe(self, failure: Failure) -> None:
        if self._since is not None:
            self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
            self._put_off(failure)
            if self._asked_until:
                self._tell()

    async def may_wait(self, failure: Failure, timeout_s: float) -> bool:
        """Whether a request of a dialogue that failed so for the last time may wait for the end of
        an outage. `timeout_s`: how long a request may take. The first to fail waits a moment for
        others to show whether it is alone with that.
        """
        origin = REQUEST_ORIGIN.get()
        if self._is_ignored or origin is None or failure.kind not in _OF_THE_SERVER:
            return False
        self._gave_up.add(origin.dialogue)
        asks = min(timeout_s, MAX_WAIT_S) < (failure.retry_after_s or 0.0) <= self._max_wait_s
        num_answers, end = self._num_answers, self._clock() + _DOUBT_S
        while self._since is None and len(self._gave_up) < 2 and not asks:
            if self._num_answers != num_answers or self._clock() >= end:
                return False
            await self._sleep(_NAP_S)
        if self._since is None:
            self._since = self._clock()
            self._put_off(failure)
            if self._allowed_s:
                self._tell()
        return True

    def is_nonsense(self, failure: Failure) -> bool:
        asked_s = failure.retry_after_s or 0.0
        return not self._is_ignored and bool(REQUEST_ORIGIN.get()) and asked_s > self._max_wait_s

    @property
    def _allowed_s(self) -> float:
        return self._max_wait_s if self._num_answers or self._asked_until else 0.0

    def _put_off(self, failure: Failure) -> None:
        assert self._since is not None
        asked_s, now = failure.retry_after_s or 0.0, self._clock()
        self._asked_until = now + asked_s if asked_s > self._pause_s else 0.0
        self._reason, self._remedy = failure.reason, failure.remedy
        last = max(self._since + self._max_wait_s, now + self._pause_s)
        self._next = min(now + max(asked_s, self._pause_s), last)

    def _tell(self) -> None:
        allowed = f"waiting for it, {self._max_wait_s:g} s at most (--max-wait)"
        self.on_change(f"{self._describe()}: {allowed}")

    def _explain(self) -> str:
        if not self._allowed_s and self._max_wait_s:
            what = "gives no usable answer, and has given none before"
            return f"{self._server} {what} ({self._reason}). {self._remedy}".rstrip()
        allowed = f"{self._max_wait_s:g} s are allowed (--max-wait, max_wait_s)"
        return f"{self._describe()}, and {allowed}."

    def _describe(self) -> str:
        assert self._since is not None
        now = self._clock()
        what = f"has failed for {now - self._since:,.0f} s"
        if self._asked_until:
            what = f"asks to wait for {self._asked_until - now:,.0f} s"
        return f"{self._server} {what} ({self._reason})"
