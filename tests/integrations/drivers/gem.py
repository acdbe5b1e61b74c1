"""GEM: an environment of its registry, in a vector of one that its threads step."""

import gem
from adapters.gem_env import ID
from integrations.drivers import Played

from rlver_gym.integrations.episodes import EpisodeSpec


def play(persona, seed, utterances, user="embedded"):
    spec = EpisodeSpec(persona)
    envs = gem.make_vec([ID], async_mode=True, specs=[spec], user=user)
    (first,), (info,) = envs.reset(seed=[seed])
    rewards, texts = [], [first.removeprefix(f"{spec.system_prompt}\n\n")]
    for utterance in utterances:
        (reply,), reward_B, terminated_B, truncated_B, (info,) = envs.step([utterance])
        if terminated_B[0] or truncated_B[0]:  # the reply is that of the next episode
            rewards += [] if truncated_B[0] else reward_B.tolist()
            break
        rewards += reward_B.tolist()
        texts.append(reply)
    envs.thread_pool_executer.shutdown()
    return Played(rewards, texts, failed=not info.get("prev_ep_valid", info["valid"]))
