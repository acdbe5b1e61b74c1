"""The project's own server, over a real socket: `gym.make(..., url=...)`."""

from collections.abc import Sequence

import gymnasium as gym

import rlver_gym  # noqa: F401  (registers the ids)
from rlver_gym.serve.server import BackgroundServer


def play(persona: str, seed: int, utterances: Sequence[str]) -> list[float]:
    """The rewards of an episode, until it ends or nothing is left to say."""
    rewards: list[float] = []
    with BackgroundServer() as server:
        env = gym.make("RLVER-Empathy-v0", url=server.url, persona=persona)
        env.reset(seed=seed)
        for utterance in utterances:
            _, reward, terminated, truncated, _ = env.step(utterance)
            rewards.append(float(reward))
            if terminated or truncated:
                break
        env.close()
    return rewards
