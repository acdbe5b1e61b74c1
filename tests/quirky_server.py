"""A chat server that shows one of many quirks of real ones on one request in ten, each in its
turn, and answers all others well.
"""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.testing.chat_server import completion, encode
from rlver_gym.testing.http import Connection, Request

UNFINISHED = "Zanzibar"
"""Stands in every answer that broke off, and in what a user says that was cut: what an agent said
until its limit of tokens is its reply.
"""
THOUGHT = "Timbuktu"
"""Stands in every thought."""
_HANG_S = 30.0


class Call(NamedTuple):
    """One request, and what a good answer to it is."""

    body: dict[str, Any]
    text: str
    connection: Connection

    def send(self, status: int, content: object, **headers: str) -> None:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.send(status, content, headers=names)

    def answer(self, content: object, finish_reason: str = "stop", **message: object) -> None:
        said = {"role": "assistant", "content": content, **message}
        choice = {"index": 0, "message": said, "finish_reason": finish_reason}
        usage = {"prompt_tokens": 90, "completion_tokens": 9}
        self.send(200, {"object": "chat.completion", "choices": [choice], "usage": usage})

    def cut(self, finish_reason: str) -> None:
        """Answer with what ends before it is whole, though it looks as if it were."""
        if self.text.startswith("{"):
            self.answer(self._cut_json(), finish_reason)
        else:
            mark = f"{UNFINISHED}. " if finish_reason == "error" else ""
            self.answer(mark + self.text[: len(self.text) // 2], finish_reason)

    def _cut_json(self) -> str:
        fields = json.loads(self.text)
        marked = {name: UNFINISHED for name in ("thought", "reply") if name in fields}
        whole = json.dumps({**fields, **marked, **({"change": -10} if "change" in fields else {})})
        return whole[: whole.index("-10") + 2] if "-10" in whole else whole[:-2]


def refuse(status: int, body: object, **headers: str) -> Callable[[Call], None]:
    return lambda call: call.send(status, body, **headers)


def message(text: str, **more: object) -> dict[str, Any]:
    return {"error": {"message": text, **more}}


def without_usage(call: Call) -> None:
    choice = {"message": {"content": call.text}, "finish_reason": "stop"}
    call.send(200, {"choices": [choice], "usage": None})


def only_streams(call: Call) -> None:
    payload = encode({**call.body, "stream": True}, completion(call.body, call.text))
    call.connection.send(200, payload.content, kind=payload.kind)


def says(call: Call, with_field: str, status: int, body: object) -> None:
    """An objection to a field, where it was sent."""
    roles = [one["role"] for one in call.body["messages"]]
    sent = with_field in call.body or (with_field == "system" and "system" in roles)
    if sent:
        call.send(status, body)
    else:
        call.answer(call.text)


async def hang(call: Call) -> None:
    await asyncio.sleep(_HANG_S)
    call.answer(call.text)


async def slow(call: Call) -> None:
    await asyncio.sleep(0.8)
    call.answer(call.text)


THINK = f"They want {THOUGHT}. Be kind."
QUIRKS: dict[str, Callable[[Call], Awaitable[None] | None]] = {
    "thought without its beginning": lambda call: call.answer(f"{THINK}\n</think>\n\n{call.text}"),
    "thinking": lambda call: call.answer(f"<thinking>{THINK}</thinking>\n{call.text}"),
    "channels": lambda call: call.answer(
        f"<|channel|>analysis<|message|>{THINK}<|end|><|start|>assistant<|channel|>final"
        f"<|message|>{call.text}<|return|>"
    ),
    "end of turn": lambda call: call.answer(f"{call.text}<|im_end|>"),
    "cut": lambda call: call.cut("length"),
    "broken off": lambda call: call.cut("error"),
    "content filter, DeepSeek": refuse(400, message("Content Exists Risk")),
    "content filter, DashScope": refuse(400, message("inappropriate content.", code="x")),
    "content filter, OpenRouter": refuse(403, message("requires moderation", code=403)),
    "too long": refuse(400, message("Your request exceeded model token limit: 8192")),
    "a refusal in unknown words": refuse(422, message("Unprocessable")),
    "blocked by a firewall": refuse(403, b"<html>You have been blocked</html>"),
    "no seed": lambda call: says(call, "seed", 422, {"detail": "Extra inputs: seed"}),
    "no temperature": lambda call: says(
        call, "temperature", 400, message("temperature unsupported")
    ),
    "no system role": lambda call: says(call, "system", 400, message("System role not supported")),
    "parts": lambda call: call.answer(
        [{"type": "thinking", "thinking": THINK}, {"type": "text", "text": call.text}]
    ),
    "no usage": without_usage,
    "an error in a list": refuse(500, [message("a passing fault")]),
    "a nested error": refuse(500, {"message": {"detail": [{"msg": "a passing fault"}]}}),
    "thoughts took all tokens": lambda call: call.answer("", "length", reasoning_content=THINK),
    "an unclosed thought": lambda call: call.answer(f"<think>{THINK}", "length"),
    "reasoning beside": lambda call: call.answer(call.text, reasoning_content=THINK),
    "a lone surrogate": lambda call: call.send(
        200,
        json.dumps({"choices": [{"message": {"content": call.text + "\ud83d"}}]}).encode(),
    ),
    "only streams": only_streams,
    "waits for ever": refuse(429, message("slow down"), Retry_After="999999999"),
    "waits a little": refuse(429, message("slow down"), Retry_After="1"),
    "slow": slow,
    "hangs": hang,
    "a page": refuse(502, b"<html>Bad gateway</html>"),
    "an error with 200": refuse(200, message("Content Exists Risk", code=400)),
    "a redirect": refuse(302, b"", Location="http://127.0.0.1:9/"),
}


def _unfold(body: dict[str, Any]) -> dict[str, Any]:
    """The same with a system role, where it was folded into the first message."""
    first, *rest = body["messages"]
    if first["role"] == "system":
        return body
    return {**body, "messages": [{**first, "role": "system"}, first, *rest]}


class QuirkyServer:
    """What a `Listener` serves."""

    def __init__(self, answers: EmbeddedAnswers, share: float, seed: int = 0) -> None:
        self.answers, self.share, self.seed = answers, share, seed
        self.asked = 0
        self.shown = Counter[str]()
        self._attempts = Counter[bytes]()

    async def __call__(self, request: Request, connection: Connection) -> None:
        body = json.loads(request.body)
        self.asked += 1
        call = Call(body, self.answers(_unfold(body)), connection)
        quirk = self._choose(request.body)
        if quirk is None:
            call.answer(call.text)
            return
        self.shown[quirk] += 1
        done = QUIRKS[quirk](call)
        if done is not None:
            await done

    def _choose(self, content: bytes) -> str | None:
        self._attempts[content] += 1
        words = f"{self.seed} {self._attempts[content]} ".encode() + content
        if int.from_bytes(hashlib.sha256(words).digest()[:8]) >= self.share * 2**64:
            return None
        return min(QUIRKS, key=lambda name: self.shown[name])
