"""TextArena: its usual loop of `get_observation`, an agent, and `step`."""

import re

import adapters.textarena_env  # noqa: F401  (registers the games)
import textarena as ta
from integrations.drivers import Played

from rlver_gym.integrations.episodes import EpisodeSpec


class Script(ta.Agent):
    def __init__(self, utterances):
        super().__init__()
        self.left = list(utterances)

    def __call__(self, observation):
        return self.left.pop(0)


def play(persona, seed, utterances, user="embedded"):
    env = ta.make("RLVER-Empathy-v0", specs=[EpisodeSpec(persona)], user=user)
    agent = Script(utterances)
    env.reset(num_players=1, seed=seed)
    rewards, observation, done, valid = [], "", False, True
    while agent.left and not done:
        _, observation = env.get_observation()
        done, info = env.step(agent(observation))
        valid = info["valid"]
        rewards += [info["reward"]] if valid else []
    return Played(rewards, re.findall(r"^\[Person\] (.*)$", observation, re.M), failed=not valid)
