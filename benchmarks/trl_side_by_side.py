"""Our own GRPO beside TRL's GRPOTrainer: the same model, people, moods and number of tokens; each contender in a process of its own, one after the other.

python benchmarks/trl_side_by_side.py MODEL [--steps 3] [--dialogues 32] [--reply-tokens 48]     (needs: pip install 'rlver-gym[trl]')

Every reply has the same length and no dialogue ends early, so nobody is spared work by what the policy happens to say.
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

from rlver_gym.cards import env_card
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.learner import make_learner
from rlver_gym.policy.model import load_model, load_tokenizer
from rlver_gym.policy.prompts import agent_prompt
from rlver_gym.policy.sampler import Drawn, ModelSampler, Prompt, Sampling
from rlver_gym.policy.train import start, train

ENV, TURNS, GROUP, MICRO = "RLVER-Empathy-v0", 8, 8, 8
CARD = env_card(ENV).model_copy(update={"leave_below": 0, "turns": TURNS})
"""People who stay, whatever is said."""


class Measured(NamedTuple):
    """What one contender took, the first step left out."""

    rollout_s: float
    update_s: float
    turn_s: list[float]
    """Of drawing the replies of each turn; empty where they are not drawn turn by turn."""
    peak_mib: float
    before_mib: float
    """Before the first step: interpreter, libraries and model."""


class FixedLength:
    """A sampler whose replies all have the same length. `anew`: it reads the whole dialogue again each turn."""

    def __init__(self, model: Any, anew: bool = False) -> None:
        """Samples with `model`."""
        self.inner, self.anew = ModelSampler(model), anew
        self.seconds: list[float] = []

    def sample(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Drawn]:
        """Nothing ends a reply but its length."""
        started = time.perf_counter()
        if self.anew:
            self.inner.forget()
        drawn = self.inner.sample(prompts, replace(sampling, stop_ids=frozenset()))
        self.seconds.append(time.perf_counter() - started)
        return drawn

    def forget(self) -> None:
        """See `ModelSampler`."""
        self.inner.forget()


def config_of(asked: argparse.Namespace) -> TrainConfig:
    """The run as our own learner takes it."""
    return TrainConfig(
        model=asked.model, env=ENV, env_options={"card": CARD}, algo="grpo", dialogues=asked.dialogues, group_size=GROUP, iterations=asked.steps + 1,
        max_reply_tokens=asked.reply_tokens, max_tokens=4096, lr=1e-6, eval_every=0, dtype="float32",
    )  # fmt: skip


def own(asked: argparse.Namespace, anew: bool = False) -> Measured:
    """Our learner."""
    learner = make_learner(config_of(asked))
    learner.sampler = sampler = FixedLength(learner.actor.model, anew)  # pyright: ignore[reportAttributeAccessIssue]
    before = peak_mib()
    times = [iteration.times for iteration in train(learner)][1:]
    learned = [one["judge_s"] + one["update_s"] for one in times]
    return Measured(median(one["talk_s"] for one in times), median(learned), by_turn(sampler.seconds), peak_mib(), before)  # fmt: skip


def with_trl(asked: argparse.Namespace, rollout: Callable[..., Any], turn_s: list[float]) -> Measured:
    """TRL's trainer with some rollout_func; `turn_s` is what that notes down."""
    from trl import GRPOConfig, GRPOTrainer  # noqa: PLC0415 (counts for those that need it alone)

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

    rows = []
    env, config = gym.make(ENV), config_of(asked)
    for iteration in range(asked.steps + 1):
        for one in start(config, iteration)[::GROUP]:
            rows += list(prompt_rows([env.reset(seed=one.seed)[1]["persona"]], [one.seed]))
    trainer = GRPOTrainer(
        model=load_model(asked.model, device="cpu"),
        processing_class=load_tokenizer(asked.model),
        reward_funcs=final_emotion,
        args=GRPOConfig(
            tempfile.mkdtemp(), max_steps=asked.steps + 1, per_device_train_batch_size=MICRO, gradient_accumulation_steps=asked.dialogues // MICRO,
            num_generations=GROUP, max_completion_length=4096, shuffle_dataset=False, use_cpu=True, bf16=False, gradient_checkpointing=False,
            report_to="none", save_strategy="no", disable_tqdm=True,
        ),
        train_dataset=_as_dataset(rows),
        rollout_func=timed,
        callbacks=[Clock()],
    )  # fmt: skip
    before = peak_mib()
    trainer.train()
    updates = [step - rolled for step, rolled in zip(steps[1:], taken[1:], strict=True)]
    return Measured(median(taken[1:]), median(updates), by_turn(turn_s), peak_mib(), before)


def ours_in_trl(asked: argparse.Namespace) -> Measured:
    """TRL with our rollout_func."""
    from rlver_gym.integrations.trl import Rollout  # noqa: PLC0415

    sampler: list[FixedLength] = []
    turn_s: list[float] = []

    def rollout(prompts: Any, trainer: Any) -> Any:
        if not sampler:
            sampler.append(FixedLength(trainer.model))
            sampler[0].seconds = turn_s
        return Rollout(ENV, max_reply_tokens=asked.reply_tokens, sampler=sampler[0], card=CARD)(prompts, trainer)

    return with_trl(asked, rollout, turn_s)


