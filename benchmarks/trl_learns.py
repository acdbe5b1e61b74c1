"""TRL's GRPOTrainer on the text environment: does the reward rise? Trains a model that can speak,
and asks strangers before and after.

python benchmarks/trl_learns.py MODEL [--steps 80] [--out runs/trl] [--figure research/trl.svg]
    (needs: pip install '.[trl]')
MODEL: such as what `rlver-gym sft --model tiny --out MODEL` writes. Leaves `curve.json` and the
trained model in the folder.
"""

# pyright: reportMissingImports=false, reportPrivateImportUsage=false
import argparse
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from trl import GRPOConfig, GRPOTrainer

from rlver_gym.integrations.trl import Rollout, final_emotion, prompt_rows
from rlver_gym.library.personas import library
from rlver_gym.policy.models.model import load_model, load_tokenizer
from rlver_gym.util.interval import Interval, bootstrap
from rlver_gym.util.svg import draw_line_chart

GROUP, MICRO, AT_ONCE = 8, 8, 8
"""Dialogues of a group; that pass through the model at once; neighbouring steps that make a point
of the figure.
"""


def trainer_of(asked: argparse.Namespace) -> GRPOTrainer:
    """TRL's own loss and optimizer, as they come."""
    config = GRPOConfig(
        str(asked.out),
        max_steps=asked.steps,
        seed=asked.seed,
        per_device_train_batch_size=MICRO,
        gradient_accumulation_steps=asked.dialogues // MICRO,
        num_generations=GROUP,
        max_completion_length=4096,
        learning_rate=asked.lr,
        lr_scheduler_type="constant",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
    )
    return GRPOTrainer(
        model=load_model(asked.model, device="cpu"),
        processing_class=load_tokenizer(asked.model),
        args=config,
        train_dataset=prompt_rows(library().ids("train"), seeds=range(32)),
        rollout_func=Rollout(max_reply_tokens=64),
        reward_funcs=final_emotion,
    )


def strangers(trainer: Any) -> Interval:
    """Final emotion of test personas, eight sampled dialogues each; the interval is over
    personas.
    """
    personas = library().ids("test")
    trainer.model.eval()
    torch.manual_seed(0)
    prompts = [prompt for prompt in prompt_rows(personas)["prompt"] for _ in range(GROUP)]
    emotion = trainer.rollout_func(prompts, trainer)["emotion"]
    return bootstrap(np.array(emotion, dtype=float).reshape(len(personas), GROUP).mean(1))


def main() -> None:
    """Train, and write what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--dialogues", type=int, default=64, help="of a step")
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/trl"))
    parser.add_argument("--figure", type=Path, help="draw the curve into this .svg file")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    trainer = trainer_of(asked)
    before = strangers(trainer)
    trainer.train()
    after = strangers(trainer)
    trainer.save_model(str(asked.out))
    curve = [
        (line["step"], line["emotion"]) for line in trainer.state.log_history if "emotion" in line
    ]
    seconds = [line["step_time"] for line in trainer.state.log_history if "step_time" in line]
    told: dict[str, Any] = {
        "versions": {name: version(name) for name in ("trl", "transformers", "torch")},
        "settings": {name: str(value) for name, value in vars(asked).items()},
        "curve": curve,
        "median_step_s": float(np.median(seconds)),
        "strangers": {"before": before._asdict(), "after": after._asdict()},
    }
    (asked.out / "curve.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    points = [
        (int(part[-1][0]), float(np.mean([one[1] for one in part])))
        for part in (curve[first : first + AT_ONCE] for first in range(0, len(curve), AT_ONCE))
    ]
    if asked.figure:
        levels = {"strangers, before": before.mean, "strangers, after": after.mean}
        asked.figure.write_text(
            draw_line_chart({"training": points}, levels, across="steps of the optimizer"),
            encoding="utf-8",
        )
    print("training:", " ".join(f"{emotion:.1f}" for _, emotion in points))
    print(
        f"strangers: {before.mean:.1f} [{before.low:.1f}, {before.high:.1f}] before,"
        f" {after.mean:.1f} [{after.low:.1f}, {after.high:.1f}] after"
    )


if __name__ == "__main__":
    main()
