"""A vector environment of our own, whose other member talks to itself."""

import gymnasium as gym
from integrations.drivers import Played

import rlver_gym  # noqa: F401  (registers the ids)


def play(persona, seed, utterances, user="embedded"):
    env = gym.make_vec(
        "RLVER-Empathy-v0",
        num_envs=2,
        autoreset_mode="Disabled",
        persona=persona,
        user=user,
        on_failure="truncate",
    )
    (_, opening), infos = env.reset(seed=[seed + 1, seed])  # pyright: ignore[reportArgumentType] (ours takes a list)
    rewards, texts, over, valid = [], [opening], [False, False], bool(infos["valid"][1])
    for utterance in utterances if valid else ():
        if over[0]:
            env.reset(options={"reset_mask": over & [True, False]})
        replies, reward_B, terminated_B, truncated_B, infos = env.step(("", utterance))
        over, valid = terminated_B | truncated_B, bool(infos["valid"][1])
        rewards += [float(reward_B[1])] if valid else []
        texts.append(replies[1])
        if over[1]:
            break
    env.close()
    return Played(rewards, texts, failed=not valid)
