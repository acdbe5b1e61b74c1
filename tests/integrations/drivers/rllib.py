"""RLlib: its env runner steps the dialogue, and its module chooses by number which of the
utterances is said. RLlib holds no text, so that the numbers are put into words by a wrapper, as in
the strategy view.
"""

import warnings

import gymnasium as gym
import numpy as np
from adapters.rllib_env import DropFailedEpisodes
from integrations.drivers import Played
from integrations.scripted import SayUtterance
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.env_errors import StepFailedRecreateEnvError
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from rlver_gym.environment.strategy_env import TalkFeatures


class OneAfterTheOther(TorchRLModule):
    def setup(self):
        self.turn = 0

    def _forward(self, batch, **context):
        self.turn += 1
        return {Columns.ACTIONS: np.array([self.turn - 1])}


def play(persona, seed, utterances, user="embedded"):

    def make_env(env_config):
        text = gym.make("RLVER-Empathy-v0", persona=persona, user=user, on_failure="truncate")
        return DropFailedEpisodes(TalkFeatures(SayUtterance(text, utterances)))

    config = (
        PPOConfig()
        .environment(make_env)
        .env_runners(num_env_runners=0)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=OneAfterTheOther))
        .debugging(seed=seed)
    )
    with warnings.catch_warnings():  # RLlib registers every environment under the same id
        warnings.filterwarnings("ignore", message=".*Overriding environment rllib-single-agent-env")
        runner = SingleAgentEnvRunner(config=config, worker_index=0)
    rewards = []
    try:
        for _ in utterances:
            (turn,) = runner.sample(num_timesteps=1, explore=False)
            rewards += [float(reward) for reward in turn.get_rewards()]
            if turn.is_done:
                break
    except (RuntimeError, StepFailedRecreateEnvError) as error:
        told = f"{error} {error.__cause__}"
        return Played(rewards, None, failed="restart_failed_sub_environments=True" in told)
    runner.stop()
    return Played(rewards, None)
