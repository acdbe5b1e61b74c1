"""The project's own server, over a real socket: `gym.make(..., url=...)`."""

from collections.abc import Sequence

from integrations.drivers import Played, gymnasium

from rlver_gym import make_user
from rlver_gym.serve.server import EpisodeServer


def play(persona: str, seed: int, utterances: Sequence[str], user: str = "embedded") -> Played:
    with EpisodeServer(users={user: make_user(user)}) as server:
        return gymnasium.play(persona, seed, utterances, user, url=server.url)
