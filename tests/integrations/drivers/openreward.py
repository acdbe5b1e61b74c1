"""OpenReward: its environment server on loopback, and its own client."""

import asyncio
import os
import threading
import time
from contextlib import contextmanager
from functools import cache

os.environ.setdefault("OPENREWARD_DISABLE_UPDATE_CHECK", "1")  # it would ask PyPI
os.environ.setdefault("OPENREWARD_LOG_LEVEL", "ERROR")

import aiohttp
import uvicorn
from adapters.openreward_env import make_environment
from integrations.drivers import Played
from openreward import OpenReward
from openreward.api.environments.types import Task
from openreward.api.errors import ToolFailed
from openreward.environments import Server

from rlver_gym.integrations.episodes import DEFAULT_ENV


@cache
def _loop():
    """Of all servers of this process: sse-starlette 2 has an event that belongs to one loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


@contextmanager
def serve(server):
    config = uvicorn.Config(server.app, host="127.0.0.1", port=0, log_level="error")
    running = uvicorn.Server(config)
    ended = asyncio.run_coroutine_threadsafe(running.serve(), _loop())
    while not running.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    finally:
        running.should_exit = True
        ended.result()


@contextmanager
def connect(url, name=DEFAULT_ENV):
    with OpenReward(api_key="none", base_url=url) as client:
        yield client.environments.get(name, variant=name, base_url=url)


def task_of(persona, seed=0, name=DEFAULT_ENV):
    return Task(name, name, {"persona": persona, "seed": seed}, None)


def play(persona, seed, utterances, user="embedded"):
    rewards = []
    texts = []
    with (
        serve(Server([make_environment(user)])) as url,
        connect(url) as env,
        env.session(task_of(persona, seed)) as session,
    ):
        try:
            texts.append(session.get_prompt()[1].text)
            for utterance in utterances:
                output = session.call_tool("say", {"message": utterance})
                assert output.reward is not None
                rewards.append(output.reward)
                texts.append(output.blocks[0].text)
                if output.finished:
                    break
        except (ToolFailed, aiohttp.ClientResponseError) as error:
            return Played(rewards, texts, failed="no score" in str(error))
    return Played(rewards, texts)
