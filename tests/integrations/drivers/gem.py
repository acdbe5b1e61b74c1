"""GEM: an environment of its registry, in a vector of one that its threads step."""

from collections.abc import Sequence

import gem

from rlver_gym.integrations.gyms.gem import FAMILY


def play(persona: str, seed: int, utterances: Sequence[str]) -> list[float]:
    """The rewards of an episode, until it ends or nothing is left to say."""
    envs = gem.make_vec([f"{FAMILY}:RLVER-Empathy-v0"], async_mode=True, persona=persona)
    envs.reset(seed=[seed])
    rewards: list[float] = []
    for utterance in utterances:
        _, reward_B, terminated_B, truncated_B, _ = envs.step([utterance])
        rewards += reward_B.tolist()
        if terminated_B[0] or truncated_B[0]:
            break
    envs.thread_pool_executer.shutdown()
    return rewards
