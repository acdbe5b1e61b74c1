"""What the modes of a hostile server are made of: a completion to spoil, OpenAI's errors."""

import json
from copy import deepcopy

from hostile_server import Mode

JSON_TYPE = "Content-Type: application/json"
_MESSAGE = {"role": "assistant", "content": "I hear you."}
COMPLETION = {
    "id": "x",
    "object": "chat.completion",
    "created": 0,
    "model": "m",
    "choices": [{"index": 0, "message": _MESSAGE, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6},
}
GOOD = json.dumps(COMPLETION).encode()
MIB = 1 << 20


def modes(group, variants):
    for name, *steps in variants:
        yield Mode(f"{group}.{name}", (tuple(steps),))


def completion_body(text):
    completion = deepcopy(COMPLETION)
    completion["choices"][0]["message"]["content"] = text
    return json.dumps(completion).encode()


def error_body(message, **fields):
    """An error as the OpenAI API shapes it."""
    error = {"message": message, "type": "invalid_request_error", **fields}
    return json.dumps({"error": error}).encode()
