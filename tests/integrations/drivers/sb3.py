"""Stable-Baselines3: its evaluation steps the dialogue; a policy chooses utterances by number."""

import gymnasium as gym
import numpy as np
from integrations.drivers import Played
from integrations.scripted import SayUtterance
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from rlver_gym.environment.strategy_env import TalkFeatures
from rlver_gym.util.errors import UserFailed


class OneAfterTheOther:
    def __init__(self):
        self.turn = 0

    def predict(self, observation, **context):
        self.turn += 1
        return np.array([self.turn - 1]), None


def play(persona, seed, utterances, user="embedded"):

    def make_env():
        text = gym.make("RLVER-Empathy-v0", user=user)
        return Monitor(TalkFeatures(SayUtterance(MeetPersona(text, persona), utterances)))

    env = DummyVecEnv([make_env])
    env.seed(seed)
    rewards = []
    try:
        evaluate_policy(
            OneAfterTheOther(),
            env,
            n_eval_episodes=1,
            callback=lambda known, _: rewards.append(float(known["rewards"][known["i"]])),
        )
    except UserFailed:
        return Played(rewards, None, failed=True)
    return Played(rewards, None)


class MeetPersona(gym.Wrapper[str, str, str, str]):
    """Chooses the persona at reset, as `every_need` does."""

    def __init__(self, env, persona):
        super().__init__(env)
        self.persona = persona

    def reset(self, *, seed=None, options=None):
        return self.env.reset(seed=seed, options={**(options or {}), "persona": self.persona})
