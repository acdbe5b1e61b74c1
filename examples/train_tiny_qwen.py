"""A tiny Qwen from nothing finds out by GRPO which of its sentences do people good.

python examples/train_tiny_qwen.py     (needs: pip install '.[train]'; a minute)
"""

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from rlver_gym import Message, env_card
from rlver_gym.bench.export.demonstrations import generate_demonstrations
from rlver_gym.policy.config import make_config
from rlver_gym.policy.evaluate import evaluate
from rlver_gym.policy.iteration import train
from rlver_gym.policy.learner import Learner, make_learner
from rlver_gym.policy.run_sft import teach
from rlver_gym.policy.sft_config import SftConfig

ORDERS = ("Move on with life.", "Cheer up.", "Make a plan.", "Get more sleep.", "Forget about it.")
QUESTIONS = ("How do you feel about it?", "What do you want to do?", "Who knows about it?")
CARD = env_card("RLVER-Empathy-v0").model_copy(update={"turns": 4})
SIZES = dict(iterations=12, dialogues=32, group_size=8, max_reply_tokens=16, max_tokens=2048)
TASK = dict(eval_temperature=1.0, env_options={"card": CARD}, advantage="centred", lr=3e-4, kl=0.05)


class Habits:
    """Whom the model learns from: any of the sentences by chance, orders twice as often."""

    def reply(self, messages: Sequence[Message]) -> str:
        return random.Random(str(messages)).choice(2 * ORDERS + QUESTIONS)


def show(when: str, learner: Learner) -> None:
    found = evaluate(learner)
    said = [x.text for one in found.trajectories for x in one.lines if x.speaker == "agent"]
    share = sum(text.split()[0] in " ".join(ORDERS) for text in said if text) / len(said)
    score, low, high = (found.metrics[f"eval_{name}"] for name in ("score", "low", "high"))
    print(f"{when} strangers end at {score:.1f} [{low:.1f}, {high:.1f}]", end="; ")
    print(f"{share:.0%} orders: {' '.join(said[:4])}")


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "warm"
        teach(SftConfig(epochs=2), generate_demonstrations(["train_tiny_qwen:Habits"], 200), warm)
        learner = make_learner(make_config({"model": str(warm), **SIZES, **TASK}, "this example"))
    show("before:", learner)
    for iteration in train(learner):
        print(f"{iteration.number:4d}    change {iteration.metrics['return']:+6.1f}", flush=True)
    show("after: ", learner)


if __name__ == "__main__":
    main()
