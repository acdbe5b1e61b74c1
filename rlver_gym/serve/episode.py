"""One episode of a server, and what answers say of it."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from rlver_gym.core.dialogue import Turn
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.info import PRIVILEGED, describe_turn, select_info
from rlver_gym.environment.session import AppraisedReplies, EmpathySession
from rlver_gym.serve.messages import RepliesAnswer, StepAnswer
from rlver_gym.serve.problems import Refusal

T = TypeVar("T")


class Once(Generic[T]):
    """Work done once for each request id; all who ask get its result. Failed work is forgotten."""

    def __init__(self) -> None:
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
        self._known.pop(request_id, None)

    def _forget_failure(self, request_id: str, task: asyncio.Task[T]) -> None:
        if task.cancelled() or task.exception():
            self.forget(request_id)


@dataclass
class Episode:
    """One that has begun. Its state is the session's: a value that changes at the end of a turn."""

    id: str
    request_id: str
    session: EmpathySession
    last_used: float
    is_answering: bool = False
    steps: Once[StepAnswer] = field(default_factory=Once)
    appraisals: Once[RepliesAnswer] = field(default_factory=Once)
    appraised: tuple[str, AppraisedReplies] | None = None
    """The replies to this turn that were appraised last, with the id of the request."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        return self.session.dialogue.turns

    def describe(self, turn: Turn | None, *, privileged: bool) -> dict[str, Any]:
        """What answers say of it after this turn, or the opening (None); `privileged`: all."""
        session = self.session
        info = describe_turn(session, turn, 0)
        failed = session.outcome is Outcome.FAILED
        shown = info if privileged else select_info(info, "public", session.scene.card)
        hidden = {name: shown[name] for name in PRIVILEGED if name in shown}
        return {
            "episode_id": self.id,
            "env": session.scene.card.id,
            "persona": info["persona"],
            "scene_seed": session.scene.seed,
            "turn": info["turn"],
            "next_turn": None if session.outcome else info["turn"] + 1,
            "terminated": session.outcome is not None and not failed,
            "truncated": failed,
            "outcome": info["outcome"],
            "valid": info["valid"],
            "privileged": hidden or None,
        }
