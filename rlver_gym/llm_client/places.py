"""How many requests may be under way at once: as many as allowed until the server is overloaded,
then half of those that are, then slowly more.
"""

import asyncio


class Places:
    """A semaphore whose limit moves. It starts at its maximum, because a server that can do the
    work should never be left idle; one that cannot shows it at once. Belongs to one event loop.

    After an overload it grows by one for each answer to half as many again, so that a passing
    overload costs little, and from there by one for as many answers as there are places.
    """

    def __init__(self, limit: int) -> None:
        """`limit`: to begin with, and never to exceed."""
        self.limit = self._most = self._safe = limit
        self._free = asyncio.Semaphore(limit)
        self._surplus = 0
        """Places that are not given again when they become free."""
        self.round = 0
        """How often the server was overloaded."""
        self._num_answers = self._taken = 0

    async def take(self) -> int:
        """Wait for a place, first come, first served. Returns the round that it belongs to."""
        await self._free.acquire()
        self._taken += 1
        return self.round

    def leave(self) -> None:
        """Give the place back."""
        self._taken -= 1
        self._free_one()

    def _free_one(self) -> None:
        if self._surplus:
            self._surplus -= 1
        else:
            self._free.release()

    async def record_overload(self, round_: int, divide_by: int = 2) -> None:
        """Lower the limit to the places that are taken, divided: once for all requests of a round.
        Only for one who has a place.
        """
        if round_ != self.round:
            return
        self.round, self._num_answers = self.round + 1, 0
        too_many = min(self.limit, self._taken)
        fewer = max(1, too_many // divide_by)
        self._surplus += self.limit - fewer
        self._safe, self.limit = too_many * 3 // (2 * divide_by), fewer
        while self._surplus and not self._free.locked():
            await self._free.acquire()  # one that nobody has: at once
            self._surplus -= 1

    def record_answer(self) -> None:
        """Raise the limit when it is time to."""
        self._num_answers += 1
        if self.limit < self._most and (self.limit < self._safe or self._num_answers >= self.limit):
            self.limit, self._num_answers = self.limit + 1, 0
            self._free_one()
