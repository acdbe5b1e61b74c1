"""RLlib on the strategy view: what `PPOConfig().environment()` takes. To be copied.

Needs: pip install 'ray[rllib]==2.60.*' torch~=2.13

It pins gymnasium 1.2.2.

    register_env("strategy", make_strategy_env)
    config = (
        PPOConfig()
        .environment("strategy", env_config={"split": "train"})
        .env_runners(batch_mode="complete_episodes")
        .fault_tolerance(restart_failed_sub_environments=True)
        .callbacks(EmotionCallback)
    )

RLlib's env runners batch observations as arrays, so the text view is not for them.
"""

# pyright: reportGeneralTypeIssues=false
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.env.env_errors import StepFailedRecreateEnvError

from rlver_gym.environment.strategy_env import EveryNeed
from rlver_gym.integrations.episodes import list_specs


class DropFailedEpisodes(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Raises RLlib's StepFailedRecreateEnvError when the user failed, so that the env runner throws
    the episode away and begins another one.

    Set `fault_tolerance(restart_failed_sub_environments=True)`: without it RLlib stops with the
    error. Turns that were handed over before the failure are not taken back, so let the env runners
    give `batch_mode="complete_episodes"`.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        _require_valid(info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        _require_valid(info)
        return observation, reward, terminated, truncated, info


def _require_valid(info: Mapping[str, Any]) -> None:
    if not info["valid"]:
        raise StepFailedRecreateEnvError(
            "the user failed, so this episode is no score. Set"
            " fault_tolerance(restart_failed_sub_environments=True) to go on with another one."
        )


def make_strategy_env(env_config: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """The environment of an env runner. `env_config` is what `gym.make("RLVER-Strategy-v0")` takes,
    and `every_need`: true to draw any of the eight hidden needs for anybody of the split, which is
    to train on. `info` holds the emotion, for callbacks; the observation does not.
    """
    options = {"on_failure": "truncate", "info": "privileged", **env_config}
    every_need = options.pop("every_need", False)
    env = gym.make("rlver_gym:RLVER-Strategy-v0", **options)
    if every_need:
        if options.keys() & {"persona", "personas"}:
            raise ValueError(
                "every_need draws from the shipped people: leave out persona, personas"
            )
        where = {"env": options["card"]} if "card" in options else {}
        people = [spec.persona for spec in list_specs(split=options.get("split"), **where)]
        env = EveryNeed(env, personas=people)
    return DropFailedEpisodes(env)


class EmotionCallback(RLlibCallback):
    """Reports `env_runners/emotion` in an algorithm's results: the mean final emotion of the last
    hundred episodes, in points, in [0, 100].
    """

    def on_episode_end(self, *, episode: Any, metrics_logger: Any = None, **context: Any) -> None:
        emotion = episode.get_infos(-1)["emotion"]
        metrics_logger.log_value("emotion", emotion, reduce="mean", window=100)
