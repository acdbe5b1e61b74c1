"""Whole dialogues, and moments with several replies, appraised by any user, many at once where it
waits for a server.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from rlver_gym.core.dialogue import Appraisal, Dialogue
from rlver_gym.core.user import (
    AsyncSentientUser,
    Moment,
    Scene,
    SentientUser,
    aappraise_many,
    appraise_many,
    is_async_user,
)
from rlver_gym.environment.rescore import areappraise, reappraise
from rlver_gym.util.errors import UserFailed
from rlver_gym.util.event_loop import run_many
from rlver_gym.util.request_origin import make_requests_for, number_dialogue

T = TypeVar("T")
V = TypeVar("V")
_AT_ONCE = 256
"""More than a client has under way: its `concurrency` says how many requests are."""


class Excerpt(NamedTuple):
    """A whole dialogue, or a moment with several replies to it."""

    scene: Scene
    dialogue: Dialogue
    """Whole, or up to the moment."""
    replies: tuple[str, ...] | None = None
    """To the moment, at which the emotion is that of the card's start; None: whole."""


class Failure(NamedTuple):
    """Why a user could not be asked about an excerpt."""

    why: str


def appraise_excerpts(
    user: SentientUser, excerpts: Sequence[Excerpt]
) -> Iterator[list[Appraisal] | Failure]:
    """What each utterance of each dialogue, and each reply to each moment did, in their order; one
    that the user fails at is no end of the others. Raises the ChatErrors that stop a run.

    A user behind a server that can reads each dialogue whole, in one request.
    """
    if is_async_user(user):
        work = partial(_aappraise, cast(AsyncSentientUser, user))
        yield from attempt_many(work, excerpts)
        return
    for excerpt in excerpts:
        try:
            felt = _appraise(user, excerpt)
        except UserFailed as failure:
            yield _describe(failure)
        else:
            yield felt


def attempt_many(
    work: Callable[[V], Coroutine[Any, Any, T]], items: Iterable[V]
) -> Iterator[T | Failure]:
    """What the work gives for each item, in their order, many at once, or why the user failed.
    What failed, perhaps earlier, is tried once more past the cache.
    """

    async def attempt(item: V) -> T | Failure:
        number = number_dialogue()
        try:
            with make_requests_for(number):
                return await work(item)
        except UserFailed:
            try:
                with make_requests_for(number, attempt=number):
                    return await work(item)
            except UserFailed as failure:
                return _describe(failure)

    yield from run_many(attempt, items, _AT_ONCE)


def _appraise(user: SentientUser, excerpt: Excerpt) -> list[Appraisal]:
    if excerpt.replies is not None:
        return appraise_many(user, _list_moments(excerpt))
    return [turn.appraisal for turn in reappraise(user, excerpt.scene, excerpt.dialogue)]


async def _aappraise(user: AsyncSentientUser, excerpt: Excerpt) -> list[Appraisal]:
    if excerpt.replies is not None:
        return await aappraise_many(user, _list_moments(excerpt))
    felt = await areappraise(user, excerpt.scene, excerpt.dialogue)
    return [turn.appraisal for turn in felt]


def _list_moments(excerpt: Excerpt) -> list[Moment]:
    scene, dialogue, replies = excerpt
    start = scene.card.start
    return [Moment(scene, start, dialogue.with_utterance(reply)) for reply in replies or ()]


def _describe(failure: UserFailed) -> Failure:
    return Failure(str(failure) or "it failed")
