"""A chat server some of whose calls go wrong, in every way that real servers do."""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from rlver_gym.testing.chat_server import ChatServer, Refused, completion, encode
from rlver_gym.testing.http import JSON, head

_TEXT = "I hear you, and I am glad that you told me."
_NONSENSE = "Tin umbrella, eleven of }} the the, {beneath ~~ 青い."
_DRIP_S, _READ_S = 0.05, 0.01


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
    """Which calls go wrong, and how: by seed, content and attempt, whatever their order."""

    rate: float
    """The share of calls that are hit, in [0, 1]."""
    only: Collection[str] = ALL
    """The kinds of fault, all equally likely. Their names are the keys of `FAULTS`."""
    seed: int = 0
    retry_after_s: float = 0.1
    """What `rate_limit_wait` asks for."""

    def kind(self, body, attempt):
        """The fault that hits this call, or None. `attempt` counts equal bodies from 0."""
        content = json.dumps([self.seed, attempt, body], sort_keys=True)
        digest = hashlib.sha256(content.encode()).digest()
        if int.from_bytes(digest[:8]) >= self.rate * 2**64:
            return None
        return sorted(self.only)[int.from_bytes(digest[8:16]) % len(self.only)]


async def _serve_fault(kind, body, connection, wait_s):
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
    answer = completion(body, _TEXT)
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


class FaultyServer(ChatServer):
    """A ChatServer with faults to order, which do not use up texts."""

    def __init__(self, answer, *, faults=None, **options):
        self._faults = faults
        self._attempts, self.faults_served = Counter[str](), dict[str, int]()
        super().__init__(answer, **options)

    async def _reply(self, body, connection):
        same = json.dumps(body, sort_keys=True)
        self._attempts[same] += 1
        kind = self._faults and self._faults.kind(body, self._attempts[same] - 1)
        if not kind:
            return await super()._reply(body, connection)
        assert self._faults
        await asyncio.sleep(self._latency_s(body))
        self.faults_served[kind] = self.faults_served.get(kind, 0) + 1
        return await _serve_fault(kind, body, connection, self._faults.retry_after_s)
