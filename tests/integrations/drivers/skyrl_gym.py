"""SkyRL-Gym: `skyrl_gym.make`, then `init` and `step` as SkyRL's generator calls them."""

import skyrl_gym
from adapters.skyrl_gym_env import make_rows
from integrations.drivers import Played


def play(persona, seed, utterances, user="embedded"):
    row = next(one for one in make_rows(split="all", seeds=[seed]) if one["persona"] == persona)
    extras = {key: value for key, value in row.items() if key not in ("prompt", "env_class")}
    env = skyrl_gym.make(
        row["env_class"], env_config={"user": user}, extras={**extras, "max_turns": 8}
    )
    messages, metadata = env.init(row["prompt"])
    rewards, texts = [], [messages[-1]["content"]]
    for utterance in utterances:
        output = env.step(utterance)
        metadata = output["metadata"]
        texts.append(metadata["reply"])
        rewards += [float(output["reward"])] if metadata["valid"] else []
        if output["done"]:
            break
    env.close()
    return Played(rewards, texts, failed=not metadata["valid"])
