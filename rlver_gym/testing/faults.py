"""What servers do instead of answering.

Each fault is one function, and which call it hits is a matter of its words, not of when it comes.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from rlver_gym.io.errors import UnknownName
from rlver_gym.testing.replies import Body, Payload, completion, encode, error, retry_after
from rlver_gym.testing.wire import JSON, Connection, head

_TEXT = "I hear you, and I am glad that you told me."
_HUGE = 10 * 1024 * 1024
_ENDLESS = 1024**3
_DRIP_S = 0.05
_READ_S = 0.01
"""Time for the client to read what there is: a reset throws away what it has not read."""


class Call(NamedTuple):
    """What a fault gets to spoil."""

    body: Body
    connection: Connection
    retry_after_s: float

    def send_completion(self, answer: Body) -> None:
        """200 and a completion, as JSON or as a stream."""
        payload = encode(self.body, answer)
        self.connection.send(200, payload.content, kind=payload.kind)


async def rate_limit(call: Call) -> None:
    """429 that does not say for how long."""
    call.connection.send(429, error(429, "Rate limit reached.", "rate_limit_exceeded"))


async def rate_limit_wait(call: Call) -> None:
    """429 with Retry-After."""
    body = error(429, "Rate limit reached. Please wait.", "rate_limit_exceeded")
    call.connection.send(429, body, headers=retry_after(call.retry_after_s))


async def server_error(call: Call) -> None:
    """500 with OpenAI's error body."""
    call.connection.send(500, error(500, "The server had an error while processing your request."))


async def overloaded(call: Call) -> None:
    """503 with OpenAI's error body."""
    call.connection.send(503, error(503, "The engine is currently overloaded."))


async def html(call: Call) -> None:
    """502 with a page for people, as a gateway sends it."""
    page = (
        b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad"
        b" Gateway</h1></body></html>"
    )
    call.connection.send(502, page, kind="text/html")


async def hang(_: Call) -> None:
    """No answer, until the client gives up or the server is stopped."""
    await asyncio.get_running_loop().create_future()


async def drip(call: Call) -> None:
    """200, then a blank every 50 ms without end: nothing that waits for the next byte ever times
    out.
    """
    call.connection.write(head(200, _ENDLESS, JSON, {}))
    while True:
        await asyncio.sleep(_DRIP_S)
        call.connection.write(b" ")


async def reset(call: Call) -> None:
    """200, half of the body, then a TCP reset."""
    whole, kind = encode(call.body, completion(call.body, _TEXT))
    call.connection.write(head(200, len(whole), kind, {}) + whole[: len(whole) // 2])
    await asyncio.sleep(_READ_S)
    call.connection.reset()


async def truncated(call: Call) -> None:
    """200 and whole HTTP, but the JSON, or the stream, in it ends half-way."""
    whole, kind = encode(call.body, completion(call.body, _TEXT))
    call.connection.send(200, whole[: len(whole) // 2], kind=kind)


async def wrong_schema(call: Call) -> None:
    """200 and JSON, but no completion."""
    call.connection.send(200, {"status": "ok", "result": {"output": _TEXT}})


async def no_choices(call: Call) -> None:
    """200 and a completion without choices."""
    call.send_completion({**completion(call.body, _TEXT), "choices": []})


async def refusal(call: Call) -> None:
    """200 and a completion whose content is null, because the model refused."""
    call.send_completion(completion(call.body, None, refusal="I'm sorry, I can't help with that."))


async def content_filter(call: Call) -> None:
    """200 and a completion that a filter cut off in the middle."""
    call.send_completion(completion(call.body, _TEXT[:17], finish_reason="content_filter"))


async def huge(call: Call) -> None:
    """200 and a completion of 10 MB."""
    payload = _huge_payload(call.body["model"], bool(call.body.get("stream")))
    call.connection.send(200, payload.content, kind=payload.kind)


async def nonsense(call: Call) -> None:
    """200 and a completion whose text has nothing to do with what was asked for."""
    call.send_completion(
        completion(call.body, "Tin umbrella, eleven of }} the the, {beneath ~~ 青い.")
    )


_FUNCTIONS: tuple[Callable[[Call], Coroutine[Any, Any, None]], ...] = (
    rate_limit,
    rate_limit_wait,
    server_error,
    overloaded,
    html,
    hang,
    drip,
    reset,
    truncated,
    wrong_schema,
    no_choices,
    refusal,
    content_filter,
    huge,
    nonsense,
)
FAULTS = {function.__name__: function for function in _FUNCTIONS}
"""Every kind of fault, by its name."""
ALL = frozenset(FAULTS)


@dataclass(frozen=True)
class Faults:
    """Which calls go wrong, and how. Decided by seed, content and attempt alone, so calls that come
    in another order fare the same.

    Calls with equal bodies are told apart only by the order in which they come: give them different
    seeds where that matters.
    """

    rate: float
    """The share of calls that are hit, in [0, 1]."""
    only: Collection[str] = ALL
    """The kinds of fault, all equally likely. Their names are the keys of `FAULTS`."""
    seed: int = 0
    retry_after_s: float = 0.1
    """What `rate_limit_wait` asks for. A whole number for clients that read no fractions."""

    def __post_init__(self) -> None:
        """Raises ValueError and UnknownName for what cannot be meant."""
        if not 0 <= self.rate <= 1:
            raise ValueError(f"the rate of faults is a share from 0 to 1, not {self.rate!r}")
        if isinstance(self.only, str) or not self.only:
            raise ValueError(
                f"only takes a set of kinds, such as only={{'hang'}}, not {self.only!r}"
            )
        for name in sorted(set(self.only) - ALL):
            raise UnknownName.of("fault", name, FAULTS, "rlver_gym.testing.faults.FAULTS")
        object.__setattr__(self, "only", frozenset(self.only))

    def kind(self, body: Body, attempt: int) -> str | None:
        """The fault that hits this call, or None.

        `attempt` counts the calls with this very body from 0.
        """
        content = json.dumps([self.seed, attempt, body], sort_keys=True)
        digest = hashlib.sha256(content.encode()).digest()
        if int.from_bytes(digest[:8]) >= self.rate * 2**64:
            return None
        kinds = sorted(self.only)
        return kinds[int.from_bytes(digest[8:16]) % len(kinds)]


@lru_cache(maxsize=4)
def _huge_payload(model: str, stream: bool) -> Payload:
    """Made once: to write it as JSON takes longer than to send it."""
    text = _TEXT * (_HUGE // len(_TEXT) + 1)
    body = {"model": model, "messages": [], "stream": stream}
    return encode(body, completion(body, text))
