"""OpenEnv: its server on loopback, and its typed client."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from rlver_gym.integrations.openenv import EmpathyAction, EmpathyClient, make_app


@contextmanager
def serve(app: FastAPI) -> Iterator[str]:
    """The server's address, while it serves."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def play(persona: str, seed: int, utterances: Sequence[str]) -> list[float]:
    """The rewards of an episode, until it ends or nothing is left to say."""
    rewards: list[float] = []
    with serve(make_app()) as url, EmpathyClient(base_url=url).sync() as client:
        client.reset(persona=persona, seed=seed)
        for utterance in utterances:
            result = client.step(EmpathyAction(message=utterance))
            assert result.reward is not None
            rewards.append(result.reward)
            if result.done:
                break
    return rewards
