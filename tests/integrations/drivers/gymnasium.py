"""Gymnasium itself: the reference."""

import gymnasium as gym
from integrations.drivers import Played

import rlver_gym  # noqa: F401  (registers the ids)


def play(persona, seed, utterances, user="embedded", **options):
    env = gym.make(
        "RLVER-Empathy-v0", **{"persona": persona, "user": user, "on_failure": "truncate"} | options
    )
    opening, info = env.reset(seed=seed)
    rewards, texts, over = [], [opening], not info["valid"]
    for utterance in () if over else utterances:
        reply, reward, terminated, truncated, info = env.step(utterance)
        texts.append(reply)
        if info["valid"]:
            rewards.append(float(reward))
        if terminated or truncated:
            break
    env.close()
    return Played(rewards, texts, failed=not info["valid"])
