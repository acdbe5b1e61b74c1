"""Adaptive difficulty: people warm less readily when the agent succeeds often."""

from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from rlver_gym.core.world import World
from rlver_gym.environment.env import EmpathyEnv

_LEAST, _MOST = 0.4, 1.6


class AdaptiveDifficulty(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """An `EmpathyEnv` whose people warm by a number that follows the agent's success.

    After each dialogue `warming` falls by `step * (1 - target)` when it went well and rises by
    `step * target` when it did not, which balances where a share of `target` goes well; the next
    dialogue begins with it. It went well when its final emotion reached `good`. Nothing is drawn:
    the same dialogues give the same course. `state` and `set_state` go into a checkpoint;
    info["warming"] says where it stands. A score reached so is no benchmark: the env card is
    another one at each dialogue.
    """

    def __init__(
        self, env: gym.Env[str, str], target: float = 0.5, good: int = 50, step: float = 0.05
    ) -> None:
        RecordConstructorArgs.__init__(self, target=target, good=good, step=step)
        gym.Wrapper.__init__(self, env)
        if not (0 < target < 1 and 1 <= good <= 100 and 0 < step <= 0.5):
            raise ValueError(
                f"target {target} must lie in (0, 1), good {good} in 1 to 100, step {step} in (0,"
                " 0.5]"
            )
        if not isinstance(env.unwrapped, EmpathyEnv):
            raise ValueError("its people are played elsewhere, as they are: leave out url=")
        self.target, self.good, self.step_size = target, good, step
        self._card = self._inner.card
        self._world = self._card.world or World()
        self.warming = self._world.warming

    @property
    def _inner(self) -> Any:
        return self.env.unwrapped

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        self._play_with(self.warming)
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "warming": self.warming}

    def _play_with(self, warming: float) -> None:
        self.warming = warming
        world = self._world.model_copy(update={"warming": warming})
        self._inner.card = self._card.model_copy(update={"world": world})

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated:
            self._adapt(self._inner.session.emotion >= self.good)
        return observation, reward, terminated, truncated, {**info, "warming": self.warming}

    def _adapt(self, is_good: bool) -> None:
        change = -self.step_size * (1 - self.target) if is_good else self.step_size * self.target
        self.warming = round(min(_MOST, max(_LEAST, self.warming + change)), 6)

    def state(self) -> dict[str, float]:
        return {"warming": self.warming}

    def set_state(self, state: dict[str, float]) -> None:
        """Raises KeyError for a state without `warming`. A dialogue that was under way then can be
        restored after it.
        """
        self._play_with(min(_MOST, max(_LEAST, float(state["warming"]))))
