"""A real chat server on loopback that speaks the OpenAI API, with delays, limits and faults to
order, and a Chat that needs no server.
"""

import asyncio
import hashlib
import inspect
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from rlver_gym.io.errors import ChatError, UnknownName
from rlver_gym.llm_client.values import ChatAnswer, ChatRequest
from rlver_gym.testing.http import JSON, Connection, Listener, Request, head

Body = Mapping[str, Any]
"""A request's or an answer's JSON object."""
Answer = str | Iterable[str | Exception] | Callable[[dict[str, Any]], str | Awaitable[str]]
Schemas = bool | Literal["refuse", "fail"]
_TEXT = "I hear you, and I am glad that you told me."
_NONSENSE = "Tin umbrella, eleven of }} the the, {beneath ~~ 青い."
_DRIP_S, _READ_S = 0.05, 0.01


class Refused(Exception):
    """Raised by an answer function: the call gets this error for an answer."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        """`status` is HTTP's, `code` OpenAI's short name for what was wrong."""
        super().__init__(message)
        self.status, self.body = status, error(status, message, code)
        self.headers = {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"}


def error(status: int, message: str, code: str | None = None) -> Body:
    """The body of an answer that is no 200."""
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(status)
    kind = kind or ("server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def completion(
    body: Body, text: str | None, *, finish_reason: str = "stop", refusal: str | None = None
) -> dict[str, Any]:
    """The completion that answers the request `body` with `text`: the same for the same words."""
    answer = {"role": "assistant", "content": text, "refusal": refusal}
    asked = sum(_tokens(str(message.get("content"))) for message in body["messages"])
    told = _tokens(text or refusal or "")
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [
            {"index": 0, "message": answer, "finish_reason": finish_reason, "logprobs": None}
        ],
        "usage": {"prompt_tokens": asked, "completion_tokens": told, "total_tokens": asked + told},
    }


def _tokens(text: str) -> int:
    return 1 + len(text) // 4


class Payload(NamedTuple):
    """The bytes of an answer, and their Content-Type."""

    content: bytes
    kind: str


def encode(body: Body, answer: Body) -> Payload:
    """A completion as the request `body` asks for it: JSON, or with `stream` server-sent events."""
    if not body.get("stream"):
        return Payload(json.dumps(answer).encode(), JSON)
    events = [*map(json.dumps, _chunks(answer, body.get("stream_options") or {})), "[DONE]"]
    return Payload("".join(f"data: {one}\n\n" for one in events).encode(), "text/event-stream")


def _chunks(answer: Body, options: Body) -> Iterator[Body]:
    shared = {**answer, "object": "chat.completion.chunk"}
    usage = shared.pop("usage")
    shared |= {"usage": None} if options.get("include_usage") else {}
    for choice in answer["choices"]:
        message = choice["message"]
        deltas: list[Body] = [{"role": message["role"], "content": ""}]
        for name in ("content", "refusal"):
            text = message[name] or ""
            step = max(8, -(-len(text) // 32))
            deltas += [{name: text[at : at + step]} for at in range(0, len(text), step)]
        rest = {"index": choice["index"], "logprobs": None}
        for delta in deltas:
            yield {**shared, "choices": [{**rest, "delta": delta, "finish_reason": None}]}
        end = {**rest, "delta": {}, "finish_reason": choice["finish_reason"]}
        yield {**shared, "choices": [end]}
    if options.get("include_usage"):
        yield {**shared, "choices": [], "usage": usage}


_REFUSALS = {
    "rate_limit": lambda wait_s: Refused(429, "Rate limit reached.", code="rate_limit_exceeded"),
    "rate_limit_wait": lambda wait_s: Refused(429, "Please wait.", retry_after_s=wait_s),
    "server_error": lambda wait_s: Refused(500, "The server had an error."),
    "overloaded": lambda wait_s: Refused(503, "The engine is currently overloaded."),
}
FAULTS = {
    "rate_limit": "429 that does not say for how long",
    "rate_limit_wait": "429 with Retry-After",
    "server_error": "500 with OpenAI's error body",
    "overloaded": "503 with OpenAI's error body",
    "html": "502 with a page for people",
    "hang": "no answer, until the client gives up or the server is stopped",
    "drip": "200, then a blank every 50 ms without end",
    "reset": "200, half of the body, then a TCP reset",
    "truncated": "200, but the JSON, or the stream, ends half-way",
    "wrong_schema": "200 and JSON, but no completion",
    "no_choices": "200 and a completion without choices",
    "refusal": "200 and a completion whose content is null, because the model refused",
    "content_filter": "200 and a completion that a filter cut off in the middle",
    "huge": "200 and a completion of 10 MB",
    "nonsense": "200 and a completion that has nothing to do with what was asked for",
}
"""Every kind of fault, and what the client gets."""
ALL = frozenset(FAULTS)


@dataclass(frozen=True)
class Faults:
    """Which calls go wrong, and how. Decided by seed, content and attempt alone, so calls that come
    in another order fare the same.
    """

    rate: float
    """The share of calls that are hit, in [0, 1]."""
    only: Collection[str] = ALL
    """The kinds of fault, all equally likely. Their names are the keys of `FAULTS`."""
    seed: int = 0
    retry_after_s: float = 0.1
    """What `rate_limit_wait` asks for."""

    def __post_init__(self) -> None:
        """ValueError and UnknownName for what cannot be meant."""
        if not 0 <= self.rate <= 1:
            raise ValueError(f"the rate of faults is a share from 0 to 1, not {self.rate!r}")
        if isinstance(self.only, str) or not self.only:
            raise ValueError(f"only takes a set of kinds, as in only={{'hang'}}, not {self.only!r}")
        for name in sorted(set(self.only) - ALL):
            raise UnknownName.of("fault", name, FAULTS, "rlver_gym.testing.chat_server.FAULTS")

    def kind(self, body: Body, attempt: int) -> str | None:
        """The fault that hits this call, or None. `attempt` counts equal bodies from 0."""
        content = json.dumps([self.seed, attempt, body], sort_keys=True)
        digest = hashlib.sha256(content.encode()).digest()
        if int.from_bytes(digest[:8]) >= self.rate * 2**64:
            return None
        return sorted(self.only)[int.from_bytes(digest[8:16]) % len(self.only)]


async def _serve_fault(kind: str, body: Body, connection: Connection, wait_s: float) -> None:
    if kind in _REFUSALS:
        raise _REFUSALS[kind](wait_s)
    if kind == "html":
        page = b"<html><head><title>502 Bad Gateway</title></head><body></body></html>"
        return connection.send(502, page, kind="text/html")
    if kind == "hang":
        await asyncio.get_running_loop().create_future()
    if kind == "drip":
        connection.write(head(200, 1 << 30, JSON, {}))
        while True:
            await asyncio.sleep(_DRIP_S)
            connection.write(b" ")
    answer: Body = completion(body, _TEXT)
    if kind == "wrong_schema":
        return connection.send(200, {"status": "ok", "result": {"output": _TEXT}})
    if kind == "no_choices":
        answer = {**answer, "choices": []}
    elif kind == "refusal":
        answer = completion(body, None, refusal="I'm sorry, I can't help with that.")
    elif kind == "content_filter":
        answer = completion(body, _TEXT[:17], finish_reason="content_filter")
    elif kind == "huge":
        answer = completion(body, _TEXT * ((10 << 20) // len(_TEXT) + 1))
    elif kind == "nonsense":
        answer = completion(body, _NONSENSE)
    whole, form = encode(body, answer)
    half = whole[: len(whole) // 2]
    if kind == "reset":
        connection.write(head(200, len(whole), form, {}) + half)
        await asyncio.sleep(_READ_S)  # a reset throws away what the client has not read
        return connection.reset()
    return connection.send(200, half if kind == "truncated" else whole, kind=form)


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
        of the request's body, async or not, which runs on the server's thread (so it must not
        block) and whose exceptions are answered with 500, but for `Refused`.
        latency_s: how long each call takes, or a function of the body that says so.
        capacity: how many calls it works on at once. A call beyond it gets 429 with
        `retry_after_s`, or waits for its turn where that is None.
        faults: which calls go wrong. They do not use up texts.
        api_key: the only key that is let in; None lets all in.
        schemas: what becomes of a JSON schema. True: `answer` sees it. False: it is silently
        ignored. "refuse": 400. "fail": 500. There are real servers of each sort.
        models: the names that it serves, others get 404; None serves any.
        """
        if capacity is not None and capacity < 1:
            raise ValueError(f"the capacity is a number of calls from 1, or None, not {capacity!r}")
        if schemas not in (True, False, "refuse", "fail"):
            raise ValueError(f"schemas is True, False, 'refuse' or 'fail', not {schemas!r}")
        self._answer = make_answer_function(answer)
        self._latency_s, self._faults = latency_s, faults
        self._capacity, self._retry_after_s = capacity, retry_after_s
        self._places = nullcontext() if capacity is None else asyncio.Semaphore(capacity)
        self._api_key, self._schemas, self._models = api_key, schemas, models
        self._requests: list[dict[str, Any]] = []
        self._attempts, self._faults_served = Counter[str](), Counter[str]()
        self._under_way = self._busiest = 0
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
        """The bodies of all calls so far that had the right key, in order, whatever came of
        them.
        """
        return tuple(self._requests)

    @property
    def max_concurrent_calls(self) -> int:
        """The most calls that it worked on at once."""
        return self._busiest

    @property
    def faults_served(self) -> dict[str, int]:
        """How often each kind of fault was served."""
        return dict(self._faults_served)

    def stop(self) -> None:
        """Break off what is under way and free the port. A second time does nothing."""
        self._listener.stop()

    async def _handle(self, request: Request, connection: Connection) -> None:
        try:
            await self._route(request, connection)
        except Refused as refused:
            connection.send(refused.status, refused.body, headers=refused.headers)

    async def _route(self, request: Request, connection: Connection) -> None:
        place = request.method, request.path.partition("?")[0]
        if place == ("GET", "/health"):
            return connection.send(200, {"status": "ok"})
        if place not in (("GET", "/v1/models"), ("POST", "/v1/chat/completions")):
            where = " ".join(place)
            raise Refused(404, f"There is no {where} here. Does the base URL end in /v1?")
        key = request.headers.get("authorization")
        if self._api_key is not None and key != f"Bearer {self._api_key}":
            raise Refused(401, "Incorrect API key provided.", code="invalid_api_key")
        if request.method == "POST":
            return await self._complete_chat(request, connection)
        shared = {"object": "model", "created": 0, "owned_by": "rlver-gym"}
        models = [{"id": name, **shared} for name in self._models or ("any",)]
        return connection.send(200, {"object": "list", "data": models})

    async def _complete_chat(self, request: Request, connection: Connection) -> None:
        """One call: recorded, checked, then worked on. Nothing is awaited between its answer and
        the end of its place.
        """
        body = self._check(request.body)
        if self._retry_after_s is not None and self._under_way == self._capacity:
            message, code = f"Rate limit: {self._capacity} calls at once.", "rate_limit_exceeded"
            raise Refused(429, message, code=code, retry_after_s=self._retry_after_s)
        async with self._places:
            self._under_way += 1
            self._busiest = max(self._busiest, self._under_way)
            try:
                latency_s = self._latency_s(body) if callable(self._latency_s) else self._latency_s
                kind = self._draw_fault(body)
                text = None if kind else await self._text(body)
                await asyncio.sleep(latency_s)
                if self._faults and kind:
                    self._faults_served[kind] += 1
                    await _serve_fault(kind, body, connection, self._faults.retry_after_s)
                else:
                    payload = encode(body, completion(body, text))
                    connection.send(200, payload.content, kind=payload.kind)
            finally:
                self._under_way -= 1

    def _check(self, content: bytes) -> dict[str, Any]:
        """The body of a call. Refused unless it is one that can be answered."""
        try:
            body = json.loads(content)
        except ValueError as problem:
            raise Refused(400, f"The body is not JSON: {problem}") from problem
        messages = body.get("messages") if isinstance(body, dict) else None
        is_list = isinstance(messages, list) and all(isinstance(one, dict) for one in messages)
        if not messages or not is_list:
            raise Refused(400, "The body has to be an object with `messages`, a list of objects.")
        if not isinstance(body.get("model"), str):
            raise Refused(400, "You must provide a model.")
        self._requests.append(body)
        if body.get("n", 1) != 1:
            raise Refused(400, "This server gives one answer a call (n=1).")
        if self._models is not None and body["model"] not in self._models:
            message = f"The model {body['model']!r} does not exist."
            raise Refused(404, message, code="model_not_found")
        form = body.get("response_format")
        if self._schemas in ("refuse", "fail") and (form or {}).get("type") == "json_schema":
            message = "response_format.type: Input should be 'text' or 'json_object'"
            raise Refused(400 if self._schemas == "refuse" else 500, message)
        return body

    def _draw_fault(self, body: Body) -> str | None:
        if self._faults is None:
            return None
        same = json.dumps(body, sort_keys=True)
        self._attempts[same] += 1
        return self._faults.kind(body, self._attempts[same] - 1)

    async def _text(self, body: dict[str, Any]) -> str:
        hidden = () if self._schemas else ("response_format",)
        try:
            answer = self._answer({name: body[name] for name in body if name not in hidden})
            text = await answer if inspect.isawaitable(answer) else answer
        except Refused:
            raise
        except Exception as problem:
            raise Refused(500, f"{type(problem).__name__}: {problem}") from problem
        if not isinstance(text, str):
            raise Refused(500, f"the answer to a call has to be a str, not {type(text).__name__}")
        return text


