"""What every request passes first: its origin, token and size. Plain ASGI."""

import asyncio
import hmac
import logging
from collections.abc import MutableMapping
from typing import Any

from rlver_gym.serve.asgi import (
    App,
    Receive,
    Scope,
    Send,
    check_origin,
    discard_body,
    header,
    send_and_close,
)
from rlver_gym.serve.metrics import Metrics
from rlver_gym.serve.operation import ServeSettings
from rlver_gym.serve.problems import Refusal

OPEN_PATHS = frozenset({"/healthz", "/openapi.json"})
"""Answered without a token: nothing of an episode is there."""
LOG = logging.getLogger("rlver_gym.serve")


class Guard:
    """An ASGI application around another one."""

    def __init__(
        self, app: App, settings: ServeSettings, token: str | None, metrics: Metrics
    ) -> None:
        self._app = app
        self._settings = settings
        self._token = token.encode() if token else None
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            # who sends a token is no foreign page
            check_origin(scope, is_open=self._token is None)
            self._check_token(scope)
            body = await self._read_body(receive)
        except Refusal as refusal:
            await self._refuse(refusal, send)
            return
        if body is not None:
            await self._pass_on(scope, _replay(body, receive), send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def count_and_send(message: MutableMapping[str, Any]) -> None:
            nonlocal has_begun
            has_begun = True
            if message["type"] == "http.response.start":
                self._metrics.responses.labels(message["status"]).inc()
            await send(message)

        try:
            await self._app(scope, receive, count_and_send)
        except Exception:
            LOG.exception("%s failed", scope["path"])
            if has_begun:
                raise
            await self._refuse(Refusal("server-error"), send)

    def _check_token(self, scope: Scope) -> None:
        if self._token is None or scope["path"] in OPEN_PATHS:
            return
        scheme, _, token = header(scope, b"authorization").partition(b" ")
        is_right = hmac.compare_digest(token.strip(), self._token)
        if scheme.lower() != b"bearer" or not is_right:
            raise Refusal("unauthorized")

    async def _read_body(self, receive: Receive) -> bytes | None:
        most, timeout_s = self._settings.max_body_bytes, self._settings.body_timeout_s
        body = bytearray()
        try:
            async with asyncio.timeout(timeout_s):
                while (message := await receive())["type"] == "http.request":
                    body += message.get("body", b"")
                    is_whole = not message.get("more_body")
                    if len(body) > most:
                        break
                    if is_whole:
                        return bytes(body)
                else:
                    return None
        except TimeoutError:
            raise Refusal("slow-request") from None
        if not is_whole:
            await discard_body(receive, timeout_s)
        raise Refusal("too-large", f"Send at most {most:,} bytes.")

    async def _refuse(self, refusal: Refusal, send: Send) -> None:
        self._metrics.responses.labels(refusal.problem.status).inc()
        await send_and_close(send, refusal.problem.status, refusal.content, refusal.headers)


def _replay(body: bytes, receive: Receive) -> Receive:
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_body() -> MutableMapping[str, Any]:
        return first.pop() if first else await receive()

    return receive_body
