"""Which failures are worth another attempt, and how long to wait before it."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import NamedTuple

_FIRST_BACKOFF_S = 0.25
_MAX_BACKOFF_S = 8.0
MAX_WAIT_S = 60.0
"""A server that asks one request to wait for longer is taken to be down for all."""
_MAX_HEADER_CHARS = 64
_MAX_RETRY_AFTER_S = 30 * 86_400.0
"""What a Retry-After means at most: who asks for more has no date in mind."""


class Kind(Enum):
    """What a failed attempt means for the request."""

    NO_CONNECTION = "no_connection"
    """Nobody listens there, or not at this moment."""
    BROKEN = "broken"
    """The server failed, was too slow, or broke off: another attempt may do better."""
    MALFORMED = "malformed"
    """The server answered, but with something unusable: another attempt may do better. Says nothing
    about the server's health.
    """
    BUSY = "busy"
    """The server asks to wait: not a failure, only time limits it."""
    SLOW = "slow"
    """No answer in time, to nobody, while others were under way: fewer at once may be answered. No
    failure.
    """
    DECLINED = "declined"
    """The model or a content filter would not answer these words. One more attempt, since both
    leave much to chance.
    """
    UNUSABLE = "unusable"
    """The server will never answer this one request (too long, forbidden words). Others may be
    fine.
    """
    REFUSED = "refused"
    """The server will not serve such requests at all: a wrong key, no such model."""


class Scope(Enum):
    """How far a refusal reaches."""

    REQUEST = "request"
    """This request as it was sent: without a field it may be answered."""
    DIALOGUE = "dialogue"
    """These words: no later request of the dialogue will be answered either."""
    MODEL = "model"
    """This model with these settings, unless it has answered with them before."""
    ACCOUNT = "account"
    """Everything that is asked with this key."""


class Failure(NamedTuple):
    """Why one attempt gave no answer."""

    kind: Kind
    reason: str
    """For people: a few words of ours."""
    status: int | None = None
    retry_after_s: float | None = None
    """What the server asked for."""
    blames: frozenset[str] = frozenset()
    """Fields of the request that the server seems to object to: it may answer without them."""
    is_guess: bool = False
    """Whether the server names no field, and these are only the likeliest."""
    scope: Scope | None = None
    """How far it reaches, where the server refused."""
    remedy: str = ""
    """What to do about it, in a sentence."""
    quote: str = ""
    """The server's own words, which may hold anything. `excerpts.mask_failure` makes them part of
    the reason.
    """


NOT_FAILED = (Kind.BUSY, Kind.SLOW)
"""What says nothing against the request: being told to wait, and waiting behind others."""


class RetryPolicy(NamedTuple):
    """How long and how often to try.

    Waits are drawn evenly from 0 to a bound that doubles (full jitter).
    """

    attempts: int
    random: Callable[[], float]
    """A number in [0, 1). It decides waits and nothing else."""

    def wait_s(
        self, failures: Sequence[Failure], never_answered: bool, left_s: float
    ) -> float | None:
        """How long to wait after these failures, the last of which is new; None when they are
        enough, or the wait would outlive `left_s`.

        `never_answered`: the server has never answered anything, so it hardly pays to wait for it.
        """
        last = failures[-1]
        busy = sum(failure.kind is Kind.BUSY for failure in failures)
        failed = sum(failure.kind not in NOT_FAILED for failure in failures)
        if last.kind is Kind.SLOW:
            return 0.0
        if last.kind is Kind.BUSY:
            wait = self._draw_backoff_s(busy) + (last.retry_after_s or 0.0)
        elif failed >= self._max_failures(last.kind, never_answered):
            return None
        elif last.kind is Kind.NO_CONNECTION and never_answered:
            wait = min(self._draw_backoff_s(failed) / 2, left_s / 4)
        else:
            wait = max(min(self._draw_backoff_s(failed), left_s / 4), last.retry_after_s or 0.0)
        return wait if wait < left_s and (last.retry_after_s or 0.0) <= MAX_WAIT_S else None

    def _max_failures(self, kind: Kind, never_answered: bool) -> int:
        """How many failed attempts are enough."""
        if kind in (Kind.UNUSABLE, Kind.REFUSED):
            return 1
        if kind is Kind.DECLINED:
            return min(self.attempts, 2)
        return (
            min(self.attempts, 3)
            if kind is Kind.NO_CONNECTION and never_answered
            else self.attempts
        )

    def _draw_backoff_s(self, n: int) -> float:
        return self.random() * min(_MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** min(n - 1, 16))


def retry_after_s(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks to wait, 30 days at most: it holds seconds or an HTTP
    date. None when it says nothing usable.
    """
    if not header or len(header) > _MAX_HEADER_CHARS:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            at = parsedate_to_datetime(header)
            seconds = (
                at.replace(tzinfo=at.tzinfo or UTC) - (now or datetime.now(UTC))
            ).total_seconds()
        except (ValueError, OverflowError):  # no date, or one that no calendar has
            return None
    return min(max(0.0, seconds), _MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None


def summarise_failures(failures: Sequence[Failure]) -> str:
    """The reasons in one line, in the order they first came up, each with how often.

    How often the server asked to wait is left out: it differs from run to run, and equal runs
    should say the same.
    """
    counts = Counter((failure.reason, failure.kind in NOT_FAILED) for failure in failures)
    return "; ".join(
        f"{reason} ({count}×)" if count > 1 and not busy else reason
        for (reason, busy), count in counts.items()
    )