class ScriptedChat:
    """A `Chat` that answers from a script, for `LLMUser(chat=ScriptedChat([...]))` in tests."""

    def __init__(
        self,
        answers: str
        | Iterable[str | ChatAnswer | Exception]
        | Callable[[ChatRequest], str | ChatAnswer],
    ) -> None:
        """`answers`: one text for every request; texts in order (an exception is raised when its
        turn comes); or a function of the request. A ChatAnswer comes as it is: cut off, say.
        """
        self.requests: list[ChatRequest] = []
        """What was asked, in order."""
        self._answer = make_answer_function(answers)

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The script's answer, at once. ChatError when a list is used up."""
        self.requests.append(request)
        text = self._answer(request)
        if isinstance(text, ChatAnswer):
            return text
        asked = sum(_tokens(message.content) for message in request.messages)
        return ChatAnswer(text, "stop", asked, _tokens(text))


def make_answer_function(answers: Any) -> Callable[[Any], Any]:
    """The function that a script stands for."""
    if callable(answers):
        return answers
    if isinstance(answers, str):
        return lambda _: answers
    script = tuple(answers)
    left = iter(script)

    def answer(_: Any) -> Any:
        following = next(left, None)
        if following is None:
            raise ChatError(
                f"the script is used up: it holds {len(script)} answers, and one more was asked for"
            )
        if isinstance(following, Exception):
            raise following
        return following

    return answer
