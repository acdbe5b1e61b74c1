"""GEM: a group of dialogues with one person in one mood, stepped by threads, and GRPO's advantages.

python examples/gem_group.py [PERSONA]     (needs: what adapters/gem_env.py names)
The policy takes a random one of a few phrases in each turn.
"""

# pyright: reportMissingImports=false
import random
import sys

import gem
import numpy as np
from adapters.gem_env import ID

from rlver_gym.integrations.episodes import EpisodeSpec

GROUP_SIZE = 4
SEED = 7
PHRASES = (
    "I'm listening. What happened?",
    "Just cheer up.",
    "That sounds exhausting, and you carried it alone.",
    "What would help you right now?",
)


def main(persona: str) -> None:
    envs = gem.make_vec([ID] * GROUP_SIZE, async_mode=True, specs=[EpisodeSpec(persona)])
    observations, _ = envs.reset(seed=[SEED] * GROUP_SIZE)  # GRPO: everybody begins alike
    print(observations[0], end="\n\n")

    return_B = np.zeros(GROUP_SIZE)
    is_over_B = np.zeros(GROUP_SIZE, bool)
    while not is_over_B.all():
        going_on = [number for number in range(GROUP_SIZE) if not is_over_B[number]]
        actions = {number: random.choice(PHRASES) for number in going_on}
        _, rewards, terminations, truncations, _ = envs.step(actions)
        return_B[going_on] += rewards
        is_over_B[going_on] = terminations | truncations
    advantage_B = return_B - return_B.mean()
    print("returns    ", return_B.tolist(), "points of emotion")
    print("advantages ", advantage_B.round(2).tolist())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "clara-credit-taken")
