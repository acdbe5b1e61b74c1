"""Gymnasium itself: the reference."""

from collections.abc import Sequence

import gymnasium as gym

import rlver_gym  # noqa: F401  (registers the ids)


def play(persona: str, seed: int, utterances: Sequence[str]) -> list[float]:
    """The rewards of an episode, until it ends or nothing is left to say."""
    env = gym.make("RLVER-Empathy-v0", persona=persona)
    env.reset(seed=seed)
    rewards: list[float] = []
    for utterance in utterances:
        _, reward, terminated, truncated, _ = env.step(utterance)
        rewards.append(float(reward))
        if terminated or truncated:
            break
    return rewards
