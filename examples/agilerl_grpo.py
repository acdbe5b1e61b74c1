"""AgileRL's GRPO on dialogues: its trainer, harness and LoRA, with a model that knows nothing yet.

python examples/agilerl_grpo.py [STEPS]     (needs: what adapters/agilerl_env.py names)
Give it a model of your own instead of GPT2Config; with a Qwen or a Llama its kernels need a GPU.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
import sys

import torch
from adapters.agilerl_env import EmpathyTextEnv
from agilerl.algorithms import GRPO
from agilerl.llm_envs import RolloutHarness
from agilerl.training.llm.rollout import train_llm_rollout
from peft import LoraConfig
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from rlver_gym.policy.models.model import load_tokenizer

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 8
GROUP_SIZE = 4
logging.set_verbosity_error()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokenizer = load_tokenizer("tiny")
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=64, n_layer=2, n_head=2)
    config.update({"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id})
    agent = GRPO(
        pad_token_id=tokenizer.pad_token_id,
        pad_token=tokenizer.pad_token,
        actor_network=GPT2LMHeadModel(config),
        lora_config=LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True),
        batch_size=1,
        group_size=GROUP_SIZE,
        lr=1e-3,
        max_model_len=1024,
        max_output_tokens=16,
        use_liger_loss=False,  # made for a GPU
    )
    harnesses: list[RolloutHarness] = []

    def make_env() -> RolloutHarness:
        env = EmpathyTextEnv()
        harness = RolloutHarness.local(env, tokenizer, max_turns=env.max_turns, max_model_len=1024)
        harnesses.append(harness)
        return harness

    train_llm_rollout([agent], 8, make_env, max_steps=STEPS, verbose=False)
    for harness in harnesses[:GROUP_SIZE]:
        print(f"{sum(harness.turn_rewards):+4.0f} points in {len(harness.turn_rewards)} turns")


if __name__ == "__main__":
    main()
