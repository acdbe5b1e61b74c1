"""How many pairs of held-out people a policy puts right after learning from the ratings of others.

python -m research.real_qwen.folds MODEL CORPUS [--algo dpo] [--folds 5] [--passes 1] [--only FOLD]

The people of the corpus are dealt into folds. For each, the model learns from the moments of the
others (`rlver-gym train --from`, here with the fold left out). Then a pair of replies of a held-out
person, rated two points apart or more, counts as right when the better reply's log-probability has
risen further above the model before. Prints a line a fold, and the share over all folds with a 95 %
interval over people.
"""

import argparse
import json
import time
from collections.abc import Sequence

import numpy as np
import torch

from rlver_gym.policy.config import TrainConfig, make_config
from rlver_gym.policy.iteration import train
from rlver_gym.policy.learner import Learner, make_learner
from rlver_gym.policy.learning.algorithms import find_pairs
from rlver_gym.policy.learning.micro_batches import score_with_models
from rlver_gym.policy.learning.rollouts import pack_rollouts
from rlver_gym.policy.models.trajectory import Trajectory, ignore_progress
from rlver_gym.util.interval import bootstrap

SETTINGS = {
    "dialogues": 16,
    "lora_rank": 16,
    "lr": 1.5e-4,
    "warmup": 2,
    "max_tokens": 2048,
    "max_reply_tokens": 100,
    "microbatch_tokens": 2048,
    "eval_every": 0,
}


def count_right(learner: Learner, moments: Sequence[Trajectory]) -> dict[str, list[bool]]:
    """By person: whether each pair is put right."""
    rollouts = pack_rollouts(moments)
    tokens = rollouts.tokens
    config = learner.config.model_copy(update={"minibatches": 2})  # asks for log-probabilities
    scores = score_with_models(tokens, learner.models, config, ignore_progress)
    rise_S = tokens.at_actions(scores.old_BT - scores.reference_BT)
    rise_R = np.bincount(tokens.reply_S, rise_S, len(rollouts.reward_R))
    every = np.ones(len(rise_R), bool)
    pairs = find_pairs(rollouts.reward_R, rollouts.moment_R, every, 2.0, most=10**6)
    right: dict[str, list[bool]] = {}
    for better, worse in zip(pairs.better_P, pairs.worse_P, strict=True):
        who = str(rollouts.who_D[rollouts.dialogue_R[better]])
        right.setdefault(who, []).append(bool(rise_R[better] > rise_R[worse]))
    return right


def make_fold_config(asked: argparse.Namespace, moments: int) -> TrainConfig:
    """The run of one fold, over so many moments."""
    iterations = max(1, asked.passes * moments // SETTINGS["dialogues"])
    values = SETTINGS | {"algo": asked.algo, "dtype": asked.dtype, "iterations": iterations}
    return make_config(values | {"model": asked.model, "corpus": asked.corpus}, "the trial")


def main() -> None:
    """Run the folds."""
    parser = argparse.ArgumentParser(description="Pairs of held-out people put right")
    parser.add_argument("model")
    parser.add_argument("corpus")
    parser.add_argument("--algo", default="dpo")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="*")
    asked = parser.parse_args()
    right: dict[str, list[bool]] = {}
    for fold in asked.only or range(asked.folds):
        started = time.perf_counter()
        learner = make_learner(make_fold_config(asked, 1))
        people = sorted({str(one.info["persona"]) for one in learner.rated})
        kept_out = set(np.random.default_rng(0).permutation(people)[fold :: asked.folds])
        held_out = [one for one in learner.rated if one.info["persona"] in kept_out]
        learner.rated = [one for one in learner.rated if one.info["persona"] not in kept_out]
        learner.config = make_fold_config(asked, len(learner.rated))
        for iteration in train(learner):
            names = ("policy_loss", "pairs", "pair_accuracy", "reference_kl")
            shown = {name: round(iteration.metrics[name], 4) for name in names}
            print(json.dumps({"fold": fold, "step": iteration.number, **shown}), flush=True)
        of_fold = count_right(learner, held_out)
        right |= of_fold
        pairs = [value for values in of_fold.values() for value in values]
        seconds = round(time.perf_counter() - started)
        print(f"fold {fold}: {np.mean(pairs):.1%} of {len(pairs)} pairs, {seconds} s", flush=True)
    shares = np.array([float(np.mean(values)) for values in right.values()], dtype=np.float64)
    mean = bootstrap(shares)
    count = sum(map(len, right.values()))
    print(f"{asked.algo}: {mean.mean:.1%} [{mean.low:.1%}, {mean.high:.1%}] of {count} pairs")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
