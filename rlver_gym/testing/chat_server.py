"""A real chat server on loopback that speaks the OpenAI API, with latency, limits and faults to
order.
"""

import asyncio
import inspect
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Literal, Self

from rlver_gym.testing.faults import FAULTS, Call, Faults
from rlver_gym.testing.listener import Listener
from rlver_gym.testing.replies import Refused, completion, encode, model_list
from rlver_gym.testing.scripted import make_answer_function
from rlver_gym.testing.wire import Connection, Request

Answer = str | Iterable[str | Exception] | Callable[[dict[str, Any]], str | Awaitable[str]]
Schemas = bool | Literal["refuse", "fail"]


class ChatServer:
    """`POST /v1/chat/completions`, `GET /v1/models` and `GET /health` on 127.0.0.1, from
    construction until `stop` or the end of its `with`.

        with ChatServer("I am listening.", latency_s=0.2) as server:
            client = openai.OpenAI(base_url=server.base_url, api_key="any")

    It runs on a thread of its own. A call with `stream` gets its answer in pieces, all sent at
    once. It does not count tokens as any model would, and honours no max_tokens.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        latency_s: float | Callable[[dict[str, Any]], float] = 0.0,
        capacity: int | None = None,
        retry_after_s: float | None = 1.0,
        faults: Faults | None = None,
        api_key: str | None = None,
        schemas: Schemas = True,
        models: Collection[str] | None = None,
        port: int = 0,
    ) -> None:
        """Begin to serve. Raises OSError when the port is taken.

        answer: one text for every call; or texts in the order of the calls, then 500; or a function
        of the request's body, async or
            not, which runs on the server's thread (so it must not block) and whose exceptions are
            answered with 500, but for `rlver_gym.testing.replies.Refused`, which says itself how it
            is answered.
        latency_s: how long each call takes, or a function of the body that says so.
        capacity: how many calls it works on at once; None for any number. A call beyond it gets 429
        with `retry_after_s` as its
            Retry-After, or waits for its turn where that is None.
        faults: which calls go wrong. They do not use up texts.
        api_key: the only key that is let in; None lets all in.
        schemas: what becomes of a JSON schema in `response_format`. True: `answer` sees it, and may
        follow it. False: it is silently
            ignored, and `answer` never sees it. "refuse": 400. "fail": 500. There are real servers
            of each sort.
        models: the names that it serves, others get 404; None serves any.
        port: 0 takes a free one.
        """
        if capacity is not None and capacity < 1:
            raise ValueError(f"the capacity is a number of calls from 1, or None, not {capacity!r}")
        if schemas not in (True, False, "refuse", "fail"):
            raise ValueError(f"schemas is True, False, 'refuse' or 'fail', not {schemas!r}")
        self._answer = make_answer_function(answer)
        self._latency_s = latency_s
        self._capacity = capacity
        self._retry_after_s = retry_after_s
        self._places = nullcontext() if capacity is None else asyncio.Semaphore(capacity)
        self._faults = faults
        self._api_key = api_key
        self._schemas: Schemas = schemas
        self._models = models
        self._requests: list[dict[str, Any]] = []
        self._attempts: Counter[str] = Counter()
        self._faults_served: Counter[str] = Counter()
        self._under_way = 0
        self._busiest = 0
        self._listener = Listener(self._handle, port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its base URL."""
        return f"http://127.0.0.1:{self._listener.port}/v1"

    @property
    def requests(self) -> tuple[dict[str, Any], ...]:
        """The bodies of all calls so far that had the right key, in the order they came, whatever
        they were answered.
        """
        return tuple(self._requests)

    @property
    def max_concurrent_calls(self) -> int:
        """The most calls that it worked on at once.

        Those that were refused or waited for their turn do not count.
        """
        return self._busiest

    @property
    def faults_served(self) -> dict[str, int]:
        """How often each kind of fault was served."""
        return dict(self._faults_served)

    def stop(self) -> None:
        """Break off what is under way and free the port; from then on connections are refused.

        A second time does nothing.
        """
        self._listener.stop()

    async def _handle(self, request: Request, connection: Connection) -> None:
        try:
            await self._route(request, connection)
        except Refused as refused:
            connection.send(refused.status, refused.body, headers=refused.headers)

    async def _route(self, request: Request, connection: Connection) -> None:
        match request.method, request.path.partition("?")[0]:
            case "GET", "/health":
                connection.send(200, {"status": "ok"})
            case "GET", "/v1/models":
                self._check_key(request)
                connection.send(200, model_list(self._models or ("any",)))
            case "POST", "/v1/chat/completions":
                self._check_key(request)
                await self._complete_chat(request, connection)
            case method, path:
                raise Refused(
                    404, f"There is no {method} {path} here. Does the base URL end in /v1?"
                )

    def _check_key(self, request: Request) -> None:
        if (
            self._api_key is not None
            and request.headers.get("authorization") != f"Bearer {self._api_key}"
        ):
            raise Refused(401, "Incorrect API key provided.", code="invalid_api_key")

    async def _complete_chat(self, request: Request, connection: Connection) -> None:
        """One call: recorded, checked, then worked on.

        Nothing is awaited between its answer and the end of its place.
        """
        body = _parse_body(request.body)
        self._requests.append(body)
        self._check(body)
        async with self._take_slot():
            latency_s = self._latency_s(body) if callable(self._latency_s) else self._latency_s
            kind = self._fault(body)
            text = None if kind else await self._text(body)
            await asyncio.sleep(latency_s)
            if self._faults and kind:
                self._faults_served[kind] += 1
                await FAULTS[kind](Call(body, connection, self._faults.retry_after_s))
            else:
                payload = encode(body, completion(body, text))
                connection.send(200, payload.content, kind=payload.kind)

    def _check(self, body: Mapping[str, Any]) -> None:
        if body.get("n", 1) != 1:
            raise Refused(400, "This server gives one answer a call (n=1).")
        if self._models is not None and body["model"] not in self._models:
            raise Refused(
                404, f"The model {body['model']!r} does not exist.", code="model_not_found"
            )
        if self._schemas in ("refuse", "fail") and _asks_for_schema(body):
            message = "response_format.type: Input should be 'text' or 'json_object'"
            raise Refused(400 if self._schemas == "refuse" else 500, message)

    @asynccontextmanager
    async def _take_slot(self) -> AsyncIterator[None]:
        """One of the places that `capacity` allows."""
        if self._retry_after_s is not None and self._under_way == self._capacity:
            message = f"Rate limit reached: {self._capacity} calls at once."
            raise Refused(
                429, message, code="rate_limit_exceeded", retry_after_s=self._retry_after_s
            )
        async with self._places:
            self._under_way += 1
            self._busiest = max(self._busiest, self._under_way)
            try:
                yield
            finally:
                self._under_way -= 1

    def _fault(self, body: Mapping[str, Any]) -> str | None:
        if self._faults is None:
            return None
        same = json.dumps(body, sort_keys=True)
        self._attempts[same] += 1
        return self._faults.kind(body, self._attempts[same] - 1)

    async def _text(self, body: dict[str, Any]) -> str:
        asked = (
            body
            if self._schemas
            else {name: value for name, value in body.items() if name != "response_format"}
        )
        try:
            answer = self._answer(asked)
            text = await answer if inspect.isawaitable(answer) else answer
        except Refused:
            raise
        except Exception as error:
            raise Refused(500, f"{type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise Refused(500, f"the answer to a call has to be a str, not {type(text).__name__}")
        return text


def _parse_body(content: bytes) -> dict[str, Any]:
    """The body of a call. Refused unless it is an object with a model and messages."""
    try:
        body = json.loads(content)
    except ValueError as error:
        raise Refused(400, f"The body is not JSON: {error}") from error
    messages = body.get("messages") if isinstance(body, dict) else None
    if (
        not messages
        or not isinstance(messages, list)
        or not all(isinstance(one, dict) for one in messages)
    ):
        raise Refused(400, "The body has to be an object with `messages`, a list of objects.")
    if not isinstance(body.get("model"), str):
        raise Refused(400, "You must provide a model.")
    return body


def _asks_for_schema(body: Mapping[str, Any]) -> bool:
    wanted = body.get("response_format")
    return isinstance(wanted, dict) and wanted.get("type") == "json_schema"
