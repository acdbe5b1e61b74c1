"""GEM: a group of dialogues with one person in one mood, stepped by threads, and branches of one
moment.

python examples/gem_group.py [PERSONA]     (needs: pip install '.[gem]')
The policy is a random one of the twelve strategies in each turn.
"""

# pyright: reportMissingImports=false
import sys

import gem
import numpy as np
from adapters.gem_env import FAMILY

GROUP_SIZE = 4
SEED = 7


def main(persona: str) -> None:
    ids = [f"{FAMILY}:RLVER-Empathy-v0"] * GROUP_SIZE
    envs = gem.make_vec(ids, async_mode=True, persona=persona)
    observations, _ = envs.reset(seed=[SEED] * GROUP_SIZE)  # GRPO: everybody begins alike
    print(observations[0], end="\n\n")

    return_B = np.zeros(GROUP_SIZE)
    is_over_B = np.zeros(GROUP_SIZE, bool)
    while not is_over_B.all():
        going_on = [number for number in range(GROUP_SIZE) if not is_over_B[number]]
        actions = {number: envs.envs[number].sample_random_action() for number in going_on}
        _, rewards, terminations, truncations, _ = envs.step(actions)
        return_B[going_on] += rewards
        is_over_B[going_on] = terminations | truncations
    advantage_B = return_B - return_B.mean()
    print("returns    ", return_B.tolist(), "points of emotion")
    print("advantages ", advantage_B.round(2).tolist(), end="\n\n")

    env = gem.make(ids[0], persona=persona)
    env.reset(seed=SEED)
    env.step("I'm listening. What happened?")
    for words in ("Just cheer up.", "That sounds exhausting, and you carried it alone."):
        branch = env.spawn(same_state=True)  # of the same moment; env stays where it is
        reply, reward, *_ = branch.step(words)
        print(f"{words}\n  {reward:+.0f}  {reply}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "clara-credit-taken")
