"""What is sent to an OpenAI-compatible server, and how its answers are read."""

import json
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rlver_gym.answers.reading import (
    Content,
    Ending,
    classify_ending,
    explain_missing_words,
    explain_silence,
    mend_surrogates,
    read_content,
)
from rlver_gym.llm_client.body_fields import THINKING_SWITCH
from rlver_gym.llm_client.refusals import MAX_VALUES, OPTIONAL, SYSTEM, Failure, Kind, classify_body
from rlver_gym.llm_client.settings import ADDRESS
from rlver_gym.llm_client.values import ChatAnswer, ChatMessage, ChatRequest
from rlver_gym.util.json_text import parse_wire_json
from rlver_gym.util.terminal import one_line

_MAX_FINISH_REASON_CHARS = 40
_MAX_EVENTS = 20_000
_NO_COMPLETION = "JSON that is no chat completion; does base_url end in /v1?"


def build_body(request: ChatRequest, left_out: Collection[str] = ()) -> dict[str, Any]:
    """`left_out`: fields that this model does not take; the limit of tokens then goes by its newer
    name, and the system role's text begins the first message. Options are never left out.
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
    # the address tells equal names on two servers apart in a cache, and is no server's business
    model = request.model.partition(ADDRESS)[0]
    return {"model": model, "messages": plain, **sent, **(request.options or {})}


def list_optional_fields(request: ChatRequest, left_out: Collection[str]) -> frozenset[str]:
    sent = build_body(request, left_out).keys() & OPTIONAL - (request.options or {}).keys()
    roles = [message.role for message in request.messages]
    alternates = "system" not in roles and all(map(str.__ne__, roles, roles[1:]))
    return frozenset(sent if alternates or SYSTEM in left_out else sent | {SYSTEM})


def _fold_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
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
    """As the server counted them; 0 where it did not."""
    written: str | None = None
    """All that the model wrote, thoughts too; None where the body is no message of a model."""


def parse_answer(
    content: bytes, content_type: str, request_texts: Collection[str] = ()
) -> ParsedAnswer:
    """The answer in a successful body, whole or as events, or else what the server says instead."""
    body = content.removeprefix(BOM_UTF8).lstrip()
    is_stream = body.startswith((b"data:", b"event:", b"id:", b"retry:", b":"))
    is_stream = is_stream or ("event-stream" in content_type and not body.startswith(b"{"))
    try:
        plain = _join_events(body) if is_stream else parse_wire_json(content, MAX_VALUES)
    except json.JSONDecodeError:
        whole = "a body that is no complete JSON"
        other = "something else than JSON; does base_url end in /v1? It calls itself"
        is_json = "json" in content_type
        failure = _reject_answer(whole) if is_json else _reject_answer(other, content_type)
        return ParsedAnswer(failure)
    except ValueError as error:
        return ParsedAnswer(_reject_answer("JSON that cannot be used", str(error)))
    told = classify_body(plain, request_texts)
    try:
        choice = _get_choice(plain)
        message = read_content(_get_message(choice))
    except TypeError:
        is_empty = isinstance(plain, dict) and plain.get("choices") == []
        why = "an answer without choices" if is_empty else _NO_COMPLETION
        return ParsedAnswer(told or _reject_answer(why))
    reason = choice.get("finish_reason")
    reason = (
        one_line(reason, max_chars=_MAX_FINISH_REASON_CHARS) if isinstance(reason, str) else None
    )
    ending: Ending = "broken" if choice.get("error") else classify_ending(reason)
    usage = plain.get("usage")
    prompt, completion = (_count(usage, name) for name in ("prompt_tokens", "completion_tokens"))
    failure = _explain_missing_answer(message, ending)
    if (
        failure
        and failure.kind is Kind.MALFORMED
        and (told := classify_body(choice, request_texts) or told)
    ):
        failure = told._replace(reason=failure.reason) if ending == "broken" else told
    answer = failure or ChatAnswer(mend_surrogates(message.text), reason, prompt, completion)
    return ParsedAnswer(answer, prompt, completion, "".join(message))


def _get_choice(plain: Any) -> dict[str, Any]:
    choices = plain.get("choices") if isinstance(plain, dict) else None
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    raise TypeError("no choice")


def _get_message(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    message = choice.get("message") or choice.get("delta") or choice.get("text") or {}
    if isinstance(message, str):
        return {"content": message}
    if isinstance(message, dict):
        return message
    raise TypeError("no message")


def _reject_answer(reason: str, quote: str = "") -> Failure:
    return Failure(Kind.MALFORMED, reason, quote=quote)


def _explain_missing_answer(message: Content, ending: Ending) -> Failure | None:
    if message.refusal.strip():
        return Failure(Kind.DECLINED, "the model declined to answer")
    if ending == "withheld":
        return Failure(Kind.DECLINED, "a content filter of the server withheld the answer")
    if ending == "broken":
        return _reject_answer("an answer that the server broke off")
    silence = explain_silence(message, ending)
    why = explain_missing_words(silence, switch=THINKING_SWITCH)
    return silence and _reject_answer(f"an answer without text: {why}")


def _count(usage: Any, name: str) -> int:
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if type(count) is int and 0 <= count < 1 << 40 else 0  # bool is an int, too


def _join_events(content: bytes) -> dict[str, Any]:
    """The whole completion of a stream; "error" when it broke off. ValueError for no stream."""
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES:,} values")
    parts: list[Content] = []
    reason = usage = error = None
    is_done = False
    for data in _iterate_events(content):
        if data == b"[DONE]":
            is_done = True
            break
        event = parse_wire_json(data, MAX_VALUES)
        if not isinstance(event, dict):
            raise ValueError("an event that is no object")
        usage = event.get("usage") or usage
        try:
            choice = _get_choice(event)
            if choice.get("index") or 0:
                continue
            parts.append(read_content(_get_message(choice)))
        except TypeError:
            if event.get("choices"):
                raise ValueError("an event that is no part of a completion") from None
            error = event if classify_body(event) else error
            continue
        reason = choice.get("finish_reason") or reason
        error = next((value for value in (choice, event) if classify_body(value)), error)
    if error is not None and not parts:
        return {"error": error}
    if not parts and not is_done:
        raise json.JSONDecodeError("no events", "", 0)
    text, thought, refusal = map("".join, zip(*parts, strict=True)) if parts else [""] * 3
    message = {"content": text, "reasoning_content": thought, "refusal": refusal or None}
    broke_off = error is not None or not (is_done or reason)
    choice = {"message": message, "finish_reason": "error" if broke_off else reason}
    return {"choices": [choice], "usage": usage, "error": error}


def _iterate_events(content: bytes) -> Iterator[bytes]:
    for line in content.splitlines()[:_MAX_EVENTS]:
        name, _, data = line.strip().partition(b":")
        if name == b"data" and data.strip():
            yield data.strip()
