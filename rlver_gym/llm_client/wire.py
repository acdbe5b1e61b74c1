"""What is sent to an OpenAI-compatible server and how its answers are read.

Text from outside becomes values here.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from rlver_gym.core.answer import (
    Content,
    Ending,
    classify_ending,
    explain_missing_words,
    explain_silence,
    mend_surrogates,
    read_content,
)
from rlver_gym.llm_client.refusals import (
    MAX_VALUES,
    OPTIONAL,
    SYSTEM,
    Failure,
    Kind,
    classify_error,
    quote_message,
)
from rlver_gym.llm_client.values import ChatAnswer, ChatMessage, ChatRequest
from rlver_gym.util.json_text import parse_json
from rlver_gym.util.terminal import one_line

_MAX_FINISH_REASON_CHARS = 40
_MAX_EVENTS = 20_000


def build_body(request: ChatRequest, left_out: Collection[str] = ()) -> dict[str, Any]:
    """The JSON of a request.

    `left_out`: fields that this model does not take; the limit of tokens then goes by its newer
    name, and the system role's text begins the first message. What the request asks for in so many
    words (its options) is never left out.
    """
    schema = {"name": "answer", "schema": dict(request.schema or {}), "strict": True}
    form = {"type": "json_schema", "json_schema": schema}
    fields = {
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "max_completion_tokens": request.max_tokens if "max_tokens" in left_out else None,
        "seed": request.seed,
        "response_format": None if request.schema is None else form,
    }
    sent = {
        name: value for name, value in fields.items() if value is not None and name not in left_out
    }
    messages = _fold_system(request.messages) if SYSTEM in left_out else request.messages
    plain = [message._asdict() for message in messages]
    return {"model": request.model, "messages": plain, **sent, **(request.options or {})}


def list_optional_fields(request: ChatRequest, left_out: Collection[str]) -> frozenset[str]:
    sent = build_body(request, left_out).keys() & OPTIONAL - (request.options or {}).keys()
    roles = [message.role for message in request.messages]
    alternates = "system" not in roles and all(map(str.__ne__, roles, roles[1:]))
    return frozenset(sent if alternates or SYSTEM in left_out else sent | {SYSTEM})


def _fold_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The same words without a system role, user and assistant in turn."""
    folded: list[ChatMessage] = []
    for message in messages:
        role = "user" if message.role == "system" else message.role
        if folded and folded[-1].role == role:
            folded[-1] = ChatMessage(role, f"{folded[-1].content}\n\n{message.content}")
        else:
            folded.append(ChatMessage(role, message.content))
    return folded


class ParsedAnswer(NamedTuple):
    """The parsed body of a response: an answer or why it is none, and what it cost all the same."""

    result: ChatAnswer | Failure
    prompt_tokens: int = 0
    completion_tokens: int = 0


def parse_answer(content: bytes, kind: str) -> ParsedAnswer:
    """The answer in the body of a successful response, whole or as a stream of events; `kind` is
    its Content-Type.
    """
    is_stream = content.lstrip().startswith((b"data:", b"event:", b": "))
    try:
        found = _join_events(content) if is_stream or "event-stream" in kind else _parse(content)
    except json.JSONDecodeError:
        whole = "a body that is no complete JSON"
        other = "something else than JSON; does base_url end in /v1? It calls itself"
        failure = Failure(Kind.MALFORMED, whole) if "json" in kind else _reject_answer(other, kind)
        return ParsedAnswer(failure)
    except ValueError as error:
        return ParsedAnswer(_reject_answer("JSON that cannot be used", str(error)))
    try:
        choice = found["choices"][0]  # the first is meant, however many there are
        message = read_content(choice["message"])
        reason = choice.get("finish_reason")
        if not isinstance(reason, str | None):
            raise TypeError("a finish_reason that is no text")
    except (AttributeError, TypeError, LookupError):
        return ParsedAnswer(_explain_no_completion(found))
    ending = "broken" if choice.get("error") else classify_ending(reason)
    usage = found.get("usage")
    prompt, written = (_count(usage, name) for name in ("prompt_tokens", "completion_tokens"))
    failure = _explain_missing_answer(message, ending)
    reason = reason and one_line(reason, max_chars=_MAX_FINISH_REASON_CHARS)
    answer = failure or ChatAnswer(mend_surrogates(message.text), reason, prompt, written)
    return ParsedAnswer(answer, prompt, written)


def _parse(content: bytes) -> Any:
    return parse_json(content, max_values=MAX_VALUES, allow_nan=True, allow_surrogates=True)


def _reject_answer(reason: str, quote: str = "") -> Failure:
    return Failure(Kind.MALFORMED, reason, quote=quote)


def _explain_missing_answer(message: Content, ending: Ending) -> Failure | None:
    """Why a completion is no answer; None when it is one."""
    if message.refusal:
        return Failure(Kind.DECLINED, "the model declined to answer")
    if ending == "withheld":
        return Failure(Kind.DECLINED, "a content filter of the server withheld the answer")
    if ending == "broken":
        return _reject_answer("an answer that the server broke off")
    silence = explain_silence(message, ending)
    return silence and _reject_answer(f"an answer without text: {explain_missing_words(silence)}")


def _explain_no_completion(found: Any) -> Failure:
    if isinstance(found, dict) and (error := found.get("error")):
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, int) and 400 <= code < 500:
            return classify_error(code, found)
        return _reject_answer(
            "an error instead of an answer", mend_surrogates(quote_message(found))
        )
    if isinstance(found, dict) and found.get("choices") == []:
        return _reject_answer("an answer without choices")
    return _reject_answer("JSON that is no chat completion; does base_url end in /v1?")


def _count(usage: Any, name: str) -> int:
    """A count of tokens; 0 when the server does not say, or says nonsense."""
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if type(count) is int and 0 <= count < 1 << 40 else 0  # bool is an int, too


def _join_events(content: bytes) -> dict[str, Any]:
    """The whole completion, as if it had come at once. One that ends neither in a finish_reason nor
    in `[DONE]` broke off, which is its finish_reason then. ValueError for what is no such stream.
    """
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES:,} values")
    parts: list[Content] = []
    reason = usage = error = None
    is_done = False
    for data in _iterate_events(content):
        if data == b"[DONE]":
            is_done = True
            break
        event = parse_json(data, allow_nan=True, allow_surrogates=True)
        if not isinstance(event, dict):
            raise ValueError("an event that is no object")
        error, usage = event.get("error") or error, event.get("usage") or usage
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(choice, dict) and choice.get("index", 0) == 0:
            try:
                parts.append(read_content(choice.get("delta") or choice.get("message") or {}))
            except (AttributeError, TypeError):
                raise ValueError("an event that is no part of a completion") from None
            reason = choice.get("finish_reason") or reason
            error = choice.get("error") or error
    if error is not None and not parts:
        return {"error": error}
    if not parts and not is_done:
        raise json.JSONDecodeError("no events", "", 0)
    text, thought, refusal = (
        ("".join(one) for one in zip(*parts, strict=True)) if parts else [""] * 3
    )
    message = {"content": text, "reasoning_content": thought, "refusal": refusal or None}
    broke_off = error is not None or not (is_done or reason)
    choice = {"message": message, "finish_reason": "error" if broke_off else reason}
    return {"choices": [choice], "usage": usage}


def _iterate_events(content: bytes) -> Iterator[bytes]:
    for line in content.splitlines()[:_MAX_EVENTS]:
        name, _, data = line.strip().partition(b":")
        if name == b"data" and data.strip():
            yield data.strip()
