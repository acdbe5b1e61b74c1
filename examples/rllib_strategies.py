"""RLlib's PPO on the strategy view, then a dialogue of its checkpoint with somebody it never met.

python examples/rllib_strategies.py [ITERATIONS]     (needs: what adapters/rllib_env.py names)
"""

# pyright: reportMissingImports=false
import sys
import tempfile
from pathlib import Path

import ray
import torch
from adapters.rllib_env import EmotionCallback, make_strategy_env
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.tune.registry import register_env

ITERATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 3


def main() -> None:
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=80_000_000)
    register_env("strategy", make_strategy_env)
    config = (
        PPOConfig()
        .environment("strategy", env_config={"every_need": True})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8, batch_mode="complete_episodes")
        .fault_tolerance(restart_failed_sub_environments=True)
        .learners(num_learners=0)
        .training(gamma=0.6, lr=2e-3, train_batch_size_per_learner=512, minibatch_size=128)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))
        .callbacks(EmotionCallback)
        .debugging(seed=0)
    )
    algo = config.build_algo()
    for _ in range(ITERATIONS):
        sampled = algo.train()["env_runners"]
        turns = int(sampled["num_env_steps_sampled_lifetime"])
        print(f"{turns:6,d} turns: the last dialogues end at {sampled['emotion']:.0f} on average")
    with tempfile.TemporaryDirectory() as folder:
        algo.save_to_path(folder)
        parts = "learner_group", "learner", "rl_module", "default_policy"
        module = RLModule.from_checkpoint(Path(folder, *parts))
    algo.stop()
    ray.shutdown()
    stranger = make_strategy_env({"persona": "theo-the-burst-pipe"})
    seen, info = stranger.reset(seed=0)
    while True:
        batch = {"obs": torch.from_numpy(seen).unsqueeze(0)}
        logits = module.forward_inference(batch)["action_dist_inputs"]
        seen, _, over, _, info = stranger.step(int(logits.argmax()))
        print(f"{info['emotion']:4d}  {info['strategy']:18s} {info['utterance']}")
        if over:
            break


if __name__ == "__main__":
    main()
