"""TextArena: its usual loop of `get_observation`, an agent, and `step`."""

from collections.abc import Sequence

import textarena as ta

import rlver_gym.integrations.gyms.textarena  # noqa: F401  (registers the games)


class Script(ta.Agent):
    """Says one utterance after the other."""

    def __init__(self, utterances: Sequence[str]) -> None:
        super().__init__()
        self.left = list(utterances)

    def __call__(self, observation: str) -> str:
        return self.left.pop(0)


def play(persona: str, seed: int, utterances: Sequence[str]) -> list[float]:
    """The rewards of an episode, until it ends or nothing is left to say."""
    env = ta.make("RLVER-Empathy-v0", persona=persona)
    agent = Script(utterances)
    env.reset(num_players=1, seed=seed)
    rewards, done = [], False
    while agent.left and not done:
        _, observation = env.get_observation()
        done, info = env.step(agent(observation))
        rewards.append(info["reward"])
    return rewards
