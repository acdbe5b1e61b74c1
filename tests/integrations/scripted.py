"""What drivers of frameworks share that choose by number."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym


class SayUtterance(gym.Wrapper[str, Any, str, Any]):
    """Action i says the i-th utterance."""

    def __init__(self, env: gym.Env[str, str], utterances: Sequence[str]) -> None:
        super().__init__(env)
        self.utterances = utterances
        self.action_space = gym.spaces.Discrete(len(utterances))

    def step(self, action: Any) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        return self.env.step(self.utterances[int(action)])
