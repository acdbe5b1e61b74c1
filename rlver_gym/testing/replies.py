"""The bodies that a chat server sends: completions, whole or as a stream, lists of models and
errors, as the OpenAI API shapes them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rlver_gym.testing.wire import JSON

Body = Mapping[str, Any]
"""A request's or an answer's JSON object."""
EVENT_STREAM = "text/event-stream"
_MAX_PIECES = 32
_MIN_PIECE_CHARS = 8


class Payload(NamedTuple):
    """The bytes of an answer, and what they are."""

    content: bytes
    kind: str
    """The value of Content-Type."""


class Refused(Exception):
    """A call that gets an error for an answer. Raised inside the server only."""

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
        self.status = status
        self.body = error(status, message, code)
        self.headers = {} if retry_after_s is None else retry_after(retry_after_s)


def completion(
    body: Body, text: str | None, *, finish_reason: str = "stop", refusal: str | None = None
) -> Body:
    """The completion that answers the request `body` with `text`.

    The same for the same words: it knows no time and no number.
    """
    answer = {"role": "assistant", "content": text, "refusal": refusal}
    asked = sum(tokens(str(message.get("content"))) for message in body["messages"])
    said = tokens(text or refusal or "")
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [
            {"index": 0, "message": answer, "finish_reason": finish_reason, "logprobs": None}
        ],
        "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
    }


def encode(body: Body, answer: Body) -> Payload:
    """A completion in the form that the request `body` asks for: JSON, or, where it says `stream`,
    server-sent events that end with `[DONE]`.
    """
    if not body.get("stream"):
        return Payload(json.dumps(answer).encode(), JSON)
    events = [*map(json.dumps, _chunks(answer, _wants_usage(body))), "[DONE]"]
    return Payload("".join(f"data: {one}\n\n" for one in events).encode(), EVENT_STREAM)


def _wants_usage(body: Body) -> bool:
    options = body.get("stream_options")
    return isinstance(options, Mapping) and bool(options.get("include_usage"))


def _chunks(answer: Body, with_usage: bool) -> Iterator[Body]:
    """A completion in pieces: the role, the words, why it ended, and what it used, where that is
    asked for.
    """
    shared = {**answer, "object": "chat.completion.chunk"}
    usage = shared.pop("usage")
    shared |= {"usage": None} if with_usage else {}
    for choice in answer["choices"]:
        for delta in _deltas(choice["message"]):
            yield {**shared, "choices": [_chunk_choice(choice, delta, None)]}
        yield {**shared, "choices": [_chunk_choice(choice, {}, choice["finish_reason"])]}
    if with_usage:
        yield {**shared, "choices": [], "usage": usage}


def _deltas(message: Body) -> Iterator[Body]:
    yield {"role": message["role"], "content": ""}
    for name in ("content", "refusal"):
        text = message[name] or ""
        length = max(_MIN_PIECE_CHARS, -(-len(text) // _MAX_PIECES))
        for start in range(0, len(text), length):
            yield {name: text[start : start + length]}


def _chunk_choice(choice: Body, delta: Body, finish_reason: str | None) -> Body:
    return {
        "index": choice["index"],
        "delta": delta,
        "finish_reason": finish_reason,
        "logprobs": None,
    }


def model_list(names: Iterable[str]) -> Body:
    """What `GET /v1/models` answers."""
    models = [
        {"id": name, "object": "model", "created": 0, "owned_by": "rlver-gym"} for name in names
    ]
    return {"object": "list", "data": models}


def error(status: int, message: str, code: str | None = None) -> Body:
    """The body of an answer that is no 200."""
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(status)
    kind = kind or ("server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def retry_after(seconds: float) -> dict[str, str]:
    """The header that asks a client to wait.

    HTTP means whole seconds; clients of the OpenAI API read fractions too.
    """
    return {"Retry-After": f"{seconds:g}"}


def tokens(text: str) -> int:
    """How many tokens a text is said to have: one for every four characters, and at least one."""
    return 1 + len(text) // 4
