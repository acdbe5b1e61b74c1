"""What every request passes first: its client's rate, origin, token and size. Plain ASGI."""

import asyncio
import hmac
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from math import ceil
from typing import Any

from rlver_gym.serve.asgi import App, Receive, Scope, Send, check_origin, discard_body, header
from rlver_gym.serve.metrics import Metrics
from rlver_gym.serve.operation import ServeSettings
from rlver_gym.serve.problems import Refusal

OPEN_PATHS = frozenset({"/healthz", "/docs", "/openapi.json"})
"""Answered without a token: nothing of an episode is there."""
LOG = logging.getLogger("rlver_gym.serve")
_MAX_CLIENTS = 10_000


class RateLimit:
    """So many requests a second from each client, after a burst of as many (a token bucket)."""

    def __init__(self, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`per_s`: 0 for any number."""
        self.per_s = per_s
        self._burst = max(1.0, per_s)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, client: str) -> None:
        """Count a request of the client's. Refusal when it is one too many."""
        if not self.per_s:
            return
        now = self._clock()
        left, before = self._left.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - before) * self.per_s)
        self._left[client] = (left - 1 if left >= 1 else left), now
        if len(self._left) > _MAX_CLIENTS:
            self._left.popitem(last=False)
        if left < 1:
            wait_s = max(1, ceil((1 - left) / self.per_s))
            raise Refusal(
                "rate-limited",
                f"Wait {wait_s} s: {self.per_s:g} requests a second are allowed.",
                retry_after=wait_s,
            )


class Guard:
    """An ASGI application around another one."""

    def __init__(
        self,
        app: App,
        settings: ServeSettings,
        token: str | None,
        rate: RateLimit,
        metrics: Metrics,
    ) -> None:
        """`token`: None lets everybody in."""
        self._app = app
        self._settings = settings
        self._token = token.encode() if token else None
        self._rate = rate
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            self._rate.check(client_of(scope))
            # who sends a token is no foreign page
            check_origin(scope, is_open=self._token is None)
            self._check_token(scope)
            if scope["type"] == "http":
                body = await self._read_body(scope, receive)
                if body is None:
                    return
                receive = _replay(body, receive)
            elif self._metrics.open_sockets >= self._settings.max_episodes:
                raise Refusal("too-many-connections", retry_after=5)
        except Refusal as refusal:
            await self._refuse(refusal, scope, send)
            return
        await self._pass_on(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer. What nobody foresaw is logged, and not shown."""
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
            await self._refuse(Refusal("server-error"), scope, send)

    def _check_token(self, scope: Scope) -> None:
        if self._token is None or scope["path"] in OPEN_PATHS:
            return
        scheme, _, token = header(scope, b"authorization").partition(b" ")
        is_right = hmac.compare_digest(token.strip(), self._token)
        if scheme.lower() != b"bearer" or not is_right:
            raise Refusal("unauthorized")

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body; None when the client has gone."""
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

    async def _refuse(self, refusal: Refusal, scope: Scope, send: Send) -> None:
        """Answer with a problem; the connection is closed, for the body may not have been read."""
        prefix = "websocket.http" if scope["type"] == "websocket" else "http"
        headers = {**refusal.headers, "content-length": str(len(refusal.content))}
        headers["connection"] = "close"
        self._metrics.responses.labels(refusal.problem.status).inc()
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        start = {"status": refusal.problem.status, "headers": pairs}
        await send({"type": f"{prefix}.response.start", **start})
        await send({"type": f"{prefix}.response.body", "body": refusal.content})


def client_of(scope: Scope) -> str:
    return (scope.get("client") or ("",))[0]


def _replay(body: bytes, receive: Receive) -> Receive:
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_body() -> MutableMapping[str, Any]:
        return first.pop() if first else await receive()

    return receive_body
