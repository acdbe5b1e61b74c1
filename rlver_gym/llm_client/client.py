"""Asks an OpenAI-compatible server: many requests at once, each with a deadline, a bounded number
of attempts and a price.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass, field

import openai

from rlver_gym.io.errors import ChatError, ServerRefused, ServerUnreachable
from rlver_gym.llm_client import excerpts, wire
from rlver_gym.llm_client.connection_pool import PATH, ConnectionPool, UnusableResponse
from rlver_gym.llm_client.limits import Concurrency
from rlver_gym.llm_client.outage import Outage
from rlver_gym.llm_client.retries import Failure, Kind, RetryPolicy, summarise_failures
from rlver_gym.llm_client.settings import ChatSettings, public_url, resolve_settings
from rlver_gym.llm_client.spending import Spending
from rlver_gym.llm_client.transport import ConnectError, ConnectTimeout, Response
from rlver_gym.llm_client.values import ChatAnswer, ChatRequest

_DEAD_AFTER = 10
"""Failed connections in a row after which a server that once answered is taken for dead by those
who ask for no dialogue.
"""
_MAX_OUTAGES = 3
"""So many a request waits for; one that fails still is at fault itself."""
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
        return sum(failure.kind is not Kind.BUSY for failure in self.failures)


class ChatClient:
    """A Chat that sends requests to a server. One for each server and event loop; `connect` shares
    it.

    `timeout_s` of the settings begins when a request gets its place among those under way, so a
    long queue in front of a slow server never turns into failures. Nor does an outage of the
    server, which all requests wait for, for `max_wait_s` at most. What a model does not take (a
    JSON schema, a temperature) is left out for it from then on.

    Errors: ServerRefused, ServerUnreachable, ServerOutage and BudgetSpent concern every request and
    should stop a run; any other ChatError only this one.
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
        self._left_out: dict[str, frozenset[str]] = {}
        """Fields that a model of this server does not take."""

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
        call = _Call(self.settings.timeout_s, self._left_out.get(request.model, frozenset()))
        while True:
            result = await self._try(request, call)
            if isinstance(result, ChatAnswer):
                self._left_out[request.model] = call.left_out | self._left_out.get(
                    request.model, frozenset()
                )
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
            began, call.is_first = self._clock(), False
            result = await self._attempt(request, call.left_out, self._attempt_s(call))
        finally:
            self.concurrency.leave()
        call.left_s -= self._clock() - began
        if isinstance(result, ChatAnswer) or result.kind in _ALIVE:
            if self.outage.record_answer():
                self.concurrency.widen()
        else:
            self.outage.record_failure(self._mask(result, request), probing=probing)
        if isinstance(result, ChatAnswer):
            self.concurrency.record_success()
        elif result.kind is Kind.BUSY:
            self.concurrency.record_overload(round_)
        return result

    async def _prepare_retry(self, request: ChatRequest, failure: Failure, call: _Call) -> bool:
        """Wait until the next attempt is due; returns whether there is one."""
        call.failures.append(self._mask(failure, request))
        if self._may_leave_out(
            failure.blames & wire.build_body(request, call.left_out).keys(), call
        ):
            call.left_out |= failure.blames
            return True
        wait_s = self._retry_policy.wait_s(call.failures, not self._has_answered, call.left_s)
        if wait_s is not None:
            await self._sleep(wait_s)
            call.left_s -= wait_s
            return True
        if len(call.outages) >= _MAX_OUTAGES or not self._has_answered:
            return False
        if not await self.outage.may_wait(call.failures[-1], self.settings.timeout_s):
            return False
        self.concurrency.narrow()
        call.outages.add(self.outage.count)
        call.failures, call.left_s = [], self.settings.timeout_s
        return True

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
    ) -> ChatAnswer | Failure:
        body = wire.build_body(request, left_out)
        try:
            async with asyncio.timeout(timeout_s):
                with self._connections.lend_client() as client:
                    response = await client.post(PATH, body=body, cast_to=Response)
        except TimeoutError:
            return Failure(Kind.BROKEN, "no answer in time")
        except openai.APIStatusError as error:
            self._note_response()
            return wire.classify_http_error(
                error.status_code, error.response.content, error.response.headers
            )
        except openai.APIConnectionError as error:
            return self._connection_failure(error.__cause__)
        self._note_response()
        answer = wire.parse_answer(response.content, response.headers.get("content-type", ""))
        self.spending.tokens(answer.prompt_tokens, answer.completion_tokens)
        return answer.result

    def _mask(self, failure: Failure, request: ChatRequest) -> Failure:
        texts = [message.content for message in request.messages]
        return excerpts.mask_failure(failure, self.settings.secrets, texts)

    def _note_response(self) -> None:
        self._has_answered, self._unconnected = True, 0

    def _connection_failure(self, cause: BaseException | None) -> Failure:
        if isinstance(cause, UnusableResponse):
            self._note_response()
            return cause.failure
        if isinstance(cause, ConnectError | ConnectTimeout):
            self._unconnected += 1
            return Failure(Kind.NO_CONNECTION, "no connection")
        return Failure(Kind.BROKEN, "the connection broke off")

    def _error(self, request: ChatRequest, failures: list[Failure]) -> ChatError:
        last, url = failures[-1], self.public_url
        if last.kind is Kind.NO_CONNECTION and (
            not self._has_answered or self._unconnected >= _DEAD_AFTER
        ):
            return ServerUnreachable(
                f"nothing answers at {url}. Is the server up? OPENAI_BASE_URL (base_url) says where"
                ' it is; user="embedded" works offline.'
            )
        if last.kind is Kind.REFUSED:
            return ServerRefused(
                f"{url} refuses model {request.model!r}: {last.reason.rstrip('.')}."
                f" {_remedy(last.status)}"
            )
        failed = sum(failure.kind is not Kind.BUSY for failure in failures)
        tries = f" in {failed} attempts" if failed > 1 else ""
        return ChatError(
            f"no usable answer of model {request.model!r}{tries}"
            f" (timeout_s={self.settings.timeout_s:g}): {summarise_failures(failures)}"
        )


def _remedy(status: int | None) -> str:
    if status is not None and 300 <= status < 400:
        return (
            "Redirects are not followed, since they carry the dialogue elsewhere: if you trust that"
            " place, make it OPENAI_BASE_URL (base_url)."
        )
    if status in (401, 403):
        return "Check OPENAI_API_KEY (api_key), and that it belongs to this server."
    if status == 404:
        return "Check the model's name, and that OPENAI_BASE_URL (base_url) ends in /v1."
    if status in (402, 429):
        return "The account has no credit left."
    return "Check the model's name and what it supports (temperature, max_tokens)."
