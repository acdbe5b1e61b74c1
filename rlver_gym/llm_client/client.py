"""Asks an OpenAI-compatible server: many requests at once, each with a deadline, a bounded number
of attempts and a price.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from rlver_gym.io.errors import ChatError, ServerRefused, ServerUnreachable
from rlver_gym.llm_client import wire
from rlver_gym.llm_client.excerpts import mask
from rlver_gym.llm_client.outage import Outage
from rlver_gym.llm_client.places import Places
from rlver_gym.llm_client.refusals import MAX_WAIT_S, Failure, Kind, Scope, classify_http_error
from rlver_gym.llm_client.settings import ChatSettings, public_url, resolve_settings
from rlver_gym.llm_client.spending import Spending, estimate_tokens
from rlver_gym.llm_client.transport import (
    Transport,
    Unusable,
    explain_no_connection,
    http,
    is_unconnected,
)
from rlver_gym.llm_client.values import ChatAnswer, ChatRequest

_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 0.25, 8.0
_DEAD_AFTER = 10
"""Failed connections in a row after which a server that once answered is taken for dead."""
_MAX_OUTAGES = 3
"""So many a request waits for; one that fails still is at fault itself."""
_MAX_SLOW = 6
"""So often a request is late among others to whom nothing is answered either; then it has
failed.
"""
_NAP_S = 0.1
_TOO_LATE = "no answer in time"
_ALIVE = (Kind.DECLINED, Kind.UNUSABLE, Kind.REFUSED)
"""Failures that only a server that is up can bring about."""
_NOT_FAILED = (Kind.BUSY, Kind.SLOW)
"""What says nothing against the request: being told to wait, and being late with all others."""
_SLOWED = 4
"""By what the requests under way are divided when none of them was answered in time."""


@dataclass
class _Call:
    """How far a request has come."""

    left_s: float
    """The time that its attempts and the pauses between them may still take."""
    left_out: frozenset[str]
    """Fields that its model does not take."""
    failures: list[Failure] = field(default_factory=list)
    """Since it began, or since the last outage."""
    is_first: bool = True
    outages: set[int] = field(default_factory=set)
    """Those that it has waited for."""

    @property
    def num_failed(self) -> int:
        """How many attempts failed."""
        return sum(failure.kind not in _NOT_FAILED for failure in self.failures)

    def count(self, kind: Kind) -> int:
        """How many attempts ended so."""
        return sum(failure.kind is kind for failure in self.failures)


@dataclass
class _Attempt:
    """One that is under way, and since when the server can have worked on it."""

    timeout_s: float
    since: float
    limit: asyncio.Timeout


class ChatClient:
    """A Chat that sends requests to a server. One for each server; `connect` shares it.

    The time of a request begins when it gets its place among `concurrency` of them, and an
    attempt's again whenever the server answers one that was sent before it: who waits for their
    turn does not fail, and fewer are sent at once then. Nor does anybody fail in an outage of the
    server, which all requests wait for, `max_wait_s` at most. What a model does not take (a JSON
    schema, a temperature, the system role) is left out from then on.

    ServerRefused, ServerUnreachable, ServerOutage and BudgetSpent concern every request and should
    stop a run; any other ChatError only this one. Once a model has answered with some settings,
    what it refuses with them is the one request.
    """

    def __init__(
        self,
        settings: ChatSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`random` decides only how long to wait between attempts. ServerRefused without a key that
        is needed.
        """
        self.settings = resolve_settings(settings or ChatSettings())
        self.spending = Spending(self.settings.prices, self.settings.budget)
        self.public_url, attempts = public_url(self.settings), self.settings.attempts
        self.outage = Outage(self.public_url, self.settings.max_wait_s, attempts, clock, sleep)
        self._transport = Transport(self.settings)
        self.places = Places(self.settings.concurrency)
        self._clock, self._sleep, self._random = clock, sleep, random
        self._has_answered, self._unconnected = False, 0
        omitted = frozenset(self.settings.omit)
        self._omitted = omitted | ({"max_completion_tokens"} if "max_tokens" in omitted else set())
        self._left_out: dict[str, frozenset[str]] = {}
        """Fields that a model of this server does not take."""
        self._answered: set[tuple[object, ...]] = set()
        """Models with settings with which they have answered."""
        self._open = Counter[tuple[object, ...]]()
        """Requests with these settings that are not refused yet."""
        self._under_way: dict[int, _Attempt] = {}
        """In the order in which they were sent."""
        self._num_sent = self._num_answers = 0

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The server's answer. See the class for errors."""
        result = await self._result(request)
        if isinstance(result, ChatError):
            raise result  # not where it happened: that frame holds the headers with the key
        return result

    async def close(self) -> None:
        """Close all connections. The next request opens new ones."""
        await self._transport.close()

    async def _result(self, request: ChatRequest) -> ChatAnswer | ChatError:
        settings = _settings_of(request)
        self._open[settings] += 1
        try:
            result = await self._complete(request)
        finally:
            self._open[settings] -= 1
        if not isinstance(result, ServerRefused) or not result.if_answered:
            return result
        end = self._clock() + self.settings.timeout_s
        while settings not in self._answered and self._open[settings] and self._clock() < end:
            await self._sleep(_NAP_S)
        return ChatError(result.if_answered) if settings in self._answered else result

    async def _complete(self, request: ChatRequest) -> ChatAnswer | ChatError:
        known = self._left_out.get(request.model, frozenset())
        call = _Call(self.settings.timeout_s, self._omitted | known)
        while True:
            result = await self._try(request, call)
            if isinstance(result, ChatAnswer):
                self._answered.add(_settings_of(request))
                known = self._left_out.get(request.model, frozenset())
                self._left_out[request.model] = call.left_out | known
                return result
            if not await self._prepare_retry(request, result, call):
                return self._error(request, call.failures)

    async def _try(self, request: ChatRequest, call: _Call) -> ChatAnswer | Failure:
        """One attempt, as soon as there is a place for it and the server is up."""
        round_ = await self.places.take()
        try:
            async with self.outage.pause(is_first=call.is_first) as is_probe:
                self.spending.attempt(call.is_first)
                call.is_first = False
                result, is_late = await self._attempt(request, call, round_)
                if isinstance(result, Failure):
                    result = self._mask(result, request)
                if isinstance(result, ChatAnswer) or result.kind in _ALIVE:
                    self.outage.record_answer()
                else:
                    self.outage.record_failure(result, is_probe=is_probe)
            is_overload = is_late or (isinstance(result, Failure) and result.kind in _NOT_FAILED)
            if is_overload and not is_probe:
                is_slow = isinstance(result, Failure) and result.kind is Kind.SLOW
                await self.places.record_overload(round_, _SLOWED if is_slow else 2)
            elif isinstance(result, ChatAnswer):
                self.places.record_answer()
        finally:
            self.places.leave()
        return result

    async def _attempt(
        self, request: ChatRequest, call: _Call, round_: int
    ) -> tuple[ChatAnswer | Failure, bool]:
        """Send it, for as long as an attempt may take from the moment its turn has come. Tells also
        whether it had to wait for its turn for longer than that.
        """
        is_last = call.num_failed + 1 >= self.settings.attempts
        timeout_s = self.settings.attempt_timeout_s or call.left_s * (1 if is_last else 2 / 3)
        self._num_sent = number = self._num_sent + 1
        limit = asyncio.timeout(min(timeout_s, call.left_s))
        began, answers, is_alone = self._clock(), self._num_answers, not self._under_way
        attempt = self._under_way[number] = _Attempt(timeout_s, began, limit)
        try:
            async with limit:
                result = await self._send(request, call.left_out)
        except TimeoutError:
            is_broken = (
                (is_alone and len(self._under_way) == 1)
                or self.settings.attempt_timeout_s is not None
                or (answers != self._num_answers and round_ == self.places.round)
                or call.count(Kind.SLOW) >= _MAX_SLOW
            )
            result = Failure(Kind.BROKEN if is_broken else Kind.SLOW, _TOO_LATE)
        finally:
            del self._under_way[number]
        now = self._clock()
        if isinstance(result, ChatAnswer) or result.kind in _ALIVE:
            self._num_answers += 1
            for other, behind in self._under_way.items():
                if other > number and not behind.limit.expired():
                    loop_time = asyncio.get_running_loop().time()
                    behind.limit.reschedule(loop_time + behind.timeout_s)
                    behind.since = now
        if isinstance(result, ChatAnswer) or result.kind is not Kind.SLOW:
            call.left_s -= now - attempt.since
        return result, isinstance(result, ChatAnswer) and now - began > timeout_s

    async def _send(self, request: ChatRequest, left_out: frozenset[str]) -> ChatAnswer | Failure:
        try:
            response = await self._transport.post(wire.build_body(request, left_out))
        except Unusable as unusable:
            self._has_answered, self._unconnected = True, 0
            return unusable.failure
        except http.HTTPError as error:
            if not is_unconnected(error):
                return Failure(Kind.BROKEN, "the connection broke off")
            self._unconnected += 1
            remedy = explain_no_connection(error, self.settings.base_url or "")
            return Failure(Kind.NO_CONNECTION, "no connection", remedy=remedy)
        self._has_answered, self._unconnected = True, 0
        if not 200 <= response.status < 300:
            texts = [message.content for message in request.messages]
            return classify_http_error(response.status, response.content, response.headers, texts)
        kind = response.headers.get("content-type", "").partition(";")[0]
        return self._count(request, wire.parse_answer(response.content, kind))

    def _count(self, request: ChatRequest, answer: wire.ParsedAnswer) -> ChatAnswer | Failure:
        """Count the tokens of an answer: estimated, where the server does not say how many."""
        result, prompt, completion = answer
        text = result.text if isinstance(result, ChatAnswer) else ""
        is_counted = prompt > 0 and (completion > 0 or not text)
        if not is_counted and isinstance(result, ChatAnswer):
            prompt = prompt or estimate_tokens(*(one.content for one in request.messages))
            completion = completion or estimate_tokens(text)
            result = result._replace(prompt_tokens=prompt, completion_tokens=completion)
        self.spending.tokens(prompt, completion, is_estimate=not is_counted)
        return result

    async def _prepare_retry(self, request: ChatRequest, failure: Failure, call: _Call) -> bool:
        """Wait until the next attempt is due; returns whether there is one."""
        call.failures.append(failure)
        blamed = failure.blames & wire.list_optional_fields(request, call.left_out)
        if failure.is_guess and _settings_of(request) in self._answered:
            known = self._left_out.get(request.model, frozenset())
            blamed -= wire.list_optional_fields(request, known)  # it has answered with them
        if blamed and call.num_failed < self.settings.attempts and call.left_s > 0:
            call.left_out |= blamed
            return True
        if await self._pause(call):
            return True
        may_wait = len(call.outages) < _MAX_OUTAGES and self._has_answered
        if may_wait and await self.outage.may_wait(failure, self.settings.timeout_s):
            call.outages.add(self.outage.count)
            call.failures, call.left_s = [], self.settings.timeout_s
            return True
        if not self.outage.is_nonsense(failure):
            return False
        call.failures[-1] = failure._replace(retry_after_s=None)
        return await self._pause(call)

    async def _pause(self, call: _Call) -> bool:
        """Wait as long as the failures so far ask for; returns whether there is time for that."""
        wait_s = self._wait_s(call)
        if wait_s is None:
            return False
        await self._sleep(wait_s)
        call.left_s -= wait_s
        return True

    def _wait_s(self, call: _Call) -> float | None:
        """How long to wait (drawn evenly from 0 to a bound that doubles) until another attempt;
        None when the failures are enough, or the wait would outlive the request.
        """
        last = call.failures[-1]
        if last.kind is Kind.SLOW:
            return 0.0
        asked_s = last.retry_after_s or 0.0
        never = last.kind is Kind.NO_CONNECTION and not self._has_answered
        most = {Kind.UNUSABLE: 1, Kind.REFUSED: 1, Kind.DECLINED: 2}.get(last.kind, 99)
        most = 3 if never else most
        is_busy = last.kind is Kind.BUSY
        if not is_busy and call.num_failed >= min(most, self.settings.attempts):
            return None
        n = call.count(Kind.BUSY) if is_busy else call.num_failed
        drawn = self._random() * min(_MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** min(n - 1, 16))
        wait_s = drawn + asked_s if is_busy else max(min(drawn, call.left_s / 4), asked_s)
        return wait_s if wait_s < call.left_s and asked_s <= MAX_WAIT_S else None

    def _mask(self, failure: Failure, request: ChatRequest) -> Failure:
        """With what may be shown of the server's words at the end of the reason."""
        texts = [message.content for message in request.messages]
        quote = mask(failure.quote, self.settings.secrets, texts)
        reason = f"{failure.reason}: {quote}" if quote else failure.reason
        return failure._replace(reason=reason, quote="")

    def _error(self, request: ChatRequest, failures: list[Failure]) -> ChatError:
        last, url, model = failures[-1], self.public_url, request.model
        is_dead = not self._has_answered or self._unconnected >= _DEAD_AFTER
        if last.kind is Kind.NO_CONNECTION and is_dead:
            return ServerUnreachable(
                f"nothing answers at {url}. {last.remedy}Is the server up? OPENAI_BASE_URL"
                ' (base_url) says where it is; user="embedded" works offline.'
            )
        remedy = f" {last.remedy}" if last.remedy else ""
        if last.kind is Kind.REFUSED:
            reason = last.reason.rstrip(".")
            one = f"{url} refuses this request of model {model!r}, which has answered others: "
            return ServerRefused(
                f"{url} refuses model {model!r}: {reason}.{remedy}",
                if_answered=f"{one}{reason}." if last.scope is Scope.MODEL else "",
            )
        if last.reason == _TOO_LATE:
            remedy = (
                " Raise --timeout (timeout_s), or lower --concurrency"
                f" ({self.settings.concurrency}) to what the server does at once."
            )
        failed = sum(failure.kind not in _NOT_FAILED for failure in failures)
        return ChatError(
            f"no usable answer of model {model!r}{f' in {failed} attempts' if failed > 1 else ''}"
            f" (timeout_s={self.settings.timeout_s:g}): {summarise_failures(failures)}"
            f"{'.' if remedy else ''}{remedy}"
        )


def summarise_failures(failures: list[Failure]) -> str:
    """The reasons in one line, in the order they first came up, each with how often; how often the
    server asked to wait differs from run to run and is left out.
    """
    counts = Counter((failure.reason, failure.kind in _NOT_FAILED) for failure in failures)
    return "; ".join(
        f"{reason} ({count}×)" if count > 1 and not busy else reason
        for (reason, busy), count in counts.items()
    )


def _settings_of(request: ChatRequest) -> tuple[object, ...]:
    """The model and what it is asked with, but for the words."""
    options = json.dumps(dict(request.options or {}), sort_keys=True)
    has_schema = request.schema is not None
    return request.model, request.temperature, request.max_tokens, has_schema, options
