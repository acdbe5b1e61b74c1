"""A completion that a server sent as a stream of events, though it was asked for a whole one."""

import json
from typing import Any

from rlver_gym.core.answer import read_content
from rlver_gym.io.json_text import parse_json

_MAX_EVENTS = 20_000
_MAX_VALUES = 50_000
"""In all events. They are parsed while all other requests wait."""
_DONE = b"[DONE]"


def is_event_stream(content: bytes, kind: str) -> bool:
    """Whether a body is a stream of events; `kind` is its Content-Type."""
    return "event-stream" in kind or content.lstrip().startswith((b"data:", b"event:", b": "))


def join_events(content: bytes) -> dict[str, Any]:
    """The whole completion, as if it had come at once. One that ends neither in a finish_reason nor
    in `[DONE]` broke off, which is its finish_reason then. ValueError for what is no such stream.
    """
    if sum(map(content.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise ValueError(f"more than {_MAX_VALUES:,} values")
    text, thought, refusal = [], [], []
    reason, usage, is_done, error = None, None, False, None
    for line in content.splitlines()[:_MAX_EVENTS]:
        name, _, data = line.strip().partition(b":")
        if name != b"data" or not data.strip():
            continue
        if data.strip() == _DONE:
            is_done = True
            break
        event = parse_json(data, allow_nan=True, allow_surrogates=True)
        if not isinstance(event, dict):
            raise ValueError("an event that is no object")
        error = event.get("error") or error
        usage = event.get("usage") or usage
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict) or choice.get("index", 0) != 0:
            continue
        delta = choice.get("delta") or choice.get("message") or {}
        try:
            part = read_content(delta)
        except (AttributeError, TypeError):
            raise ValueError("an event that is no part of a completion") from None
        text.append(part.text)
        thought.append(part.thought)
        refusal.append(part.refusal)
        reason = choice.get("finish_reason") or reason
        error = choice.get("error") or error
    if error is not None and not text:
        return {"error": error}
    if not text and not is_done:
        raise json.JSONDecodeError("no events", "", 0)
    message = {"content": "".join(text), "reasoning_content": "".join(thought)}
    broke_off = error is not None or not (is_done or reason)
    return {
        "choices": [
            {
                "message": {**message, "refusal": "".join(refusal) or None},
                "finish_reason": "error" if broke_off else reason,
            }
        ],
        "usage": usage,
    }
