"""TorchRL's GRPO on dialogues, with its own collector, buffer and loss: the smallest of models, a
group of dialogues and one update at a time.

python examples/torchrl_grpo.py [UPDATES]     (needs: what adapters/torchrl_env.py names)
"""

# pyright: reportMissingImports=false
import sys

import torch
from adapters.torchrl_env import EmpathyChatEnv, fill_log_probs
from torchrl.collectors.llm import LLMCollector
from torchrl.data import LazyStackStorage, ReplayBuffer
from torchrl.modules.llm import TransformersWrapper
from torchrl.objectives.llm import GRPOLoss, MCAdvantage

from rlver_gym.integrations.episodes import list_specs
from rlver_gym.policy.models.model import load_model, load_tokenizer

UPDATES = int(sys.argv[1]) if len(sys.argv) > 1 else 2
GROUP_SIZE = 3


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, tokenizer = load_model("tiny", device="cpu"), load_tokenizer("tiny")
    sampling = {"max_new_tokens": 24, "do_sample": True, "top_k": len(tokenizer)}
    wrap = {"tokenizer": tokenizer, "return_log_probs": True}
    policy = TransformersWrapper(model, input_mode="history", generate_kwargs=sampling, **wrap)
    learner = TransformersWrapper(model, input_mode="tokens", generate=False, **wrap)
    loss = GRPOLoss(learner, masking_strategy="sft", entropy_bonus=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    env = EmpathyChatEnv([spec for spec in list_specs() for _ in range(GROUP_SIZE)])
    collector = LLMCollector(
        env, policy=policy, yield_completed_trajectories=True, postproc=fill_log_probs
    )
    advantage = MCAdvantage(grpo_size=GROUP_SIZE, trajectory_return="sum")
    buffer = ReplayBuffer(storage=LazyStackStorage(100), transform=advantage)
    trajectories = iter(collector)
    for _ in range(UPDATES):
        while not len(buffer):  # it takes a group when the group is complete
            trajectory = next(trajectories)
            points = float(trajectory["next", "reward"].sum())
            print(f"{points:+4.0f} points with {trajectory['query'][0]}")
            if trajectory["next", "valid"].all():  # a failed user is no score
                buffer.extend(trajectory)
        values = loss(buffer[:])
        values.loss_objective.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        optimizer.zero_grad()
        buffer.empty()
        print(f"updated: gradient norm {norm:.2f}, effective sample size {values.ESS.item():.2f}")


if __name__ == "__main__":
    main()
