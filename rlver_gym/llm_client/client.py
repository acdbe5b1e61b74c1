"""Asks an OpenAI-compatible server: many requests at once, with deadlines, tries and prices."""

import asyncio
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from rlver_gym.llm_client import wire
from rlver_gym.llm_client.admission import Outage
from rlver_gym.llm_client.excerpts import mask
from rlver_gym.llm_client.refusals import MAX_WAIT_S, Failure, Kind, Scope, classify_http_error
from rlver_gym.llm_client.settings import ChatSettings, public_url, resolve_settings
from rlver_gym.llm_client.spending import Spending, estimate_tokens
from rlver_gym.llm_client.transport import BROKE_OFF, Response, Transport
from rlver_gym.llm_client.values import ChatAnswer, ChatRequest
from rlver_gym.util.errors import ChatError, ServerRefused, ServerUnreachable

_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 0.25, 8.0
_DEAD_AFTER = 10
"""Failed connections in a row after which a server that once answered is taken for dead."""
_MAX_OUTAGES = 3
"""So many a request waits for; one that fails still is at fault itself."""
_NAP_S = 0.1
_TOO_LATE = "no answer in time"
_ALIVE = (Kind.DECLINED, Kind.UNUSABLE, Kind.REFUSED)
"""Failures that only a server that is up can bring about."""
_MOST_ATTEMPTS = {Kind.UNUSABLE: 1, Kind.REFUSED: 1, Kind.DECLINED: 2}


@dataclass
class _Call:
    """How far a request has come."""

    request: ChatRequest
    left_s: float
    """The time that its attempts and the pauses between them may still take."""
    left_out: frozenset[str]
    """Fields that its model does not take."""
    failures: list[Failure] = field(default_factory=list)
    """Since it began, or since the last outage."""
    is_first: bool = True
    num_outages: int = 0

    @property
    def num_busy(self) -> int:
        """How often the server asked to wait, which is no failure."""
        return sum(failure.kind is Kind.BUSY for failure in self.failures)

    @property
    def num_failed(self) -> int:
        return len(self.failures) - self.num_busy


@dataclass
class _Attempt:
    """One that is under way, and since when the server can have worked on it."""

    request: ChatRequest
    timeout_s: float
    since: float
    limit: asyncio.Timeout


