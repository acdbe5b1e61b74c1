"""Requests to chat servers, and servers of one function, for tests of what asks them."""

import asyncio
from contextlib import contextmanager

from rlver_gym.llm_client.client import ChatClient
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.values import ChatAnswer, ChatMessage, ChatRequest
from rlver_gym.testing.http import Listener

KEY = "sk-planted-0123456789abcdef"
Ending = ChatAnswer | BaseException
"""What a request came to."""


@contextmanager
def listening(handle):
    """The address of a server whose requests are handled so."""
    listener = Listener(handle)
    try:
        yield f"http://127.0.0.1:{listener.port}/v1"
    finally:
        listener.stop()


@contextmanager
def answering(answer):
    """The address of a server that answers each request with a status and with JSON."""

    async def handle(request, connection):
        connection.send(*answer(request))

    with listening(handle) as url:
        yield url


def request(words="hello", **fields):
    return ChatRequest("m", (ChatMessage("user", str(words)),), **fields)


async def settle(chat, asked):
    (result,) = await asyncio.gather(chat.complete(asked), return_exceptions=True)
    return result


def ask_chat(chat, *requests):
    """What each of these requests came to, all asked at once."""

    async def all_at_once():
        return list(await asyncio.gather(*[settle(chat, asked) for asked in requests]))

    return asyncio.run(asyncio.wait_for(all_at_once(), 60))


def ask(url, *requests, in_turn=False, **settings):
    """What each of these requests comes to, at once or in turn, without waits between attempts."""

    async def ask_all():
        chat = ChatSettings.model_validate({"base_url": url, **settings})
        client = ChatClient(chat, random=lambda: 0.0)
        try:
            if in_turn:
                return [await settle(client, asked) for asked in requests]
            return list(await asyncio.gather(*[settle(client, asked) for asked in requests]))
        finally:
            await client.close()

    return asyncio.run(asyncio.wait_for(ask_all(), 60))
