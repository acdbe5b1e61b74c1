"""Our own GRPO beside TRL's GRPOTrainer: the same model, people, moods and number of tokens; each
contender in a process of its own, one after the other, and all of them again in every round, since
a busy machine is never twice the same.

python benchmarks/trl_side_by_side.py MODEL [--rounds 3] [--steps 2] [--dialogues 32]
    [--reply-tokens 48] [--style think]     (needs: pip install '.[trl]')

Every reply has the same length and no dialogue ends early, so nobody is spared work by what the
policy happens to say. With --style think the first half of a reply is a thought: ours are not in
later prompts, and the turns of a dialogue share what they begin with; TRL's stay there, for a
rollout is one sequence to it.
"""

# pyright: reportMissingImports=false, reportPrivateImportUsage=false
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

import gymnasium as gym
import torch
import transformers
from usual_rollout import UsualRollout

from rlver_gym.core.cards import env_card
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.iteration import train
from rlver_gym.policy.learner import make_learner, make_reset_specs
from rlver_gym.policy.models.model import load_model, load_tokenizer
from rlver_gym.policy.models.sampler import Completion, ModelSampler, Prompt, Sampling

ENV, TURNS, GROUP, MICRO = "RLVER-Empathy-v0", 8, 8, 8
CARD = env_card(ENV).model_copy(update={"leave_below": 0, "turns": TURNS})
"""People who stay, whatever is said."""


class Measured(NamedTuple):
    """What one contender took, the first step left out."""

    rollout_s: float
    update_s: float
    peak_mib: float
    before_mib: float
    """Before the first step: interpreter, libraries and model."""
    turn_s: list[float]
    """Of drawing the replies of each turn; empty where they are not drawn turn by turn."""


