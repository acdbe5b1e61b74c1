"""What every request passes first: its host, page, token and size. Plain ASGI."""

import hmac
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import parse_qs

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
from rlver_gym.serve.problems import Refusal

MAX_BODY_BYTES = 512 * 1024
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_MAX_DISCARD_S = 5.0
_LOCKED = b"Open the address that `rlver-gym studio` printed: it holds the token of this studio.\n"
_PLAIN = {"content-type": "text/plain; charset=utf-8"}
_BAD = ("cross-site", "same-site")
"""What a browser says of pages that are not ours; other ports of this machine are "same-site"."""


class AccessGuard:
    """An ASGI application around another one. The token in the address becomes a cookie."""

    def __init__(self, app: App, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        send = _add_security_headers(send)
        try:
            check_origin(scope, is_open=True)
            if self._brings_token(scope):
                await self._let_in(scope, send)
                return
            if header(scope, b"sec-fetch-site").decode("latin-1") in _BAD:
                raise Refusal("foreign-page")
            if not self._is_known(scope):
                await send_and_close(send, 401, _LOCKED, _PLAIN)
                return
            length = header(scope, b"content-length")
            if scope["method"] != "GET" and not (
                length.isdigit() and int(length[:20]) <= MAX_BODY_BYTES
            ):
                raise Refusal(
                    "too-large", f"Send at most {MAX_BODY_BYTES:,} bytes, and say how many."
                )
        except Refusal as refusal:
            await discard_body(receive, _MAX_DISCARD_S)
            await send_and_close(send, refusal.problem.status, refusal.content, refusal.headers)
            return
        await self._app(scope, receive, send)

    def _brings_token(self, scope: Scope) -> bool:
        if scope["path"] != "/" or scope["method"] != "GET":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return hmac.compare_digest(given.encode(), self._token)

    async def _let_in(self, scope: Scope, send: Send) -> None:
        cookie = f"{_cookie_name(scope)}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict"
        await send_and_close(send, 303, b"", {"location": "/", "set-cookie": cookie})

    def _is_known(self, scope: Scope) -> bool:
        # other programs of this machine set cookies that no parser of cookies takes
        pairs = (pair.strip().partition(b"=") for pair in header(scope, b"cookie").split(b";"))
        name = _cookie_name(scope).encode()
        given = [value for key, _, value in pairs if key == name]
        return any(hmac.compare_digest(value, self._token) for value in given)


def _cookie_name(scope: Scope) -> str:
    """Browsers share cookies between ports: two studios have two."""
    return f"studio_{(scope.get('server') or ('', 0))[1]}"


def _add_security_headers(send: Send) -> Send:
    async def send_with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return send_with_headers
