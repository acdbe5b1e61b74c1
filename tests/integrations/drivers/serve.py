"""The project's own server, over a real socket: `gym.make(..., url=...)`."""

from integrations.drivers import gymnasium

from rlver_gym import make_user
from rlver_gym.serve.server import EpisodeServer


def play(persona, seed, utterances, user="embedded"):
    with EpisodeServer(users={user: make_user(user)}) as server:
        return gymnasium.play(persona, seed, utterances, user, url=server.url)
