"""The person is played by a server, the agent talks to it over HTTP: the same episode as at home.

python examples/over_the_wire.py [URL]     (needs: pip install '.[serve]')
Without a URL it starts a server of its own; `rlver-gym serve` starts one for other machines.
"""

import sys
from contextlib import nullcontext

import gymnasium as gym

import rlver_gym  # noqa: F401 (registers the environments)
from rlver_gym.serve.server import EpisodeServer

SAY = (
    "Letters from a lawyer, and you still meet them on the stairs. How are you holding up?",
    "What did they say to you that night?",
    "That sounds like homesickness in your own house.",
)
PERSONA = "theo-the-burst-pipe"


def play(env: gym.Env[str, str]) -> list[float]:
    text, _ = env.reset(seed=0)
    print(f"they: {text}")
    rewards = []
    for utterance in SAY:
        text, reward, *_ = env.step(utterance)
        rewards.append(float(reward))
        print(f"you:  {utterance}   {reward:+.0f}\nthey: {text}")
    env.close()
    return rewards


def main() -> None:
    given = sys.argv[1:]
    with nullcontext() if given else EpisodeServer() as server:
        url = server.url if server else given[0]
        print(f"over the wire, {url}:")
        there = play(gym.make("RLVER-Empathy-v0", url=url, persona=PERSONA))
    print("\nat home:")
    here = play(gym.make("RLVER-Empathy-v0", persona=PERSONA))
    print(f"\nrewards there {there}, here {here}")
    assert there == here


if __name__ == "__main__":
    main()
