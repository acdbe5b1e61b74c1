"""OpenEnv: its server on loopback, and its typed client."""

import threading
import time
from contextlib import contextmanager

import uvicorn
from integrations.drivers import Played

from rlver_gym.integrations.openenv import EmpathyAction, EmpathyClient, make_app


@contextmanager
def serve(app):
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


def play(persona, seed, utterances, user="embedded"):
    rewards = []
    texts = []
    with serve(make_app(user)) as url, EmpathyClient(base_url=url).sync() as client:
        try:
            texts.append(client.reset(persona=persona, seed=seed).observation.message)
            for utterance in utterances:
                result = client.step(EmpathyAction(message=utterance))
                assert result.reward is not None
                rewards.append(result.reward)
                texts.append(result.observation.message)
                if result.done:
                    break
        except RuntimeError as error:
            return Played(rewards, texts, failed="no score" in str(error))
    return Played(rewards, texts)