class ChatClient:
    """A Chat that sends requests to a server. One for each server; `connect` shares it. A request's
    time begins when it gets its place among `concurrency` of them, and an attempt's again whenever
    the server answers one that was sent before it. An outage is waited for, `max_wait_s` at most.
    What a model does not take (a JSON schema, a temperature, the system role) is left out from then
    on. ServerRefused, ServerUnreachable, ServerOutage and BudgetSpent should stop a run; any other
    ChatError is of one request, as is what a model refuses that has answered with the same
    settings.
    """

    def __init__(
        self,
        settings: ChatSettings | None = None,
        *,
        beside: "ChatClient | None" = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`beside`: one with which it shares its places and its budget. `random`: how long to wait
        between attempts. ServerRefused without a needed key.
        """
        self.settings = resolve_settings(settings or ChatSettings())
        self.public_url = public_url(self.settings)
        self.outage = Outage(self.public_url, self.settings.max_wait_s, clock, sleep)
        self.spending = Spending(self.settings.prices, self.settings.budget)
        self._places = asyncio.Semaphore(self.settings.concurrency)
        if beside is not None:
            self.spending, self._places = beside.spending, beside._places
        self._transport = Transport(self.settings)
        self._clock, self._sleep, self._random = clock, sleep, random
        omitted = frozenset(self.settings.omit)
        omitted |= {"max_completion_tokens"} if "max_tokens" in omitted else set()
        self._left_out: defaultdict[str, frozenset[str]] = defaultdict(lambda: omitted)
        """Fields that a model of this server does not take."""
        self._answered: set[tuple[object, ...]] = set()
        """Models with settings with which they have answered."""
        self._pending = Counter[tuple[object, ...]]()
        self._under_way: dict[int, _Attempt] = {}
        self._remedy_when_slow = (
            "Raise --timeout (timeout_s), or lower --concurrency"
            f" ({self.settings.concurrency}) to what the server does at once."
        )
        self._num_sent = self._num_unconnected = 0
        self._has_responded = False

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        result = await self._complete(request)
        if isinstance(result, ChatError):
            raise result  # not where it happened: that frame holds the headers with the key
        return result

    def is_under_way(self, request: ChatRequest) -> bool:
        """Whether an attempt at it was sent, and neither answered nor given up yet."""
        return any(attempt.request.key == request.key for attempt in self._under_way.values())

    async def close(self) -> None:
        await self._transport.close()

    async def _complete(self, request: ChatRequest) -> ChatAnswer | ChatError:
        settings = _settings_of(request)
        self._pending[settings] += 1
        try:
            result = await self._retry(request)
        finally:
            self._pending[settings] -= 1
        if isinstance(result, ChatAnswer):
            self._answered.add(settings)
        elif isinstance(result, ServerRefused) and result.if_answered:
            end = self._clock() + self.settings.timeout_s
            others = self._pending
            while others[settings] and settings not in self._answered and self._clock() < end:
                await self._sleep(_NAP_S)
            return ChatError(result.if_answered) if settings in self._answered else result
        return result

    async def _retry(self, request: ChatRequest) -> ChatAnswer | ChatError:
        call = _Call(request, self.settings.timeout_s, self._left_out[request.model])
        while True:
            result = await self._try(call)
            if isinstance(result, ChatAnswer):
                self._left_out[request.model] |= call.left_out
                return result
            call.failures.append(result)
            if not await self._prepare_retry(call, result):
                return self._explain(call)

    async def _try(self, call: _Call) -> ChatAnswer | Failure:
        async with self._places, self.outage.pause(is_first=call.is_first) as is_probe:
            self.spending.attempt(call.is_first)
            call.is_first = False
            result = await self._attempt(call)
            if isinstance(result, ChatAnswer) or result.kind in _ALIVE:
                self.outage.record_answer()
            elif is_probe:
                self.outage.record_failed_probe(result)
        return result

    async def _attempt(self, call: _Call) -> ChatAnswer | Failure:
        """Send it, for as long as an attempt may take from the moment its turn has come."""
        is_last = call.num_failed + 1 >= self.settings.attempts
        timeout_s = self.settings.attempt_timeout_s or call.left_s * (1 if is_last else 2 / 3)
        self._num_sent = number = self._num_sent + 1
        limit = asyncio.timeout(min(timeout_s, call.left_s))
        attempt = self._under_way[number] = _Attempt(call.request, timeout_s, self._clock(), limit)
        try:
            async with limit:
                result = await self._send(call)
        except TimeoutError:
            result = Failure(Kind.BROKEN, _TOO_LATE, remedy=self._remedy_when_slow)
        finally:
            del self._under_way[number]
        if _kind(result) in (None, *_ALIVE):
            self._extend_after(number)
        call.left_s -= self._clock() - attempt.since
        return result

    def _extend_after(self, number: int) -> None:
        for other, behind in self._under_way.items():
            if other > number and not behind.limit.expired():
                loop_time = asyncio.get_running_loop().time()
                behind.limit.reschedule(loop_time + behind.timeout_s)
                behind.since = self._clock()

    async def _send(self, call: _Call) -> ChatAnswer | Failure:
        texts = [message.content for message in call.request.messages]
        result = await self._transport.post(wire.build_body(call.request, call.left_out))
        if isinstance(result, Response) and 200 <= result.status < 300:
            kind = result.headers.get("content-type", "").partition(";")[0]
            result = self._count(texts, wire.parse_answer(result.content, kind, texts))
        elif isinstance(result, Response):
            result = classify_http_error(*result, texts)
        if _kind(result) is Kind.NO_CONNECTION:
            self._num_unconnected += 1
        elif result is not BROKE_OFF:
            self._has_responded, self._num_unconnected = True, 0
        if isinstance(result, Failure) and result.quote:
            quote = mask(result.quote, self.settings.secrets, texts)
            result = result._replace(reason=f"{result.reason}: {quote}", quote="")
        return result

    def _count(self, texts: list[str], answer: wire.ParsedAnswer) -> ChatAnswer | Failure:
        """Count the tokens of an answer: estimated, where the server does not say how many."""
        result, prompt, completion, written = answer
        is_counted = prompt > 0 and (completion > 0 or not written)
        is_estimate = written is not None and not is_counted
        if is_estimate:
            prompt = prompt or estimate_tokens(*texts)
            completion = completion or (estimate_tokens(written) if written else 0)
        self.spending.tokens(prompt, completion, is_estimate=is_estimate)
        if isinstance(result, ChatAnswer):
            result = result._replace(prompt_tokens=prompt, completion_tokens=completion)
        return result

    async def _prepare_retry(self, call: _Call, failure: Failure) -> bool:
        blamed = failure.blames & wire.list_optional_fields(call.request, call.left_out)
        if failure.is_guess and _settings_of(call.request) in self._answered:
            known = self._left_out[call.request.model]
            blamed -= wire.list_optional_fields(call.request, known)  # it has answered with them
        if blamed and call.num_failed < self.settings.attempts and call.left_s > 0:
            call.left_out |= blamed
            return True
        if await self._pause(call, failure):
            return True
        is_there = self._has_responded or failure.kind is not Kind.NO_CONNECTION
        may_wait = call.num_outages < _MAX_OUTAGES and is_there
        if may_wait and await self.outage.may_wait(failure, self.settings.timeout_s):
            call.num_outages += 1
            call.failures, call.left_s = [], self.settings.timeout_s
            return True
        is_nonsense = self.outage.is_nonsense(failure)
        return is_nonsense and await self._pause(call, failure._replace(retry_after_s=None))

    async def _pause(self, call: _Call, failure: Failure) -> bool:
        asked_s, is_busy = failure.retry_after_s or 0.0, failure.kind is Kind.BUSY
        most = min(_MOST_ATTEMPTS.get(failure.kind, 99), self.settings.attempts)
        if failure.kind is Kind.NO_CONNECTION and not self._has_responded:
            most = min(most, 3)
        if not is_busy and call.num_failed >= most:
            return False
        n = call.num_busy if is_busy else call.num_failed
        drawn = self._random() * min(_MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** min(n - 1, 16))
        wait_s = drawn + asked_s if is_busy else max(min(drawn, call.left_s / 4), asked_s)
        if wait_s >= call.left_s or asked_s > MAX_WAIT_S:
            return False
        await self._sleep(wait_s)
        call.left_s -= wait_s
        return True

    def _explain(self, call: _Call) -> ChatError:
        last, url, model = call.failures[-1], self.public_url, call.request.model
        is_dead = not self._has_responded or self._num_unconnected >= _DEAD_AFTER
        if last.kind is Kind.NO_CONNECTION and is_dead:
            return ServerUnreachable(
                f"nothing answers at {url}. {last.remedy}Is the server up? OPENAI_BASE_URL"
                ' (base_url) says where it is. user="embedded" and the shipped agents need none.'
            )
        remedy = self._remedy_when_slow if last.kind is Kind.BUSY else last.remedy
        remedy = f" {remedy}" if remedy else ""
        if last.kind is Kind.REFUSED:
            reason = last.reason.rstrip(".")
            start = f"{url} refuses this request of model {model!r}, which has answered others: "
            return ServerRefused(
                f"{url} refuses model {model!r}: {reason}.{remedy}",
                if_answered=f"{start}{reason}." if last.scope is Scope.MODEL else "",
            )
        tried = f" in {call.num_failed} attempts" if call.num_failed > 1 else ""
        return ChatError(
            f"no usable answer of model {model!r}{tried} (timeout_s={self.settings.timeout_s:g}):"
            f" {summarise_failures(call.failures)}{'.' if remedy else ''}{remedy}"
        )


def summarise_failures(failures: list[Failure]) -> str:
    counts = Counter((failure.reason, failure.kind is Kind.BUSY) for failure in failures)
    return "; ".join(
        f"{reason} ({count}×)" if count > 1 and not busy else reason
        for (reason, busy), count in counts.items()
    )


def _kind(result: ChatAnswer | Failure) -> Kind | None:
    return result.kind if isinstance(result, Failure) else None


def _settings_of(request: ChatRequest) -> tuple[object, ...]:
    options = json.dumps(dict(request.options or {}), sort_keys=True)
    has_schema = request.schema is not None
    return request.model, request.temperature, request.max_tokens, has_schema, options
