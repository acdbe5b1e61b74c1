"""What is sent to an OpenAI-compatible server and how its answers are read. Text from outside becomes values here."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, SecretStr, ValidationError

from rlver_gym.chat.retries import Failure, Kind, retry_after_s
from rlver_gym.chat.values import ChatAnswer, ChatRequest

EXCERPT = 200
"""Most characters shown of a server's own error message."""
_KEYS = re.compile(r"Bearer\s+\S+|\b(?:sk|pk|rk|hf|gsk|xai|key|AIza)[-_]?[\w*.-]{8,}|[A-Za-z0-9_-]{28,}")
_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size)|too many tokens|prompt is too long|reduce the length", re.IGNORECASE
)
_OF_SCHEMA = re.compile(r"response_format|json_schema|json_object|guided|grammar|structured output", re.IGNORECASE)
_FILTERED = re.compile(r"content[ _](filter|policy|management)|moderation", re.IGNORECASE)
_OVERLOADED = (429, 503, 529)
_SCHEMA = frozenset({"response_format"})


def body(request: ChatRequest, left_out: Collection[str] = ()) -> dict[str, Any]:
    """The JSON of a request. `left_out`: fields that this model does not take; the limit of tokens then goes by its newer name."""
    fields = {
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "response_format": None if request.schema is None else _format(request.schema),
    }
    sent = {name: value for name, value in fields.items() if value is not None and name not in left_out}
    if "max_tokens" in left_out and request.max_tokens is not None:
        sent["max_completion_tokens"] = request.max_tokens
    messages = [{"role": message.role, "content": message.content} for message in request.messages]
    return {"model": request.model, "messages": messages, **sent}


def _format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": True}}


class _Said(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Said
    finish_reason: str | None = None


class _Completion(BaseModel):
    """What is used of a server's answer."""

    choices: list[_Choice] = Field(min_length=1)
    usage: Any = None


class Read(NamedTuple):
    """What an answer of the server held: an answer or why it is none, and what it cost all the same."""

    result: ChatAnswer | Failure
    prompt_tokens: int = 0
    completion_tokens: int = 0


def read(content: bytes, kind: str) -> Read:
    """The answer in the body of a successful response; `kind` is its Content-Type."""
    try:
        completion = _Completion.model_validate_json(content)
    except ValidationError:
        return Read(_no_completion(content, kind))
    choice = completion.choices[0]
    prompt, written = _count(completion.usage, "prompt_tokens"), _count(completion.usage, "completion_tokens")
    text = choice.message.content or ""
    if choice.message.refusal:
        result = Failure(Kind.DECLINED, "the model declined to answer")
    elif choice.finish_reason == "content_filter":
        result = Failure(Kind.DECLINED, "a content filter of the server withheld the answer")
    elif not text.strip():
        hint = ": max_tokens is too small" if choice.finish_reason == "length" else ""
        result = Failure(Kind.MALFORMED, f"an answer without text{hint}")
    else:
        result = ChatAnswer(text, choice.finish_reason, prompt, written)
    return Read(result, prompt, written)


def _no_completion(content: bytes, kind: str) -> Failure:
    try:
        found = json.loads(content)
    except ValueError:
        if "json" in kind:
            return Failure(Kind.MALFORMED, "a body that is no complete JSON")
        return Failure(Kind.MALFORMED, f"{kind[:40] or 'something'} instead of JSON; does base_url end in /v1?")
    if isinstance(found, dict) and found.get("error"):
        return Failure(Kind.MALFORMED, f"an error instead of an answer: {_message(found)}")
    if isinstance(found, dict) and found.get("choices") == []:
        return Failure(Kind.MALFORMED, "an answer without choices")
    return Failure(Kind.MALFORMED, "JSON that is no chat completion; does base_url end in /v1?")


def _count(usage: Any, name: str) -> int:
    """A count of tokens; 0 when the server does not say, or says nonsense."""
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and 0 <= count < 1 << 40 else 0


def objection(status: int, content: bytes, headers: Mapping[str, str]) -> Failure:
    """What an HTTP error means. The reason holds the server's message, still to be masked."""
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    message = _message(found)
    reason = f"HTTP {status}" + (f": {message}" if message else "")
    wait_s = retry_after_s(headers.get("retry-after"))
    if status == 402 or (status == 429 and "insufficient_quota" in str(found)):
        return Failure(Kind.REFUSED, reason, status)
    if status in _OVERLOADED:
        return Failure(Kind.BUSY, reason, status, wait_s)
    if status >= 500 or status in (408, 409, 425):
        return Failure(Kind.BROKEN, reason, status, wait_s, _SCHEMA if _OF_SCHEMA.search(message) else frozenset())
    if status in (400, 413, 422) and (_TOO_LONG.search(str(found)) or _FILTERED.search(str(found))):
        return Failure(Kind.UNUSABLE, reason, status)
    if status in (401, 403):
        return Failure(Kind.REFUSED, reason, status)
    return Failure(Kind.REFUSED, reason, status, blames=_unsupported(found) or _SCHEMA)


def _unsupported(found: Any) -> frozenset[str]:
    """The field of the request that the server names as one that this model does not take."""
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict) and str(error.get("code")).startswith("unsupported"):
        return frozenset({str(error.get("param"))})
    return frozenset()


def _message(found: Any) -> str:
    """The server's error message, without what it repeats of the request. Empty when it has none in a known place."""
    if isinstance(found, dict):
        error = found.get("error") or found.get("detail") or found.get("message") or found
        if isinstance(error, list):  # FastAPI: one entry a field, which would also repeat the input
            error = "; ".join(str(part.get("msg", "")) for part in error[:3] if isinstance(part, dict))
        if isinstance(error, dict):
            error = error.get("message") or error.get("code") or ""
        return " ".join(str(error)[:1000].split()) if isinstance(error, str | int) else ""
    return ""


def masked(text: str, key: SecretStr | None, said: Sequence[str]) -> str:
    """An excerpt of a server's message without keys, and without words of the request that it repeats."""
    if key is not None and len(key) > 4:
        text = text.replace(key.get_secret_value(), "***")
    text = _KEYS.sub("***", text)
    repeated = "\n".join(" ".join(one.split()) for one in said)
    kept, at = [], 0
    while at < len(text):
        if len(text) - at >= 16 and text[at : at + 16] in repeated:
            length = 16
            while at + length < len(text) and text[at : at + length + 1] in repeated:
                length += 1
            kept.append("[…]")
            at += length
        else:
            kept.append(text[at])
            at += 1
    shown = "".join(kept)
    return shown if len(shown) <= EXCERPT else shown[:EXCERPT] + "…"
