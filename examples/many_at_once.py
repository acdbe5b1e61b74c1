"""Sixteen dialogues at once, in groups of four that share persona and seed, as GRPO wants them.

python examples/many_at_once.py
"""

import gymnasium as gym
import numpy as np

import rlver_gym  # noqa: F401 (registers the environments)

SAY = (
    "What was that like for you?",
    "That must be so heavy to carry.",
    "You should move on.",
    "Everything will be fine.",
)


def main() -> None:
    env = gym.make_vec("RLVER-Empathy-v0", num_envs=16, group_size=4, autoreset_mode="Disabled")
    _, infos = env.reset(seed=0)
    _, rewards, _, _, _ = env.step(tuple(SAY[number % 4] for number in range(16)))
    print("In each group:", *SAY, sep="\n  ")
    for group, persona in enumerate(infos["persona"][::4]):
        of_group = rewards[4 * group : 4 * group + 4]
        advantages = (of_group - of_group.mean()) / (of_group.std() + 1e-6)
        print(f"{persona:45s} rewards {of_group}  advantages {np.round(advantages, 1)}")


if __name__ == "__main__":
    main()
