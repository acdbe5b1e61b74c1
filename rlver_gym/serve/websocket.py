"""The WebSocket: one episode for each connection, with the requests and answers of HTTP."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect

from rlver_gym.serve.episodes import EpisodeTable
from rlver_gym.serve.guard import client_of
from rlver_gym.serve.messages import PARSE_MESSAGE, BeginMessage, StepMessage
from rlver_gym.serve.metrics import Metrics
from rlver_gym.serve.problems import Refusal, describe_invalid

LOG = logging.getLogger("rlver_gym.serve")
_GOING_AWAY = 1001


class Conversation:
    """A connection. It ends when the client goes or says nothing for as long as an episode may be
    idle; the episode stays, and another connection can go on with it.
    """

    def __init__(
        self,
        table: EpisodeTable,
        socket: WebSocket,
        check_rate: Callable[[], None],
        metrics: Metrics,
    ) -> None:
        self._table = table
        self._socket = socket
        self._check_rate = check_rate
        self._metrics = metrics
        self._address = client_of(socket.scope)
        self._begin_id = ""
        self._episode_id = ""

    async def run(self) -> None:
        self._metrics.open_sockets += 1
        try:
            await self._converse()
        finally:
            self._metrics.open_sockets -= 1

    async def _converse(self) -> None:
        await self._socket.accept()
        try:
            while True:
                async with asyncio.timeout(self._table.settings.idle_s):
                    message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                await self._socket.send_json(
                    await self._answer(message.get("text") or message.get("bytes") or "")
                )
        except TimeoutError:
            await self._socket.close(_GOING_AWAY, "Nothing was said for too long.")
        except WebSocketDisconnect:
            return

    async def _answer(self, text: str | bytes) -> dict[str, Any]:
        request_id = None
        try:
            self._check_rate()
            message = _parse(text)
            request_id = message.request_id
            answer = await self._act(message)
        except Refusal as refusal:
            answer = {"type": "problem", "problem": refusal.body}
        except Exception:
            LOG.exception("a message failed")
            answer = {"type": "problem", "problem": Refusal("server-error").body}
        if answer["type"] == "problem":
            self._metrics.socket_problems.labels(answer["problem"]["status"]).inc()
        return {"request_id": request_id, **answer}

    async def _act(self, message: BeginMessage | StepMessage) -> dict[str, Any]:
        if isinstance(message, BeginMessage):
            if self._begin_id not in ("", message.request_id):
                raise Refusal(
                    "wrong-message",
                    "This connection has its episode. Open another one for the next.",
                )
            episode = await self._table.begin(message, self._address)
            self._begin_id, self._episode_id = message.request_id, episode.episode_id
            return {"type": "episode", **episode.model_dump(mode="json")}
        if not self._episode_id:
            raise Refusal("wrong-message", "There is no episode yet. Send a message `begin` first.")
        answer = await self._table.step(self._episode_id, message)
        return {"type": "step", **answer.model_dump(mode="json")}


def _parse(text: str | bytes) -> BeginMessage | StepMessage:
    try:
        return PARSE_MESSAGE.validate_json(text)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        raise Refusal("invalid", describe_invalid(problems)) from None
