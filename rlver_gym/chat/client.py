"""Asks an OpenAI-compatible server: many requests at once, each with a deadline, a bounded number of attempts and a price."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Set

import openai

from rlver_gym.chat import excerpts, wire
from rlver_gym.chat.doors import PATH, Doors, UnusableResponse
from rlver_gym.chat.limits import Concurrency
from rlver_gym.chat.outage import Outage
from rlver_gym.chat.retries import Failure, Kind, Patience, condensed
from rlver_gym.chat.settings import ChatSettings, public_url, resolved
from rlver_gym.chat.spending import Spending
from rlver_gym.chat.transport import ConnectError, ConnectTimeout, Response
from rlver_gym.chat.values import ChatAnswer, ChatRequest
from rlver_gym.errors import ChatError, ServerRefused, ServerUnreachable

_DEAD_AFTER = 10
"""Failed connections in a row after which a server that once answered is taken for dead by those who ask for no dialogue."""
_MOST_OUTAGES = 3
"""So many a request waits for; one that fails still is at fault itself."""


class ChatClient:
    """A Chat that asks a server. One for each server and event loop; `connect` shares it.

    `timeout_s` of the settings begins when a request gets its place among those under way, so a long queue in front of a slow server
    never turns into failures. Nor does an outage of the server, which all requests wait for, for `max_wait_s` at most. What a model does not take (a JSON
    schema, a temperature) is left out for it from then on.

    Errors: ServerRefused, ServerUnreachable, ServerOutage and BudgetSpent concern every request and should stop a run; any other ChatError only this one.
    """

    def __init__(
        self,
        settings: ChatSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`random` decides only how long to wait between attempts. ServerRefused when OpenAI's own server has no key."""
        self.settings = resolved(settings or ChatSettings())
        self.spending = Spending(self.settings.prices, self.settings.budget)
        self.concurrency = Concurrency(self.settings.concurrency)
        self.public_url = public_url(self.settings)
        self.outage = Outage(self.public_url, self.settings.max_wait_s, clock, sleep)
        self._doors = Doors(self.settings)
        self._patience = Patience(self.settings.attempts, random)
        self._clock = clock
        self._sleep = sleep
        self._has_answered = False
        self._unconnected = 0
        self._left_out: dict[str, frozenset[str]] = {}
        """Fields that a model of this server does not take."""

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        """The server's answer. See the class for errors."""
        result = await self._result(request)
        if isinstance(result, ChatError):
            raise result  # not where it happened: that frame holds the headers with the key
        return result

    async def close(self) -> None:
        """Close all connections. The next request opens new ones."""
        await self._doors.close()

    async def _result(self, request: ChatRequest) -> ChatAnswer | ChatError:
        left_s = self.settings.timeout_s
        left_out = self._left_out.get(request.model, frozenset())
        failures: list[Failure] = []
        first, last_outage, outages = True, 0, 0
        while True:
            round_ = await self.concurrency.enter()
            try:
                probing = await self.outage.pause(is_first=first)
                self.spending.attempt(first)
                began, first = self._clock(), False
                result = await self._attempt(request, left_out, self._attempt_s(left_s, failures))
            finally:
                self.concurrency.leave()
            left_s -= self._clock() - began
            if isinstance(result, ChatAnswer):
                self._is_up()
                self.concurrency.succeeded()
                self._left_out[request.model] = left_out | self._left_out.get(request.model, frozenset())
                return result
            failures.append(self._masked(result, request))
            if self._may_leave_out(result.blames & wire.body(request, left_out).keys(), failures, left_s):
                left_out |= result.blames
                continue
            if result.kind in (Kind.DECLINED, Kind.UNUSABLE, Kind.REFUSED):
                self._is_up()
            self.outage.failed(failures[-1], probing=probing)
            if result.kind is Kind.BUSY:
                self.concurrency.overloaded(round_)
            wait_s = self._patience.wait_s(failures, not self._has_answered, left_s)
            if wait_s is not None:
                await self._sleep(wait_s)
                left_s -= wait_s
            elif (
                outages < _MOST_OUTAGES
                and self._has_answered
                and await self.outage.begins(failures[-1], self.settings.timeout_s)
            ):
                self.concurrency.narrow()
                outages += self.outage.count != last_outage
                last_outage = self.outage.count
                failures, left_s = [], self.settings.timeout_s
            else:
                return self._error(request, failures)

    def _is_up(self) -> None:
        if self.outage.answered():
            self.concurrency.widen()

    def _may_leave_out(self, blamed: Set[str], failures: list[Failure], left_s: float) -> bool:
        """Whether to ask again without these fields, at once: it is an attempt like any other."""
        failed = sum(failure.kind is not Kind.BUSY for failure in failures)
        return bool(blamed) and failed < self.settings.attempts and left_s > 0

    def _attempt_s(self, left_s: float, failures: list[Failure]) -> float:
        """How long the next attempt may take."""
        if self.settings.attempt_timeout_s is not None:
            return min(left_s, self.settings.attempt_timeout_s)
        failed = sum(failure.kind is not Kind.BUSY for failure in failures)
        return left_s if failed + 1 >= self.settings.attempts else left_s * 2 / 3

    async def _attempt(self, request: ChatRequest, left_out: frozenset[str], timeout_s: float) -> ChatAnswer | Failure:
        body = wire.body(request, left_out)
        try:
            async with asyncio.timeout(timeout_s):
                with self._doors.one() as client:
                    response = await client.post(PATH, body=body, cast_to=Response)
        except TimeoutError:
            return Failure(Kind.BROKEN, "no answer in time")
        except openai.APIStatusError as error:
            self._heard()
            return wire.objection(error.status_code, error.response.content, error.response.headers)
        except openai.APIConnectionError as error:
            return self._unheard(error.__cause__)
        self._heard()
        answer = wire.read(response.content, response.headers.get("content-type", ""))
        self.spending.tokens(answer.prompt_tokens, answer.completion_tokens)
        return answer.result

    def _masked(self, failure: Failure, request: ChatRequest) -> Failure:
        said = [message.content for message in request.messages]
        return excerpts.show(failure, self.settings.secrets, said)

    def _heard(self) -> None:
        self._has_answered, self._unconnected = True, 0

    def _unheard(self, cause: BaseException | None) -> Failure:
        if isinstance(cause, UnusableResponse):
            self._heard()
            return cause.failure
        if isinstance(cause, ConnectError | ConnectTimeout):
            self._unconnected += 1
            return Failure(Kind.NO_CONNECTION, "no connection")
        return Failure(Kind.BROKEN, "the connection broke off")

    def _error(self, request: ChatRequest, failures: list[Failure]) -> ChatError:
        last, url = failures[-1], self.public_url
        if last.kind is Kind.NO_CONNECTION and (not self._has_answered or self._unconnected >= _DEAD_AFTER):
            return ServerUnreachable(
                f"nothing answers at {url}. Is the server up? OPENAI_BASE_URL (base_url) says where it is; "
                'user="embedded" works offline.'
            )
        if last.kind is Kind.REFUSED:
            return ServerRefused(
                f"{url} refuses model {request.model!r}: {last.reason.rstrip('.')}. {_remedy(last.status)}"
            )
        failed = sum(failure.kind is not Kind.BUSY for failure in failures)
        tries = f" in {failed} attempts" if failed > 1 else ""
        return ChatError(
            f"no usable answer of model {request.model!r}{tries} (timeout_s={self.settings.timeout_s:g}): {condensed(failures)}"
        )


def _remedy(status: int | None) -> str:
    if status is not None and 300 <= status < 400:
        return "Redirects are not followed, since they carry the dialogue elsewhere: if you trust that place, make it OPENAI_BASE_URL (base_url)."
    if status in (401, 403):
        return "Check OPENAI_API_KEY (api_key), and that it belongs to this server."
    if status == 404:
        return "Check the model's name, and that OPENAI_BASE_URL (base_url) ends in /v1."
    if status in (402, 429):
        return "The account has no credit left."
    return "Check the model's name and what it supports (temperature, max_tokens)."
