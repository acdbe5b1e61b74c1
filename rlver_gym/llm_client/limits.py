"""How many requests may be under way at once: as many as allowed until the server objects, then
half, then slowly more.
"""

import asyncio
from collections import deque


class Concurrency:
    """A gate with a limit that moves: halved when the server is overloaded; then one more for each
    success up to three quarters of what was too much, so that a passing overload costs little; from
    there one more after a whole round of successes.

    Those who wait enter in the order they came. It starts at its maximum, because a server that can
    do the work should never be left idle; one that cannot says so at once. Belongs to one event
    loop.
    """

    def __init__(self, most: int) -> None:
        """`most`: the limit to begin with, and never to exceed."""
        self.most = most
        self.limit = most
        self.inside = 0
        self._safe = most
        """Up to here the limit grows fast."""
        self._before: int | None = None
        """The limit before it was narrowed; None while it is not."""
        self._round = 0
        self._successes = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> int:
        """Wait for a place. Returns the round it belongs to, for `record_overload`."""
        if self.inside >= self.limit or self._waiting:
            await self._queue()
        else:
            self.inside += 1
        return self._round

    async def _queue(self) -> None:
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()  # the place was given in the same moment
            elif place in self._waiting:
                self._waiting.remove(place)
            raise

    def leave(self) -> None:
        """Give the place back."""
        self.inside -= 1
        self._admit()

    def record_success(self) -> None:
        """Record an answer, which may raise the limit."""
        self._successes += 1
        if (
            self._before is None
            and self.limit < self.most
            and (self.limit < self._safe or self._successes >= self.limit)
        ):
            self.limit += 1
            self._successes = 0
            self._admit()

    def record_overload(self, round_: int, *, divide_by: int = 2) -> None:
        """Record that the server is overloaded, which halves the limit.

        All requests of one round together halve it only once.
        """
        if round_ == self._round and self._before is None:
            self._safe = self.limit * 3 // 4
            self.limit = max(1, self.limit // divide_by)
            self._round += 1
            self._successes = 0

    def narrow(self) -> None:
        """One at a time from now on, until `widen`: the server is down."""
        self._before, self.limit = self._before or self.limit, 1

    def widen(self) -> None:
        """As many again as before `narrow`."""
        self.limit, self._before = self._before or self.limit, None
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.inside < self.limit:
            place = self._waiting.popleft()
            if not place.done():
                self.inside += 1
                place.set_result(None)