def usual_in_trl(asked: argparse.Namespace, at_once: int) -> Measured:
    """TRL with what its users write: the chat template over the whole dialogue, every turn, and `model.generate`, for so many dialogues at once."""
    turn_s: list[float] = []

    def rollout(prompts: Any, trainer: Any) -> Any:
        told: dict[str, list[Any]] = {}
        for first in range(0, len(prompts), at_once):
            for name, values in usual(asked, prompts[first : first + at_once], trainer, turn_s).items():
                told.setdefault(name, []).extend(values)
        return told

    return with_trl(asked, rollout, turn_s)._replace(**({} if at_once > 1 else {"turn_s": []}))


def usual(asked: argparse.Namespace, prompts: Any, trainer: Any, turn_s: list[float]) -> dict[str, list[Any]]:
    """The dialogues of some prompts, in step."""
    tokenizer, count = trainer.processing_class, len(prompts)
    tokenizer.padding_side = "left"
    envs = [gym.make(ENV, card=CARD) for _ in prompts]
    talks = [[{"role": "system", "content": agent_prompt()}] for _ in prompts]
    told: dict[str, list[Any]] = {name: [[] for _ in prompts] for name in ("prompt_ids", "completion_ids", "env_mask")}
    emotion: list[float] = [0] * count
    for number, env in enumerate(envs):
        met = prompts[number][-1]
        talks[number].append({"role": "user", "content": env.reset(seed=met["seed"], options={"persona": met["persona"]})[0]})  # fmt: skip
    for turn in range(TURNS):
        started = time.perf_counter()
        texts = [tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True) for talk in talks]
        encoded = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        with torch.no_grad():
            whole = trainer.model.eval().generate(
                **encoded, do_sample=True, top_k=0, min_new_tokens=asked.reply_tokens, max_new_tokens=asked.reply_tokens
            )
        trainer.model.train()
        turn_s.append(time.perf_counter() - started)
        for number, env in enumerate(envs):
            reply = whole[number, encoded["input_ids"].shape[1] :].tolist()
            heard = encoded["input_ids"][number][encoded["attention_mask"][number].bool()].tolist()
            if turn == 0:
                told["prompt_ids"][number] = heard
            else:
                new = heard[len(told["prompt_ids"][number]) + len(told["completion_ids"][number]) :]
                told["completion_ids"][number] += new
                told["env_mask"][number] += [0] * len(new)
            told["completion_ids"][number] += reply
            told["env_mask"][number] += [1] * len(reply)
            words = tokenizer.decode(reply, skip_special_tokens=True)
            answer, _, _, _, info = env.step(words)
            emotion[number] = info["emotion"]
            talks[number] += [{"role": "assistant", "content": words}, {"role": "user", "content": answer}]
    zeros = [[0.0] * len(ids) for ids in told["completion_ids"]]
    return {**told, "logprobs": zeros, "emotion": emotion, "overflowed": [False] * count}


def _as_dataset(rows: list[dict[str, Any]]) -> Any:
    from datasets import Dataset  # noqa: PLC0415

    return Dataset.from_list(rows)


def by_turn(seconds: Sequence[float]) -> list[float]:
    """The median of each turn over the steps, the first step left out."""
    return [median(seconds[TURNS + turn :: TURNS]) for turn in range(TURNS)] if len(seconds) >= 2 * TURNS else []


def peak_mib() -> float:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


CONTENDERS: dict[str, Callable[[argparse.Namespace], Measured]] = {
    "own learner": own,
    "own learner, reading anew": lambda asked: own(asked, anew=True),
    "TRL, our rollout_func": ours_in_trl,
    "TRL, the usual one": lambda asked: usual_in_trl(asked, asked.dialogues),
    "TRL, one at a time": lambda asked: usual_in_trl(asked, 1),
}


def main() -> None:
    """Measure every contender in a process of its own, and print them side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=3, help="measured steps; one more goes before")
    parser.add_argument("--dialogues", type=int, default=32)
    parser.add_argument("--reply-tokens", type=int, default=48)
    parser.add_argument("--only", choices=CONTENDERS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only:
        torch.set_num_threads(1)
        print(json.dumps(CONTENDERS[asked.only](asked)))
        return
    measured: dict[str, Measured] = {}
    print(f"{asked.dialogues} dialogues of {TURNS} turns, {asked.reply_tokens} tokens a reply, float32, one thread; seconds a step, median of {asked.steps}")  # fmt: skip
    print(f"{'':28s} rollout   update  dialogues/s  peak MiB (before the first step)")
    for name in CONTENDERS:
        command = [sys.executable, __file__, *sys.argv[1:], "--only", name]
        env = {**os.environ, "TRL_EXPERIMENTAL_SILENCE": "1", "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=True)
        one = measured[name] = Measured(*json.loads(done.stdout.splitlines()[-1]))
        speed = asked.dialogues / (one.rollout_s + one.update_s)
        print(f"{name:28s} {one.rollout_s:7.2f} {one.update_s:8.2f} {speed:12.2f} {one.peak_mib:9.0f} ({one.before_mib:.0f})", flush=True)  # fmt: skip
    ours = measured["own learner"]
    for name, one in list(measured.items())[1:]:
        whole = (one.rollout_s + one.update_s) / (ours.rollout_s + ours.update_s)
        print(f"{name:28s} takes {one.rollout_s / ours.rollout_s:.2f} of our rollout, {one.update_s / ours.update_s:.2f} of our update, {whole:.2f} of both")  # fmt: skip
    anew = measured["own learner, reading anew"].turn_s
    ratios = [again / kept for again, kept in zip(anew, ours.turn_s, strict=True)]
    print(f"drawing replies anew against with the cache kept, turns 1 to {TURNS}: {' '.join(f'{one:.2f}' for one in ratios)}; all: {sum(anew) / sum(ours.turn_s):.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
