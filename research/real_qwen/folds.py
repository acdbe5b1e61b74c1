"""How many pairs of held-out people a policy puts right after learning from the ratings of others.

python -m research.real_qwen.folds MODEL CORPUS --out FILE.jsonl [--algo dpo] [--folds 5]
                                   [--share 1.0] [--threads 1] [--only FOLD ...]

The people of the corpus are dealt into folds. For each, the model learns from the moments of the
others (`rlver-gym train --from`, here with the fold left out). Then a pair of replies of a held-out
person, rated two points apart or more, counts as right when the better reply's log-probability has
risen further above the model before. What the model before thinks of each reply is computed once
and kept beside FILE. Each fold that is done is a line of FILE, and is not run again: the same
command goes on where it was stopped. Prints a line a fold, and the share over all folds that are
there with a 95 % interval over people.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlver_gym.policy.config import TrainConfig, make_config
from rlver_gym.policy.iteration import train
from rlver_gym.policy.learner import Learner, make_learner
from rlver_gym.policy.learning.algorithms import find_pairs
from rlver_gym.policy.learning.micro_batches import score_with_models
from rlver_gym.policy.learning.rollouts import Tokens, pack_rollouts
from rlver_gym.policy.models.actor import TokenScores
from rlver_gym.policy.models.trajectory import Trajectory, ignore_progress
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.interval import bootstrap
from rlver_gym.util.json_lines import append_json, read_json_lines

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


class KnownReference:
    """The model before, whose log-probabilities are looked up instead of computed again."""

    def __init__(self, tokens: Tokens, logprob_S: NDArray[np.float32]) -> None:
        logprob_BT = torch.zeros(tokens.id_BT.shape)
        logprob_BT[tokens.action_mask_BT] = torch.from_numpy(logprob_S)
        keys = self._make_keys(tokens.id_BT, tokens.action_mask_BT)
        self._known = dict(zip(keys, logprob_BT, strict=True))

    @staticmethod
    def _make_keys(id_BT: Tensor, action_mask_BT: Tensor) -> list[bytes]:
        """What each sequence holds up to its last sampled token."""
        length_B = (action_mask_BT.cpu() * torch.arange(1, id_BT.shape[1] + 1)).amax(1)
        rows = zip(id_BT.cpu(), length_B, strict=True)
        return [id_T[:length].numpy().tobytes() for id_T, length in rows]

    def __call__(self, id_BT: Tensor, action_mask_BT: Tensor, *_: object) -> TokenScores:
        keys, width = self._make_keys(id_BT, action_mask_BT), id_BT.shape[1]
        rows = [self._known[key][:width] for key in keys]
        return TokenScores(torch.stack(rows).to(id_BT.device))


def know_reference(learner: Learner, place: Path) -> KnownReference:
    """Read what the model before thinks of the corpus, or compute and keep it."""
    tokens = pack_rollouts(learner.rated).tokens
    if not place.exists():

        def show(stage: str, done: int, total: int) -> None:
            print(f"model before: {stage}, {done} of {total}", flush=True)

        scores = score_with_models(tokens, learner.models, learner.config, show)
        logprob_S = scores.reference_BT[tokens.action_mask_BT].numpy()
        write_atomically(place, logprob_S.astype("<f4").tobytes(), TrainingError)
    logprob_S = np.frombuffer(place.read_bytes(), "<f4").copy()
    if len(logprob_S) != tokens.action_mask_BT.sum():
        raise TrainingError(f"{place} is of another corpus or model. Choose another --out.")
    return KnownReference(tokens, logprob_S)


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
    iterations = max(1, int(asked.share * moments) // SETTINGS["dialogues"])
    values = SETTINGS | {"algo": asked.algo, "dtype": asked.dtype, "iterations": iterations}
    return make_config(values | {"model": asked.model, "corpus": asked.corpus}, "the trial")


def run_fold(asked: argparse.Namespace, fold: int, reference: Path) -> dict[str, list[bool]]:
    """Learn from the people of the other folds; of each held-out person, which pairs are right."""
    learner = make_learner(make_fold_config(asked, 1))
    if learner.models.reference is not None:
        known = know_reference(learner, reference)
        learner.models = learner.models._replace(reference=known)
    people = sorted({str(moment.info["persona"]) for moment in learner.rated})
    kept_out = set(np.random.default_rng(0).permutation(people)[fold :: asked.folds])
    held_out = [moment for moment in learner.rated if moment.info["persona"] in kept_out]
    learner.rated = [moment for moment in learner.rated if moment.info["persona"] not in kept_out]
    learner.config = make_fold_config(asked, len(learner.rated))
    for iteration in train(learner):
        names = ("policy_loss", "pairs", "pair_accuracy", "reference_kl")
        shown = {name: round(iteration.metrics[name], 4) for name in names}
        print(json.dumps({"fold": fold, "step": iteration.number, **shown}), flush=True)
    return count_right(learner, held_out)


def read_folds(out: Path, settings: dict[str, object]) -> dict[int, dict[str, list[bool]]]:
    """Which pairs are right, by person and by fold that is done. TrainingError where the file holds
    folds of other settings.
    """
    folds: dict[int, dict[str, list[bool]]] = {}
    for where, line in read_json_lines(out.parent, out.name):
        if line["settings"] != settings:
            raise TrainingError(f"{where}: a fold of other settings. Choose another --out.")
        folds[line["fold"]] = line["right"]
    return folds


def main() -> None:
    """Run the folds."""
    parser = argparse.ArgumentParser(description="Pairs of held-out people put right")
    parser.add_argument("model")
    parser.add_argument("corpus")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--algo", default="dpo")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0, help="of the moments, read once")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="*")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    names = ("model", "corpus", "algo", "dtype", "folds", "share")
    settings = {name: getattr(asked, name) for name in names} | SETTINGS
    for fold in range(asked.folds) if asked.only is None else asked.only:
        if fold in read_folds(asked.out, settings):
            continue
        started, worked = time.perf_counter(), time.process_time()
        right = run_fold(asked, fold, asked.out.with_suffix(".reference"))
        spent = {
            "seconds": round(time.perf_counter() - started),
            "processor_seconds": round(time.process_time() - worked),
        }
        line = {"fold": fold, "right": right, **spent, "settings": settings}
        append_json(asked.out.parent, asked.out.name, line)
    folds = read_folds(asked.out, settings)
    for fold, right in sorted(folds.items()):
        pairs = [value for values in right.values() for value in values]
        print(f"fold {fold}: {np.mean(pairs):.1%} of {len(pairs)} pairs")
    of_people = [values for right in folds.values() for values in right.values()]
    share = bootstrap(np.array([float(np.mean(values)) for values in of_people], np.float64))
    over = f"{sum(map(len, of_people))} pairs, {len(folds)} of {asked.folds} folds"
    print(f"{asked.algo}: {share.mean:.1%} [{share.low:.1%}, {share.high:.1%}] of {over}")


if __name__ == "__main__":
    main()
