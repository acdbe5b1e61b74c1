"""Requests to chat servers, and servers of one function, for tests of what asks them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rlver_gym.llm_client.client import ChatClient
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.values import Chat, ChatAnswer, ChatMessage, ChatRequest
from rlver_gym.testing.http import Connection, Handle, Listener, Request

KEY = "sk-planted-0123456789abcdef"
Ending = ChatAnswer | BaseException
"""What a request came to."""


@contextmanager
def listening(handle: Handle) -> Iterator[str]:
    """The address of a server whose requests are handled so."""
    listener = Listener(handle)
    try:
        yield f"http://127.0.0.1:{listener.port}/v1"
    finally:
        listener.stop()


@contextmanager
def answering(answer: Callable[[Request], tuple[int, Any]]) -> Iterator[str]:
    """The address of a server that answers each request with a status and with JSON."""

    async def handle(request: Request, connection: Connection) -> None:
        connection.send(*answer(request))

    with listening(handle) as url:
        yield url


def request(words: object = "hello", **fields: Any) -> ChatRequest:
    return ChatRequest("m", (ChatMessage("user", str(words)),), **fields)


async def settle(chat: Chat, asked: ChatRequest) -> Ending:
    (result,) = await asyncio.gather(chat.complete(asked), return_exceptions=True)
    return result


def ask_chat(chat: Chat, *requests: ChatRequest) -> list[Ending]:
    """What each of these requests came to, all asked at once."""

    async def all_at_once() -> list[Ending]:
        return list(await asyncio.gather(*[settle(chat, asked) for asked in requests]))

    return asyncio.run(asyncio.wait_for(all_at_once(), 60))


def ask(url: str, *requests: ChatRequest, in_turn: bool = False, **settings: Any) -> list[Ending]:
    """What each of these requests comes to, at once or in turn, without waits between attempts."""

    async def ask_all() -> list[Ending]:
        chat = ChatSettings.model_validate({"base_url": url, **settings})
        client = ChatClient(chat, random=lambda: 0.0)
        try:
            if in_turn:
                return [await settle(client, asked) for asked in requests]
            return list(await asyncio.gather(*[settle(client, asked) for asked in requests]))
        finally:
            await client.close()

    return asyncio.run(asyncio.wait_for(ask_all(), 60))
