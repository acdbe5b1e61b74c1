"""What is sent to an OpenAI-compatible server and how its answers are read.

Text from outside becomes values here.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from rlver_gym.core.answer import (
    Content,
    Ending,
    classify_ending,
    explain,
    explain_silence,
    mend_surrogates,
    read_content,
)
from rlver_gym.io.json_text import parse_json
from rlver_gym.io.terminal import one_line
from rlver_gym.llm_client.events import is_event_stream, join_events
from rlver_gym.llm_client.retries import Failure, Kind, retry_after_s
from rlver_gym.llm_client.values import ChatAnswer, ChatRequest

OPTIONAL = frozenset({"temperature", "max_tokens", "seed", "response_format"})
"""The fields that a request can do without. Whatever a server says, no others are left out."""
_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size)|too many tokens|prompt is too long|reduce the length",
    re.IGNORECASE,
)
_OF_SCHEMA = re.compile(
    r"response_format|json_schema|json_object|guided|grammar|structured output", re.IGNORECASE
)
_FILTERED = re.compile(r"content[ _](filter|policy|management)|moderation", re.IGNORECASE)
_OVERLOADED = (429, 503, 529)
_SCHEMA = frozenset({"response_format"})
_MAX_FINISH_REASON_CHARS = 40
_MAX_VALUES = 50_000
"""In a body. It is parsed while all other requests wait, and a megabyte of small values takes half
a second.
"""


def build_body(request: ChatRequest, left_out: Collection[str] = ()) -> dict[str, Any]:
    """The JSON of a request.

    `left_out`: fields that this model does not take; the limit of tokens then goes by its newer
    name.
    """
    fields = {
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "response_format": None if request.schema is None else _format(request.schema),
    }
    sent = {
        name: value for name, value in fields.items() if value is not None and name not in left_out
    }
    if "max_tokens" in left_out and request.max_tokens is not None:
        sent["max_completion_tokens"] = request.max_tokens
    messages = [{"role": message.role, "content": message.content} for message in request.messages]
    return {"model": request.model, "messages": messages, **sent}


def _format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": dict(schema), "strict": True},
    }


class ParsedAnswer(NamedTuple):
    """The parsed body of a response: an answer or why it is none, and what it cost all the same."""

    result: ChatAnswer | Failure
    prompt_tokens: int = 0
    completion_tokens: int = 0


def parse_answer(content: bytes, kind: str) -> ParsedAnswer:
    """The answer in the body of a successful response, whole or as a stream of events; `kind` is
    its Content-Type.
    """
    try:
        found = join_events(content) if is_event_stream(content, kind) else _parse(content)
    except json.JSONDecodeError:
        return ParsedAnswer(_no_json(kind))
    except ValueError as error:
        return ParsedAnswer(Failure(Kind.MALFORMED, "JSON that cannot be used", quote=str(error)))
    try:
        choice = found["choices"][0]  # the first is meant, however many there are
        message = read_content(choice["message"])
        reason = choice.get("finish_reason")
        if not isinstance(reason, str | None):
            raise TypeError("a finish_reason that is no text")
    except (AttributeError, TypeError, LookupError):
        return ParsedAnswer(_no_completion(found))
    ending = "broken" if choice.get("error") else classify_ending(reason)
    usage = found.get("usage")
    prompt, written = (_count(usage, name) for name in ("prompt_tokens", "completion_tokens"))
    failure = _explain_missing_answer(message, ending)
    reason = reason and one_line(reason, max_chars=_MAX_FINISH_REASON_CHARS)
    answer = failure or ChatAnswer(mend_surrogates(message.text), reason, prompt, written)
    return ParsedAnswer(answer, prompt, written)


def _parse(content: bytes) -> Any:
    return parse_json(content, max_values=_MAX_VALUES, allow_nan=True, allow_surrogates=True)


def _explain_missing_answer(message: Content, ending: Ending) -> Failure | None:
    """Why a completion is no answer; None when it is one."""
    if message.refusal:
        return Failure(Kind.DECLINED, "the model declined to answer")
    if ending == "withheld":
        return Failure(Kind.DECLINED, "a content filter of the server withheld the answer")
    if ending == "broken":
        return Failure(Kind.MALFORMED, "an answer that the server broke off")
    silence = explain_silence(message, ending)
    return silence and Failure(Kind.MALFORMED, f"an answer without text: {explain(silence)}")


def _no_json(kind: str) -> Failure:
    if "json" in kind:
        return Failure(Kind.MALFORMED, "a body that is no complete JSON")
    return Failure(
        Kind.MALFORMED,
        "something else than JSON; does base_url end in /v1? It calls itself",
        quote=kind,
    )


def _no_completion(found: Any) -> Failure:
    if isinstance(found, dict) and found.get("error"):
        return Failure(
            Kind.MALFORMED, "an error instead of an answer", quote=mend_surrogates(_message(found))
        )
    if isinstance(found, dict) and found.get("choices") == []:
        return Failure(Kind.MALFORMED, "an answer without choices")
    return Failure(Kind.MALFORMED, "JSON that is no chat completion; does base_url end in /v1?")


def _count(usage: Any, name: str) -> int:
    """A count of tokens; 0 when the server does not say, or says nonsense."""
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if type(count) is int and 0 <= count < 1 << 40 else 0  # bool is an int, too


def classify_http_error(status: int, content: bytes, headers: Mapping[str, str]) -> Failure:
    """The failure that an HTTP error means. It quotes the server's message, still to be masked."""
    try:
        found = parse_json(content, max_values=_MAX_VALUES, allow_nan=True)
    except ValueError:
        found = None
    message, everything = _message(found), str(found)
    says = Failure(Kind.REFUSED, f"HTTP {status}", status, quote=message)
    wait_s = retry_after_s(headers.get("retry-after"))
    if status == 402 or (status == 429 and "insufficient_quota" in everything):
        return says
    if status in _OVERLOADED:
        return says._replace(kind=Kind.BUSY, retry_after_s=wait_s)
    if status >= 500 or status in (408, 409, 425):
        blames = _SCHEMA if _OF_SCHEMA.search(message) else frozenset()
        return says._replace(kind=Kind.BROKEN, retry_after_s=wait_s, blames=blames)
    if status in (400, 413, 422) and (_TOO_LONG.search(everything) or _FILTERED.search(everything)):
        return says._replace(kind=Kind.UNUSABLE)
    if status in (401, 403):
        return says
    return says._replace(blames=_find_blamed_fields(found))


def _find_blamed_fields(found: Any) -> frozenset[str]:
    """The field that the server names as one that this model does not take; where it names none, a
    schema is the likeliest.
    """
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict) and str(error.get("code")).startswith("unsupported"):
        return OPTIONAL & {str(error.get("param") or "response_format").partition(".")[0]}
    return _SCHEMA


def _message(found: Any) -> str:
    """The server's error message, without what it repeats of the request.

    Empty when it has none in a known place.
    """
    if isinstance(found, dict):
        error = found.get("error") or found.get("detail") or found.get("message") or found
        if isinstance(error, list):  # FastAPI: one entry a field, which would also repeat the input
            error = "; ".join(
                str(part.get("msg", "")) for part in error[:3] if isinstance(part, dict)
            )
        if isinstance(error, dict):
            error = error.get("message") or error.get("code") or ""
        return " ".join(str(error)[:1000].split()) if isinstance(error, str | int) else ""
    return ""
