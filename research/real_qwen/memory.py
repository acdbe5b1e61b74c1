"""What one step over rated replies costs a model in memory and processor time.

python -m research.real_qwen.memory MODEL [CORPUS] [--moments 29] [--algo dpo] [--threads 1]
                                    [--microbatch-tokens 2048] [--gradient-checkpointing]

The step of `rlver-gym train --from` over the first moments of a corpus (six replies each in
recordings/en/samples/own), adapters of rank 16. Prints a line of JSON: peak memory of the process
once the model is loaded and at the end, and the processor time of the step.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import torch

from research.real_qwen.folds import SETTINGS
from rlver_gym.policy.config import make_config
from rlver_gym.policy.iteration import train
from rlver_gym.policy.learner import make_learner
from rlver_gym.policy.learning.rollouts import pack_rollouts

OWN = Path(__file__).parents[2] / "recordings" / "en" / "samples" / "own"


def measure_peak_gib() -> float:
    """Of this process so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


def main() -> None:
    """Take the step."""
    parser = argparse.ArgumentParser(description="Memory and time of one step")
    parser.add_argument("model")
    parser.add_argument("corpus", nargs="?", default=str(OWN))
    parser.add_argument("--moments", type=int, default=29)
    parser.add_argument("--algo", default="dpo")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--microbatch-tokens", type=int, default=SETTINGS["microbatch_tokens"])
    parser.add_argument("--gradient-checkpointing", action="store_true")
    asked = vars(parser.parse_args())
    torch.set_num_threads(asked.pop("threads"))
    moments = asked.pop("moments")
    values = SETTINGS | asked | {"dialogues": moments, "iterations": 1}
    learner = make_learner(make_config(values, "the options"))
    learner.rated, loaded = learner.rated[:moments], measure_peak_gib()
    tokens = pack_rollouts(learner.rated).tokens
    started, worked = time.perf_counter(), time.process_time()
    (iteration,) = train(learner)
    spent = {
        "moments": len(learner.rated),
        "replies": len(tokens.length_B),
        "said_tokens": int(tokens.action_mask_BT.sum()),
        "loaded_gib": loaded,
        "peak_gib": measure_peak_gib(),
        "processor_seconds": round(time.process_time() - worked, 1),
        "seconds": round(time.perf_counter() - started, 1),
        "policy_loss": round(iteration.metrics["policy_loss"], 4),
    }
    print(json.dumps(asked | spent))


if __name__ == "__main__":
    main()
