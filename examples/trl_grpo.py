"""TRL's GRPOTrainer on the text environment: a few steps, then a dialogue of the last one.

python examples/trl_grpo.py [MODEL] [STEPS]     (needs: pip install '.[trl]')
Without a MODEL a tiny one that was never taught to speak. For one that was: rlver-gym sft --model
tiny --out runs/warm
"""

# pyright: reportMissingImports=false, reportPrivateImportUsage=false
import sys
from typing import Any

import torch
from trl import GRPOConfig, GRPOTrainer

from rlver_gym.integrations.trl import Rollout, final_emotion, prompt_rows
from rlver_gym.library.personas import library
from rlver_gym.policy.models.model import load_model, load_tokenizer

MODEL, STEPS = (*sys.argv[1:], *("tiny", "3")[len(sys.argv) - 1 :])
last: list[dict[str, str]] = []


def talkative(dialogue: list[Any], turn_rewards: list[Any], **columns: Any) -> list[Any]:
    """A reward of your own, from the columns of a dialogue: half a point for each turn."""
    last[:] = dialogue[0]
    return [0.005 * len(rewards) for rewards in turn_rewards]


def main() -> None:
    torch.set_num_threads(1)
    config = GRPOConfig(
        output_dir="runs/trl",
        max_steps=int(STEPS),
        per_device_train_batch_size=8,  # dialogues a step
        num_generations=4,  # of which so many meet the same person in the same mood
        max_completion_length=4096,  # of a whole dialogue
        learning_rate=5e-4,
        bf16=torch.cuda.is_available(),
        use_cpu=not torch.cuda.is_available(),
        report_to="none",
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=load_model(MODEL),
        processing_class=load_tokenizer(MODEL),
        args=config,
        train_dataset=prompt_rows(library().ids("train"), seeds=range(8)),
        rollout_func=Rollout("RLVER-Empathy-v0", max_reply_tokens=32),
        reward_funcs=[final_emotion, talkative],
    )
    trainer.train()
    for message in last:
        print(f"{message['role']:10s} {message['content']}")


if __name__ == "__main__":
    main()
