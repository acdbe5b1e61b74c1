"""Asks an OpenAI-compatible server: many requests at once, each with a deadline, a bounded number
of attempts and a price.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import openai

from rlver_gym.io.errors import ChatError, ServerRefused, ServerUnreachable
from rlver_gym.llm_client import excerpts, wire
from rlver_gym.llm_client.connection_pool import PATH, ConnectionPool, UnusableResponse
from rlver_gym.llm_client.limits import Concurrency
from rlver_gym.llm_client.outage import Outage
from rlver_gym.llm_client.proxies import explain_no_connection
from rlver_gym.llm_client.refusals import classify_http_error
from rlver_gym.llm_client.retries import (
    NOT_FAILED,
    Failure,
    Kind,
    RetryPolicy,
    Scope,
    summarise_failures,
)
from rlver_gym.llm_client.settings import ChatSettings, public_url, resolve_settings
from rlver_gym.llm_client.spending import Spending, estimate_tokens
from rlver_gym.llm_client.transport import ConnectError, ConnectTimeout, ProxyError, Response
from rlver_gym.llm_client.values import ChatAnswer, ChatRequest

_DEAD_AFTER = 10
"""Failed connections in a row after which a server that once answered is taken for dead by those
who ask for no dialogue.
"""
_MAX_SLOW = 6
"""So often a request waits behind others without an answer to anybody; then it has failed."""
_NAP_S = 0.1
_MAX_OUTAGES = 3
"""So many a request waits for; one that fails still is at fault itself."""
_DIVIDE_BY = {Kind.BUSY: 2, Kind.SLOW: 4}
"""By what the limit of requests under way is divided."""
_TOO_LATE = "no answer in time"
_ALIVE = (Kind.DECLINED, Kind.UNUSABLE, Kind.REFUSED)
"""Failures that only a server that is up can bring about."""


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
    """Whether it was not tried yet."""
    outages: set[int] = field(default_factory=set)
    """Those that it has waited for."""

    @property
    def num_failed(self) -> int:
        """How many of its attempts failed: being told to wait is no failure."""
        return sum(failure.kind not in NOT_FAILED for failure in self.failures)


@dataclass
class _Attempt:
    """One that is under way."""

    timeout_s: float
    since: float
    """When it was sent, or when one that was sent before it was answered last: until then it waited
    for its turn.
    """
    limit: asyncio.Timeout

    def renew(self, now: float) -> None:
        """Begin its time again."""
        if not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time() + self.timeout_s)
            self.since = now


class _Tried(NamedTuple):
    """What came of one attempt."""

    result: ChatAnswer | Failure
    took_s: float
    """Since its turn came, as far as that can be known."""
    is_late: bool
    """Whether it waited behind others for longer than an attempt may take."""


class ChatClient:
    """A Chat that sends requests to a server. One for each server and event loop; `connect` shares
    it.

    `timeout_s` of the settings begins when a request gets its place among those under way, and
    again whenever the server answers one that was sent before it, so a long queue in front of or
    inside a slow server never turns into failures; and fewer are sent at once then. Nor does an
    outage of the server, which all requests wait for, for `max_wait_s` at most. What a model does
    not take (a JSON schema, a temperature, the system role) is left out for it from then on.

    Errors: ServerRefused, ServerUnreachable, ServerOutage and BudgetSpent concern every request and
    should stop a run; any other ChatError only this one. Once a model has answered with some
    settings, what it refuses with them is the one request.
    """

    def __init__(
        self,
        settings: ChatSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`random` decides only how long to wait between attempts.

        ServerRefused when OpenAI's own server has no key.
        """
        self.settings = resolve_settings(settings or ChatSettings())
        self.spending = Spending(self.settings.prices, self.settings.budget)
        self.concurrency = Concurrency(self.settings.concurrency)
        self.public_url = public_url(self.settings)
        self.outage = Outage(
            self.public_url, self.settings.max_wait_s, self.settings.attempts, clock, sleep
        )
        self._connections = ConnectionPool(self.settings)
        self._retry_policy = RetryPolicy(self.settings.attempts, random)
        self._clock = clock
        self._sleep = sleep
        self._has_answered = False
        self._unconnected = 0
        self._omitted = frozenset(self.settings.omit) | (
            {"max_completion_tokens"} if "max_tokens" in self.settings.omit else frozenset()
        )
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
        await self._connections.close()

    async def _result(self, request: ChatRequest) -> ChatAnswer | ChatError:
        settings = _settings_of(request)
        self._open[settings] += 1
        try:
            result = await self._complete(request)
        finally:
            self._open[settings] -= 1
        if isinstance(result, ServerRefused) and result.if_answered:
            await self._wait_for_others(settings)
            return ChatError(result.if_answered) if settings in self._answered else result
        return result

    async def _wait_for_others(self, settings: tuple[object, ...]) -> None:
        """Wait for what others with the same settings come to: one answer shows that a refusal is
        of one request.
        """
        end = self._clock() + self.settings.timeout_s
        while settings not in self._answered and self._open[settings] and self._clock() < end:
            await self._sleep(_NAP_S)

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
        """One attempt, as soon as there is a place for it and the server is up.

        Tells the limit and the outage what came of it.
        """
        round_ = await self.concurrency.enter()
        try:
            probing = await self.outage.pause(is_first=call.is_first)
            self.spending.attempt(call.is_first)
            call.is_first, inside, answers = False, self.concurrency.inside, self._num_answers
            result, took_s, is_late = await self._attempt(
                request, call.left_out, self._attempt_s(call)
            )
        finally:
            self.concurrency.leave()
        if isinstance(result, Failure) and result.kind is Kind.SLOW:
            slow = sum(failure.kind is Kind.SLOW for failure in call.failures)
            if inside == 1 or answers != self._num_answers or slow >= _MAX_SLOW:
                result = result._replace(kind=Kind.BROKEN)
        if not isinstance(result, Failure) or result.kind is not Kind.SLOW:
            call.left_s -= took_s
        if isinstance(result, ChatAnswer) or result.kind in _ALIVE:
            if self.outage.record_answer():
                self.concurrency.widen()
        else:
            self.outage.record_failure(self._mask(result, request), probing=probing)
        if isinstance(result, Failure):
            if result.kind in NOT_FAILED:
                self.concurrency.record_overload(round_, divide_by=_DIVIDE_BY[result.kind])
        elif is_late:
            self.concurrency.record_overload(round_)
        else:
            self.concurrency.record_success()
        return result

    async def _prepare_retry(self, request: ChatRequest, failure: Failure, call: _Call) -> bool:
        """Wait until the next attempt is due; returns whether there is one."""
        call.failures.append(self._mask(failure, request))
        blamed = failure.blames & wire.list_optional_fields(request, call.left_out)
        if failure.is_guess:
            blamed -= self._taken(request)
        if self._may_leave_out(blamed, call):
            call.left_out |= blamed
            return True
        if await self._pause(call):
            return True
        may_wait = len(call.outages) < _MAX_OUTAGES and self._has_answered
        if may_wait and await self.outage.may_wait(call.failures[-1], self.settings.timeout_s):
            self.concurrency.narrow()
            call.outages.add(self.outage.count)
            call.failures, call.left_s = [], self.settings.timeout_s
            return True
        if not self.outage.is_nonsense(failure):
            return False
        call.failures[-1] = call.failures[-1]._replace(retry_after_s=None)
        return await self._pause(call)

    async def _pause(self, call: _Call) -> bool:
        """Wait as long as the failures so far ask for; returns whether there is time for that."""
        wait_s = self._retry_policy.wait_s(call.failures, not self._has_answered, call.left_s)
        if wait_s is None:
            return False
        await self._sleep(wait_s)
        call.left_s -= wait_s
        return True

    def _taken(self, request: ChatRequest) -> frozenset[str]:
        """Fields with which the model has answered before."""
        if _settings_of(request) not in self._answered:
            return frozenset()
        return wire.list_optional_fields(request, self._left_out.get(request.model, frozenset()))

    def _may_leave_out(self, blamed: Set[str], call: _Call) -> bool:
        """Whether to ask again without these fields, at once: it is an attempt like any other."""
        return bool(blamed) and call.num_failed < self.settings.attempts and call.left_s > 0

    def _attempt_s(self, call: _Call) -> float:
        """How long the next attempt may take."""
        if self.settings.attempt_timeout_s is not None:
            return min(call.left_s, self.settings.attempt_timeout_s)
        return call.left_s if call.num_failed + 1 >= self.settings.attempts else call.left_s * 2 / 3

    async def _attempt(
        self, request: ChatRequest, left_out: frozenset[str], timeout_s: float
    ) -> _Tried:
        began = self._clock()
        self._num_sent = number = self._num_sent + 1
        limit = asyncio.timeout(timeout_s)
        attempt = self._under_way[number] = _Attempt(timeout_s, began, limit)
        try:
            async with limit:
                result = await self._send(request, left_out)
        except TimeoutError:
            is_strict = self.settings.attempt_timeout_s is not None
            result = Failure(Kind.BROKEN if is_strict else Kind.SLOW, _TOO_LATE)
        finally:
            del self._under_way[number]
        now = self._clock()
        if isinstance(result, ChatAnswer) or result.kind in _ALIVE:
            self._num_answers += 1
            for other, behind in self._under_way.items():
                if other > number:
                    behind.renew(now)
        return _Tried(result, now - attempt.since, is_late=now - began > timeout_s)

    async def _send(self, request: ChatRequest, left_out: frozenset[str]) -> ChatAnswer | Failure:
        try:
            with self._connections.lend_client() as client:
                response = await client.post(
                    PATH, body=wire.build_body(request, left_out), cast_to=Response
                )
        except openai.APIStatusError as error:
            self._note_response()
            texts = [message.content for message in request.messages]
            return classify_http_error(
                error.status_code, error.response.content, error.response.headers, texts
            )
        except openai.APIConnectionError as error:
            return self._connection_failure(error.__cause__)
        self._note_response()
        answer = wire.parse_answer(response.content, response.headers.get("content-type", ""))
        return self._count(request, answer)

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

    def _mask(self, failure: Failure, request: ChatRequest) -> Failure:
        texts = [message.content for message in request.messages]
        return excerpts.mask_failure(failure, self.settings.secrets, texts)

    def _note_response(self) -> None:
        self._has_answered, self._unconnected = True, 0

    def _connection_failure(self, cause: BaseException | None) -> Failure:
        if isinstance(cause, UnusableResponse):
            self._note_response()
            return cause.failure
        if isinstance(cause, ConnectError | ConnectTimeout | ProxyError):
            self._unconnected += 1
            return Failure(
                Kind.NO_CONNECTION,
                "no connection",
                remedy=explain_no_connection(cause, self.settings),
            )
        return Failure(Kind.BROKEN, "the connection broke off")

    def _error(self, request: ChatRequest, failures: list[Failure]) -> ChatError:
        last, url = failures[-1], self.public_url
        if last.kind is Kind.NO_CONNECTION and (
            not self._has_answered or self._unconnected >= _DEAD_AFTER
        ):
            return ServerUnreachable(
                f"nothing answers at {url}. {last.remedy}"
                "Is the server up? OPENAI_BASE_URL (base_url) says where it is;"
                ' user="embedded" works offline.'
            )
        remedy = f" {last.remedy}" if last.remedy else ""
        if last.kind is Kind.REFUSED:
            reason = last.reason.rstrip(".")
            one = (
                f"{url} refuses this request of model {request.model!r}, which has answered others:"
                f" {reason}."
            )
            return ServerRefused(
                f"{url} refuses model {request.model!r}: {reason}.{remedy}",
                if_answered=one if last.scope is Scope.MODEL else "",
            )
        failed = sum(failure.kind not in NOT_FAILED for failure in failures)
        tries = f" in {failed} attempts" if failed > 1 else ""
        if last.reason == _TOO_LATE:
            remedy = (
                " Raise --timeout (timeout_s), or lower --concurrency"
                f" ({self.settings.concurrency}) to what the server does at once."
            )
        return ChatError(
            f"no usable answer of model {request.model!r}{tries}"
            f" (timeout_s={self.settings.timeout_s:g}): {summarise_failures(failures)}"
            f"{'.' if remedy else ''}{remedy}"
        )


def _settings_of(request: ChatRequest) -> tuple[object, ...]:
    """The model and what it is asked with, but for the words."""
    options = json.dumps(dict(request.options or {}), sort_keys=True)
    has_schema = request.schema is not None
    return request.model, request.temperature, request.max_tokens, has_schema, options
