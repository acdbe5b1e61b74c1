"""A real chat server on loopback that speaks the OpenAI API, and a Chat that needs no server."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple, Self

from rlver_gym.llm_client.values import ChatAnswer, ChatRequest
from rlver_gym.testing.http import JSON, Connection, Listener, Request
from rlver_gym.util.errors import ChatError

Body = Mapping[str, Any]
"""A request's or an answer's JSON object."""
Answer = str | Iterable[str | Exception] | Callable[[dict[str, Any]], str | Awaitable[str]]


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
        super().__init__(message)
        self.status, self.body = status, error(status, message, code)
        self.headers = {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"}


def error(status: int, message: str, code: str | None = None) -> Body:
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
    choice = {"index": 0, "message": answer, "finish_reason": finish_reason, "logprobs": None}
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [choice],
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
        ends = [None] * len(deltas) + [choice["finish_reason"]]
        for delta, end in zip([*deltas, {}], ends, strict=True):
            part = {"index": choice["index"], "logprobs": None, "delta": delta}
            yield {**shared, "choices": [{**part, "finish_reason": end}]}
    if options.get("include_usage"):
        yield {**shared, "choices": [], "usage": usage}


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
        api_key: str | None = None,
        schemas: bool | Literal["refuse", "fail"] = True,
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
        api_key: the only key that is let in; None lets all in.
        schemas: what becomes of a JSON schema. True: `answer` sees it. False: it is silently
        ignored. "refuse": 400. "fail": 500. There are real servers of each sort.
        models: the names that it serves, others get 404; None serves any.
        """
        if capacity is not None and capacity < 1:
            raise ValueError(f"the capacity is a number of calls from 1, or None, not {capacity!r}")
        if schemas not in (True, False, "refuse", "fail"):
            raise ValueError(f"schemas is True, False, 'refuse' or 'fail', not {schemas!r}")
        self._answer = _make_answer_function(answer)
        self._latency_s = latency_s if callable(latency_s) else lambda _: latency_s
        self._capacity, self._retry_after_s = capacity, retry_after_s
        self._places = nullcontext() if capacity is None else asyncio.Semaphore(capacity)
        self._api_key, self._schemas, self._models = api_key, schemas, models
        self._requests: list[dict[str, Any]] = []
        self._under_way = 0
        self.max_concurrent_calls = 0
        """The most calls that it worked on at once."""
        self._listener = Listener(self._handle, port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._listener.port}/v1"

    @property
    def requests(self) -> tuple[dict[str, Any], ...]:
        return tuple(self._requests)

    def stop(self) -> None:
        """Break off what is under way and free the port. A second time does nothing."""
        self._listener.stop()

    async def _handle(self, request: Request, connection: Connection) -> None:
        try:
            await self._route(request, connection)
        except Refused as refused:
            connection.send(refused.status, refused.body, headers=refused.headers)

    async def _route(self, request: Request, connection: Connection) -> None:
        place = f"{request.method} {request.path.partition('?')[0]}"
        if place == "GET /health":
            return connection.send(200, {"status": "ok"})
        if place not in ("GET /v1/models", "POST /v1/chat/completions"):
            raise Refused(404, f"There is no {place} here. Does the base URL end in /v1?")
        if self._api_key and request.headers.get("authorization") != f"Bearer {self._api_key}":
            raise Refused(401, "Incorrect API key provided.", code="invalid_api_key")
        if request.method == "POST":
            return await self._complete_chat(self._check(request.body), connection)
        shared = {"object": "model", "created": 0, "owned_by": "rlver-gym"}
        models = [{"id": name, **shared} for name in self._models or ("any",)]
        return connection.send(200, {"object": "list", "data": models})

    async def _complete_chat(self, body: dict[str, Any], connection: Connection) -> None:
        if self._retry_after_s is not None and self._under_way == self._capacity:
            message, code = f"Rate limit: {self._capacity} calls at once.", "rate_limit_exceeded"
            raise Refused(429, message, code=code, retry_after_s=self._retry_after_s)
        async with self._places:
            self._under_way += 1
            self.max_concurrent_calls = max(self.max_concurrent_calls, self._under_way)
            try:
                await self._reply(body, connection)
            finally:
                self._under_way -= 1

    def _check(self, content: bytes) -> dict[str, Any]:
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

    async def _reply(self, body: dict[str, Any], connection: Connection) -> None:
        """Answer one call. Nothing is awaited between the answer and the end of its place."""
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
        await asyncio.sleep(self._latency_s(body))
        payload = encode(body, completion(body, text))
        connection.send(200, payload.content, kind=payload.kind)


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
        self._answer = _make_answer_function(answers)

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The script's answer, at once. ChatError when a list is used up."""
        self.requests.append(request)
        text = self._answer(request)
        if isinstance(text, ChatAnswer):
            return text
        asked = sum(_tokens(message.content) for message in request.messages)
        return ChatAnswer(text, "stop", asked, _tokens(text))


def _make_answer_function(answers: Any) -> Callable[[Any], Any]:
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
