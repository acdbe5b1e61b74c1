"""The strategy view, `RLVER-Strategy-v0`: what to do as a number, what can be seen as a vector. For
reinforcement learning that knows no text.

## Description

The dialogues of `RLVER-Empathy-v0` (or of another card) through two wrappers, which also work alone
and on any environment of text in, text out: `StrategyAction` says in words what a number chooses,
`TalkFeatures` makes a vector of what the person said and what was tried.

## Action Space

`Discrete(12)`: action i does `STRATEGIES[i]`, in words about what this person told so far.

## Observation Space

`Box(0, 1, (n,), float32)`: `TalkFeatures.names` says what stands where. It holds nothing that a
supporter could not see: the emotion is in it only when the card says `shows_emotion`. Hints of the
hidden need are those of the *latest* words; to remember the earlier ones is left to the learner.

## Rewards, Starting State, Episode End, Info

As the card has them, see `rlver_gym.EmpathyEnv`; `info` also has `strategy` (what was done, None at
reset) and `utterance` (in which words), so that a dialogue can be replayed as text.

## Arguments

`gym.make("RLVER-Strategy-v0", card="RLVER-Empathy-v0", user="embedded", split=None, ...)`: those of
`EmpathyEnv`.

## Version History

- v0: first release
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from rlver_gym.agents.needs import get_leave_one_out_reader
from rlver_gym.agents.strategies import STRATEGIES, compose_utterance
from rlver_gym.core.dialogue import Message
from rlver_gym.core.persona import NEEDS
from rlver_gym.core.words import words
from rlver_gym.util.errors import CardError, ResetNeeded, UtteranceError

LONG_TURN = 60
"""Words of the person from which a turn counts as long, and the length feature is 1."""
CLEAR_HINT = 100.0
"""Evidence of one clear sentence, in nats squared: a hint of 0.5."""


class StrategyAction(gym.Wrapper[str, Any, str, Any], RecordConstructorArgs):
    """Says in words what a number chooses: action i does `STRATEGIES[i]` about what the person
    told.

    `info["strategy"]` is what was done (None at reset), `info["utterance"]` the words. The wording
    varies with the turn and the seed of `reset`.
    """

    def __init__(self, env: gym.Env[str, str]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self.action_space = spaces.Discrete(len(STRATEGIES))
        self._messages: list[Message] = []
        self._wording_rng = np.random.default_rng()
        self._offset = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        text, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._wording_rng = np.random.default_rng(seed)
        self._offset = int(self._wording_rng.integers(1000))
        self._messages = [Message("user", text)]
        return text, {**info, "strategy": None, "utterance": ""}

    def step(self, action: int | np.int64) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        if not self._messages:
            raise ResetNeeded("the dialogue has not begun. Call reset() first.")
        # numpy's comparison in old versions of Discrete overflows on an int beyond 64 bits
        is_int64 = not isinstance(action, int) or abs(action) < 2**63
        if isinstance(action, bool) or not is_int64 or not self.action_space.contains(action):
            raise UtteranceError(
                f"there is no strategy {str(action)[:80]!r} ({type(action).__name__}). Give one"
                f" whole number from 0 to {len(STRATEGIES) - 1}."
            )
        strategy = STRATEGIES[int(action)]
        utterance = compose_utterance(
            strategy, self._messages, self._offset + len(self._messages) // 2
        )
        text, reward, terminated, truncated, info = self.env.step(utterance)
        self._messages += [Message("agent", utterance), Message("user", text)]
        info = {**info, "strategy": strategy.name.lower(), "utterance": utterance}
        return text, reward, terminated, truncated, info


class TalkFeatures(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A vector of what an agent can see, in [0, 1], shape (n,): see `names` for what stands where.

    The turn as a share of the horizon; how much the person's latest words hint at each hidden need
    (see `hints`); how long they were, and whether they asked something; how often each strategy was
    used, as a share of the horizon, and which was the last, when a `StrategyAction` lies below.
    With `emotion=True` the emotion score / 100 too, which no real supporter can see.
    """

    def __init__(
        self, env: gym.Env[str, Any], *, turns: int | None = None, emotion: bool | None = None
    ) -> None:
        """`turns` is the horizon. None takes horizon and emotion from the environment's card.
        CardError for a horizon below 1, and out of `reset` for an emotion that `info` does not
        hold.
        """
        RecordConstructorArgs.__init__(self, turns=turns, emotion=emotion)
        gym.Wrapper.__init__(self, env)
        self.turns: int = env.get_wrapper_attr("card").turns if turns is None else turns
        if self.turns < 1:
            raise CardError(f"turns must be 1 or more, not {self.turns}.")
        self.emotion: bool = (
            env.get_wrapper_attr("card").shows_emotion if emotion is None else emotion
        )
        self.names = (
            "turn",
            *(f"hint:{need.value}" for need in NEEDS),
            "length",
            "question",
            *(f"tried:{name}" for name in _NAMES),
            *(f"last:{name}" for name in _NAMES),
            *(["emotion"] if self.emotion else []),
        )
        self.observation_space = spaces.Box(0.0, 1.0, (len(self.names),), np.float32)
        self._strategies_used: list[str | None] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        text, info = self.env.reset(seed=seed, options=options)
        self._strategies_used = []
        return self._make_observation(text, info), info

    def step(self, action: Any) -> tuple[NDArray[np.float32], Any, bool, bool, dict[str, Any]]:
        text, reward, terminated, truncated, info = self.env.step(action)
        self._strategies_used.append(info.get("strategy"))
        return self._make_observation(text, info), reward, terminated, truncated, info

    def _make_observation(self, text: str, info: dict[str, Any]) -> NDArray[np.float32]:
        if self.emotion and "emotion" not in info:
            raise CardError(
                'the emotion is not in info: make the environment with info="privileged", or leave'
                " out emotion=True."
            )
        last = self._strategies_used[-1] if self._strategies_used else None
        values = [
            len(self._strategies_used) / self.turns,
            *compute_need_evidence(text),
            len(words(text)) / LONG_TURN,
            float("?" in text),
            *(self._strategies_used.count(name) / self.turns for name in _NAMES),
            *(float(name == last) for name in _NAMES),
            *([info["emotion"] / 100] if self.emotion else []),
        ]
        return np.clip(np.array(values, dtype=np.float32), 0.0, 1.0)


class EveryNeed(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Draws a persona and any of the eight hidden needs at each reset: for training, where a
    learner would come to know the need by the story, and has to listen.
    """

    def __init__(self, env: gym.Env[Any, Any], *, personas: Sequence[str]) -> None:
        RecordConstructorArgs.__init__(self, personas=personas)
        gym.Wrapper.__init__(self, env)
        self.personas = tuple(personas)
        if not self.personas:
            raise CardError("personas is empty: give the ids to draw from.")
        self._rng = np.random.default_rng()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        persona, need = self._rng.integers(len(self.personas)), self._rng.integers(len(NEEDS))
        choice = {"persona": f"{self.personas[persona]}/{NEEDS[need].value}"}
        return self.env.reset(seed=seed, options=choice | (options or {}))


_NAMES = tuple(strategy.name.lower() for strategy in STRATEGIES)


@lru_cache(maxsize=8_192)
def compute_need_evidence(text: str) -> tuple[float, ...]:
    """How much the words speak for each of `NEEDS`, in [0, 1): 0.5 for as much as one clear
    sentence gives. The naive Bayes reader reads the train personas as if it had never met them.
    """
    evidence = get_leave_one_out_reader().weigh_evidence([text])
    return tuple(evidence[need] / (evidence[need] + CLEAR_HINT) for need in NEEDS)
