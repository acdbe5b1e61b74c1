"""Calls to a server of episodes: JSON over HTTP, repeated, with errors that name the remedy."""

import asyncio
import json
import random
import sys
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from weakref import finalize

from rlver_gym.util.errors import (
    CardError,
    ChatError,
    DialogueError,
    ResetNeeded,
    RlverError,
    ServerOutage,
    ServerRefused,
    ServerUnreachable,
    UnknownName,
    UserFailed,
    UtteranceError,
)
from rlver_gym.util.event_loop import Worker
from rlver_gym.util.secret_words import TOKEN, read_variable

MAX_ANSWER_BYTES = 4 << 20
_FIRST_WAIT_S, _MAX_WAIT_S = 0.1, 5.0
_WAIT_FOR_FIRST_ANSWER_S = 2.0
"""A server that has never answered is hardly worth waiting for."""
_PROBLEMS: dict[str, type[RlverError]] = {
    "unauthorized": ServerRefused,
    "foreign-page": ServerRefused,
    "foreign-host": ServerRefused,
    "user-not-offered": UnknownName,
    "unknown-name": UnknownName,
    "unknown-episode": ResetNeeded,
    "wrong-turn": DialogueError,
    "episode-over": ResetNeeded,
    "request-id-used": DialogueError,
    "too-large": UtteranceError,
    "invalid": UtteranceError,
    "user-unavailable": ServerOutage,
    "user-failed": UserFailed,
}
"""What a problem of the server's is raised as; all others are a ChatError."""


class ServerFull(ServerOutage):
    """As many episodes are open as may be."""


class _Answer(NamedTuple):
    status: int
    retry_after_s: float
    value: Any
    """The JSON; None when it is none."""


class RemoteServer:
    """One server, one call at a time. Its connection is kept, and made anew in a copy."""

    def __init__(self, url: str, timeout_s: float, patience_s: float) -> None:
        """`timeout_s`: of one attempt. `patience_s`: of all. CardError for no address."""
        self.url = _check_url(url)
        self.timeout_s = timeout_s
        self.patience_s = patience_s
        self._has_answered = False
        self._open_line()

    def _open_line(self) -> None:
        self._connection: HTTPConnection | None = None
        self._worker = Worker()
        finalize(self, self._worker.stop)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_connection": None, "_worker": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open_line()

    def close(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def drop(self, path: str | None) -> None:
        """Delete what is there, once the thread is free; or else it goes when it was idle."""
        if path:
            self._worker.submit(self._delete, path)

    def finish(self, path: str | None) -> None:
        if sys.is_finalizing():  # the thread is gone
            self._finish(path)
        else:
            self._worker.submit(self._finish, path).result()

    def _finish(self, path: str | None) -> None:
        if path:
            self._delete(path)
        self.close()

    def _delete(self, path: str) -> None:
        is_kept = self._connection is not None
        with suppress(RlverError):
            self.call("DELETE", path, patience_s=0.0)
            return
        if is_kept:  # it may have gone stale
            with suppress(RlverError):
                self.call("DELETE", path, patience_s=0.0)

    async def acall(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        """As `call`, on a thread, which goes on with what is cancelled: use a copy then."""
        try:
            return await self._worker(lambda: self.call(*arguments, **named))
        except asyncio.CancelledError:
            self._worker.submit(self.close)
            raise

    def call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        patience_s: float | None = None,
        waits_for_room: bool = True,
    ) -> dict[str, Any]:
        """What the server answers. ServerFull at once unless it `waits_for_room`."""
        content = None if body is None else json.dumps(body).encode()
        patience_s = self.patience_s if patience_s is None else patience_s
        began, attempt = time.monotonic(), 0
        while True:
            attempt += 1
            wait_s = random.random() * min(_MAX_WAIT_S, _FIRST_WAIT_S * 2 ** min(attempt, 10))
            error: RlverError
            try:
                answer = self._exchange(method, path, content)
            except (OSError, HTTPException) as failure:
                self.close()
                error = ServerUnreachable(
                    f"{self.url} does not answer ({failure or type(failure).__name__}). Is the"
                    " server running there (rlver-gym serve)?"
                )
            else:
                self._has_answered = True
                if answer.status < 300 and isinstance(answer.value, dict):
                    return answer.value
                if not waits_for_room and _find_problem_kind(answer) == "too-many-episodes":
                    raise ServerFull(f"{self.url}: {_find_problem_detail(answer)}")
                is_proxy = answer.status in (502, 504) and _find_problem_kind(answer) is None
                if answer.status not in (429, 503) and not is_proxy:
                    raise self._error(answer)
                wait_s = max(wait_s, answer.retry_after_s)
                error = ServerOutage(
                    f"{self.url} had no room for {patience_s:g} s: {_find_problem_detail(answer)}"
                    " Use fewer environments, start it with higher limits, or raise patience_s."
                )
            most_s = patience_s if self._has_answered else min(patience_s, _WAIT_FOR_FIRST_ANSWER_S)
            if time.monotonic() - began + wait_s > most_s:
                raise error
            time.sleep(wait_s)

    def _exchange(self, method: str, path: str, content: bytes | None) -> _Answer:
        if self._connection is None:
            parts = urlsplit(self.url)
            kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
            self._connection = kind(parts.netloc, timeout=self.timeout_s)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if token := _read_token():
            headers["Authorization"] = f"Bearer {token}"
        prefix = urlsplit(self.url).path
        self._connection.request(method, prefix + path, content, headers)
        response = self._connection.getresponse()
        if response.length is None and not response.chunked:
            raise HTTPException("the answer broke off")
        data = response.read(MAX_ANSWER_BYTES)
        if not response.isclosed():
            raise HTTPException("the answer is too large")
        value: Any = {} if response.status == 204 else None
        with suppress(ValueError):
            value = json.loads(data)
        after = response.headers.get("retry-after", "")
        wait_s = float(after) if after.isdecimal() and len(after) < 6 else 0.0
        return _Answer(response.status, wait_s, value)

    def _error(self, answer: _Answer) -> RlverError:
        kind = _find_problem_kind(answer)
        if kind is None:
            return ServerRefused(
                f"{self.url} answers {answer.status}, and not as rlver-gym serve does. Check the"
                " address."
            )
        message = f"{self.url}: {_find_problem_detail(answer)}"
        if kind == "unknown-episode":
            message = f"{message} In Gymnasium that is reset()."
        return _PROBLEMS.get(kind, ChatError)(message)


def _find_problem_kind(answer: _Answer) -> str | None:
    kind = answer.value.get("type") if isinstance(answer.value, dict) else None
    return kind.removeprefix("urn:rlver-gym:") if isinstance(kind, str) else None


def _find_problem_detail(answer: _Answer) -> str:
    detail = answer.value.get("detail") if isinstance(answer.value, dict) else None
    return detail if isinstance(detail, str) else f"status {answer.status}."


def _read_token() -> str:
    token = read_variable(TOKEN)
    if token.isascii() and token.isprintable():
        return token
    raise ServerRefused(
        f"{TOKEN} holds characters that no token has. Copy it again from the server's."
    )


def _check_url(url: object) -> str:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        usable = False
    else:
        usable = usable and not (parts.query or parts.fragment or "@" in parts.netloc)
    if not usable or not isinstance(url, str) or not url.isprintable() or " " in url:
        raise CardError(
            "url must be the address of a server, such as http://127.0.0.1:8000, without a"
            f" password or query: it would stand in the spec. The token is read from"
            f" {TOKEN}."
        )
    return url.rstrip("/")
