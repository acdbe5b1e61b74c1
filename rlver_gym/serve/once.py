"""Work that is done once, however often it is asked for. Knows no episodes."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

from rlver_gym.serve.problems import Refusal

T = TypeVar("T")


class Once(Generic[T]):
    """Work that is done once for each request id. Whoever asks again gets the same result, also
    while the work is under way. Failed work is forgotten, and may be tried again.
    """

    def __init__(self) -> None:
        """Nothing was asked for yet."""
        self._known: dict[str, tuple[object, asyncio.Task[T]]] = {}

    async def run(
        self, request_id: str, content: object, start: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        """What `start` leads to, waited for or not. Refusal for an id that had other content."""
        if request_id not in self._known:
            task = asyncio.create_task(start())
            self._known[request_id] = content, task
            task.add_done_callback(partial(self._forget_failure, request_id))
        known_content, task = self._known[request_id]
        if known_content != content:
            raise Refusal("request-id-used")
        return await asyncio.shield(task)

    def forget(self, request_id: str) -> None:
        """The id means nothing any more."""
        self._known.pop(request_id, None)

    def _forget_failure(self, request_id: str, task: asyncio.Task[T]) -> None:
        if task.cancelled() or task.exception():
            self.forget(request_id)
