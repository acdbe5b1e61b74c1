"""SkyRL-Gym: `skyrl_gym.make`, then `init` and `step` as SkyRL's generator calls them."""

from collections.abc import Sequence

import skyrl_gym

from rlver_gym.integrations.gyms.skyrl_gym import make_rows


def play(persona: str, seed: int, utterances: Sequence[str]) -> list[float]:
    """The rewards of an episode, until it ends or nothing is left to say."""
    row = next(one for one in make_rows(split="all", seeds=[seed]) if one["persona"] == persona)
    extras = {key: value for key, value in row.items() if key not in ("prompt", "env_class")}
    env = skyrl_gym.make(row["env_class"], env_config={}, extras={**extras, "max_turns": 8})
    env.init(row["prompt"])
    rewards: list[float] = []
    for utterance in utterances:
        output = env.step(utterance)
        rewards.append(float(output["reward"]))
        if output["done"]:
            break
    env.close()
    return rewards
