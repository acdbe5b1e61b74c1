"""Stable-Baselines3 on the strategy view: a short training, then a dialogue with somebody the
learner has never met.

python examples/sb3_strategies.py     (needs: pip install '.[sb3]')
A training to the end, tested against random and fixed choice: rlver-gym sb3
"""

# pyright: reportMissingImports=false
import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import rlver_gym  # noqa: F401 (registers the environments)

STEPS = 4_096


def main() -> None:
    torch.set_num_threads(1)
    env = VecNormalize(
        make_vec_env(lambda: gym.make("RLVER-Strategy-v0"), n_envs=16, seed=0), gamma=0.95
    )
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=64,
        batch_size=256,
        learning_rate=1e-3,
        gamma=0.95,
        seed=0,
        device="cpu",
    )
    model.learn(STEPS)

    stranger = gym.make(
        "RLVER-Strategy-v0", split="test", persona="theo-the-burst-pipe", info="privileged"
    )
    seen, info = stranger.reset(seed=0)
    over = False
    while not over:
        action, _ = model.predict(env.normalize_obs(seen), deterministic=True)
        seen, _, over, _, info = stranger.step(int(action))
        print(f"{info['emotion']:4d}  {info['strategy']:18s} {info['utterance']}")
    print(f"Theo ends at {info['emotion']}, after {STEPS:,} turns of training with others.")


if __name__ == "__main__":
    main()