class FixedLength:
    """A sampler whose replies all have the same length.

    `anew`: it reads the whole dialogue again each turn.
    """

    at_once: int | None = None

    def __init__(
        self, model: Any, anew: bool = False, into_form: Callable[[list[int]], list[int]] = list
    ) -> None:
        """Samples with `model`."""
        self.inner, self.anew, self.into_form = ModelSampler(model), anew, into_form
        self.seconds: list[float] = []

    def sample(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Nothing ends a reply but its length."""
        started = time.perf_counter()
        if self.anew:
            self.inner.forget()
        drawn = self.inner.sample(prompts, replace(sampling, stop_ids=frozenset()))
        self.seconds.append(time.perf_counter() - started)
        return [Completion(self.into_form(one.ids), one.logprobs) for one in drawn]

    def forget(self) -> None:
        """See `ModelSampler`."""
        self.inner.forget()

    def refresh(self) -> None:
        """See `ModelSampler`."""
        self.inner.refresh()


def form_of(asked: argparse.Namespace) -> Callable[[list[int]], list[int]]:
    """What is done to the ids of a reply, so that it thinks in its first half: untrained models
    would never end a thought.
    """
    if asked.style == "direct":
        return list
    tokenizer = load_tokenizer(asked.model)
    begin, end = (
        tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("<think>", "</think>")
    )

    def think(ids: list[int]) -> list[int]:
        half = len(ids) // 2
        return [*begin, *ids[len(begin) : half], *end, *ids[half + len(end) :]]

    return think


def config_of(asked: argparse.Namespace) -> TrainConfig:
    """The run as our own learner takes it."""
    return TrainConfig(
        model=asked.model,
        env=ENV,
        env_options={"card": CARD},
        algo="grpo",
        dialogues=asked.dialogues,
        group_size=GROUP,
        iterations=asked.steps + 1,
        max_reply_tokens=asked.reply_tokens,
        max_tokens=4096,
        lr=1e-6,
        kl=0.0,
        eval_every=0,
        dtype="float32",
        style=asked.style,
        max_sampler_kl=None,
    )


def own(asked: argparse.Namespace, anew: bool = False) -> Measured:
    """Our learner."""
    learner = make_learner(config_of(asked))
    learner.sampler = sampler = FixedLength(learner.models.actor.model, anew, form_of(asked))
    before = peak_mib()
    times = [iteration.times for iteration in train(learner)][1:]
    learned = [one["prepare_s"] + one["update_s"] for one in times]
    return Measured(
        median(one["rollout_s"] for one in times),
        median(learned),
        peak_mib(),
        before,
        by_turn(sampler.seconds),
    )


def with_trl(
    asked: argparse.Namespace, rollout: Callable[..., Any], turn_s: list[float]
) -> Measured:
    """TRL's trainer with some rollout_func; `turn_s` is what that notes down."""
    # its memory counts for those that need it
    from datasets import concatenate_datasets  # noqa: PLC0415
    from trl import GRPOConfig, GRPOTrainer  # noqa: PLC0415

    from rlver_gym.integrations.trl import final_emotion, prompt_rows  # noqa: PLC0415

    taken: list[float] = []
    steps: list[float] = []

    def timed(*given: Any) -> Any:
        started = time.perf_counter()
        told = rollout(*given)
        taken.append(time.perf_counter() - started)
        return told

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, *given: Any, **named: Any) -> None:
            self.started = time.perf_counter()

        def on_step_end(self, *given: Any, **named: Any) -> None:
            steps.append(time.perf_counter() - self.started)

    env, config = gym.make(ENV), config_of(asked)
    seeds = [
        one.seed
        for iteration in range(asked.steps + 1)
        for one in make_reset_specs(config, iteration)[::GROUP]
    ]
    rows = [prompt_rows([env.reset(seed=seed)[1]["persona"]], [seed]) for seed in seeds]
    trainer = GRPOTrainer(
        model=load_model(asked.model, device="cpu"),
        processing_class=load_tokenizer(asked.model),
        reward_funcs=final_emotion,
        args=GRPOConfig(
            tempfile.mkdtemp(),
            max_steps=asked.steps + 1,
            per_device_train_batch_size=MICRO,
            gradient_accumulation_steps=asked.dialogues // MICRO,
            num_generations=GROUP,
            max_completion_length=4096,
            shuffle_dataset=False,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=concatenate_datasets(rows),
        rollout_func=timed,
        callbacks=[Clock()],
    )
    before = peak_mib()
    trainer.train()
    updates = [step - rolled for step, rolled in zip(steps[1:], taken[1:], strict=True)]
    return Measured(median(taken[1:]), median(updates), peak_mib(), before, by_turn(turn_s))


def ours_in_trl(asked: argparse.Namespace) -> Measured:
    """TRL with our rollout_func."""
    from rlver_gym.integrations.trl import Rollout  # noqa: PLC0415

    sampler: list[FixedLength] = []
    turn_s: list[float] = []

    def rollout(prompts: Any, trainer: Any) -> Any:
        if not sampler:
            sampler.append(FixedLength(trainer.model))
            sampler[0].seconds = turn_s
        return Rollout(ENV, max_reply_tokens=asked.reply_tokens, sampler=sampler[0], card=CARD)(
            prompts, trainer
        )

    return with_trl(asked, rollout, turn_s)


def usual_in_trl(asked: argparse.Namespace, at_once: int) -> Measured:
    """TRL with what its users write, for so many dialogues at once."""
    usual = UsualRollout(ENV, CARD, asked.reply_tokens, at_once, form_of(asked))
    measured = with_trl(asked, usual, usual.seconds)
    return measured if at_once == asked.dialogues else measured._replace(turn_s=[])


def by_turn(seconds: Sequence[float]) -> list[float]:
    """The median of each turn over the steps, the first step left out."""
    return (
        [median(seconds[TURNS + turn :: TURNS]) for turn in range(TURNS)]
        if len(seconds) >= 2 * TURNS
        else []
    )


def peak_mib() -> float:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


OURS_IN_TRL = "TRL, our rollout_func"
"""Speaks directly only."""
CONTENDERS: dict[str, Callable[[argparse.Namespace], Measured]] = {
    "own learner": own,
    "own learner, reading anew": lambda asked: own(asked, anew=True),
    OURS_IN_TRL: ours_in_trl,
    "TRL, the usual one": lambda asked: usual_in_trl(asked, asked.dialogues),
    "TRL, one at a time": lambda asked: usual_in_trl(asked, 1),
}


def main() -> None:
    """Measure every contender in a process of its own, and print them side by side."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--steps", type=int, default=2, help="measured steps of a round; one more goes before"
    )
    parser.add_argument("--dialogues", type=int, default=32)
    parser.add_argument("--reply-tokens", type=int, default=48)
    parser.add_argument("--style", choices=("direct", "think"), default="direct")
    parser.add_argument("--only", choices=CONTENDERS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only:
        torch.set_num_threads(1)
        print(json.dumps(CONTENDERS[asked.only](asked)))
        return
    names = [name for name in CONTENDERS if asked.style == "direct" or name != OURS_IN_TRL]
    rounds = [{name: measured(name) for name in names} for _ in range(asked.rounds)]
    print(
        f"{asked.style}: {asked.dialogues} dialogues of {TURNS} turns, {asked.reply_tokens} tokens"
        f" a reply, float32, one thread; medians of {asked.rounds} rounds"
    )
    print(
        f"{'':26s} rollout_s update_s dialogues/s  peak MiB (before)    of our rollout, update,"
        " both"
    )
    for name in names:
        mine, ours = ([one[who] for one in rounds] for who in (name, "own learner"))
        rollout_s, update_s, peak, before = (
            median(values) for values in zip(*(each[:4] for each in mine), strict=True)
        )
        both = [each.rollout_s + each.update_s for each in mine]
        against = [
            median(
                getattr(his, part) / getattr(our, part) for his, our in zip(mine, ours, strict=True)
            )
            for part in ("rollout_s", "update_s")
        ]
        whole = median(
            his / (our.rollout_s + our.update_s) for his, our in zip(both, ours, strict=True)
        )
        print(
            f"{name:26s} {rollout_s:9.2f} {update_s:8.2f} {asked.dialogues / median(both):11.2f}"
            f" {peak:9.0f} ({before:4.0f}) {against[0]:16.2f} {against[1]:12.2f} {whole:6.2f}"
        )
    ratios = [
        [
            again / kept
            for again, kept in zip(
                one["own learner, reading anew"].turn_s, one["own learner"].turn_s, strict=True
            )
        ]
        for one in rounds
    ]
    turns = " ".join(f"{median(values):.2f}" for values in zip(*ratios, strict=True))
    print(f"drawing replies anew, against with the cache kept, turns 1 to {TURNS}: {turns}")


def measured(name: str) -> Measured:
    """One contender, in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--only", name]
    env = {**os.environ, "TRL_EXPERIMENTAL_SILENCE": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=True)
    one = Measured(*json.loads(done.stdout.splitlines()[-1]))
    print(
        f"  {name}: {one.rollout_s:.2f} s + {one.update_s:.2f} s, {one.peak_mib:.0f} MiB",
        file=sys.stderr,
        flush=True,
    )
    return one


if __name__ == "__main__":
    main()
