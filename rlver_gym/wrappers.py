"""Classic reinforcement learning on text: what to do as a number, and what can be seen as a vector. Each wrapper also works alone."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlver_gym.agents.adaptive import reader
from rlver_gym.agents.strategies import Strategy, said
from rlver_gym.cards import env_card
from rlver_gym.dialogue import Message
from rlver_gym.env import EmpathyEnv
from rlver_gym.errors import DialogueError
from rlver_gym.persona import HiddenNeed
from rlver_gym.words import words

STRATEGIES = tuple(Strategy)
NEEDS = tuple(HiddenNeed)


class StrategyAction(gym.ActionWrapper[str, int, str]):
    """Says in words what a number chooses: action i does `STRATEGIES[i]` about what the person told.

    `info["strategy"]` is what was done (None at reset), `info["utterance"]` the words. The wording varies with the seed of `reset` and the turn;
    it needs nothing but what was said, so it works on any environment of text in, text out.
    """

    def __init__(self, env: gym.Env[str, str]) -> None:
        """`env` takes and gives text."""
        super().__init__(env)
        self.action_space = spaces.Discrete(len(STRATEGIES))
        self._messages: list[Message] = []
        self._wording = np.random.default_rng()
        self._offset = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a dialogue; see the environment."""
        text, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._wording = np.random.default_rng(seed)
        self._offset = int(self._wording.integers(1000))
        self._messages = [Message("user", text)]
        return text, {**info, "strategy": None, "utterance": ""}

    def action(self, action: int) -> str:
        """The words for a choice, here and now. DialogueError before reset."""
        if not self._messages:
            raise DialogueError("the dialogue has not begun. Call reset() first.")
        number = self._offset + len(self._messages) // 2
        return said(STRATEGIES[int(action)], self._messages, number)

    def step(self, action: int) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Do what the number chooses."""
        utterance = self.action(action)
        text, reward, terminated, truncated, info = self.env.step(utterance)
        self._messages += [Message("agent", utterance), Message("user", text)]
        info = {**info, "strategy": STRATEGIES[int(action)].name.lower(), "utterance": utterance}
        return text, reward, terminated, truncated, info


class TalkFeatures(gym.ObservationWrapper[NDArray[np.float32], Any, str]):
    """A vector of what an agent can see, in [0, 1], shape (n,): see `names` for what stands where.

    The turn as a share of the horizon; how much the person's *latest* words hint at each hidden need (read by a naive Bayes reader that was taught on the
    train personas; hints of earlier turns are for the learner to remember); how long those words were, and whether they asked something; how often each strategy was
    used, as a share of the horizon, and the last one, when the environment has a `StrategyAction` below. With `emotion=True` the emotion score / 100 too, which no
    real supporter can see.
    """

    def __init__(self, env: gym.Env[str, Any], *, turns: int = 8, emotion: bool = False) -> None:
        """`turns` is the horizon; beyond it the turn stays at 1."""
        super().__init__(env)
        self.turns = turns
        self.emotion = emotion
        self.names = (
            "turn",
            *(f"hint:{need.value}" for need in NEEDS),
            "length",
            "question",
            *(f"tried:{strategy.name.lower()}" for strategy in STRATEGIES),
            *(f"last:{strategy.name.lower()}" for strategy in STRATEGIES),
            *(["emotion"] if emotion else []),
        )
        self.observation_space = spaces.Box(0.0, 1.0, (len(self.names),), np.float32)
        self._done: list[str] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin a dialogue; see the environment."""
        text, info = self.env.reset(seed=seed, options=options)
        self._done = []
        return self._seen(text, info), info

    def step(self, action: Any) -> tuple[NDArray[np.float32], Any, bool, bool, dict[str, Any]]:
        """One turn; see the environment."""
        text, reward, terminated, truncated, info = self.env.step(action)
        self._done.append(info.get("strategy") or "")
        return self._seen(text, info), reward, terminated, truncated, info

    def observation(self, observation: str) -> NDArray[np.float32]:
        """The vector for these words in this dialogue, without the emotion."""
        return self._seen(observation, {})

    def _seen(self, text: str, info: dict[str, Any]) -> NDArray[np.float32]:
        names = [strategy.name.lower() for strategy in STRATEGIES]
        last = self._done[-1] if self._done else None
        values = [
            len(self._done) / self.turns,
            *hints(text),
            len(words(text)) / 60,
            float("?" in text),
            *(self._done.count(name) / self.turns for name in names),
            *(float(name == last) for name in names),
            *([info.get("emotion", 0) / 100] if self.emotion else []),
        ]
        return np.clip(np.array(values, dtype=np.float32), 0.0, 1.0)


def hints(text: str) -> list[float]:
    """How much the words speak for each of `NEEDS`, in [0, 1): 0 for nothing, 0.5 for as much as one clear sentence gives: 100 nats squared."""
    weighed = reader().weighed([text])
    return [weighed[need] / (weighed[need] + 100.0) for need in NEEDS]


def strategy_env(card: str = "RLVER-Empathy-v0", **kwargs: Any) -> gym.Env[Any, Any]:
    """`RLVER-Strategy-v0`: the dialogues of a card, with a strategy to choose and a vector to see. Other arguments are those of `EmpathyEnv`."""
    protocol = env_card(card)
    env = StrategyAction(EmpathyEnv(protocol, **kwargs))
    return TalkFeatures(env, turns=protocol.turns, emotion=protocol.shows_emotion)
