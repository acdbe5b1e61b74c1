"""A `rollout_func` for TRL as its users write it: every turn the chat template over the whole
dialogue, and `model.generate`. To be measured, not to be used.

It tokenizes again what was sampled, so what is learned from is not always what was said.
"""

import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import torch

from rlver_gym.core.cards import EnvCard

Columns = dict[str, list[Any]]


class UsualRollout:
    """Replies of one fixed length, `at_once` dialogues in step."""

    def __init__(
        self,
        env: str,
        card: EnvCard,
        reply_tokens: int,
        at_once: int,
        into_form: Callable[[list[int]], list[int]] = list,
    ) -> None:
        """Plays `env` by this card. `into_form`: what becomes of the ids of a reply; what stands
        before </think> is not said, and stays in the prompt as everything does, for a rollout is
        one sequence.
        """
        self.into_form = into_form
        self.env, self.card, self.reply_tokens, self.at_once = env, card, reply_tokens, at_once
        self.seconds: list[float] = []
        """Of drawing the replies of one turn."""

    def __call__(self, prompts: list[Any], trainer: Any) -> Columns:
        """What TRL asks for."""
        told: Columns = {}
        for first in range(0, len(prompts), self.at_once):
            for name, values in self._together(
                prompts[first : first + self.at_once], trainer
            ).items():
                told.setdefault(name, []).extend(values)
        return told

    def _together(self, prompts: list[Any], trainer: Any) -> Columns:
        envs = [gym.make(self.env, card=self.card, info="privileged") for _ in prompts]
        names = (
            "prompt_ids",
            "completion_ids",
            "env_mask",
            "logprobs",
            "emotion",
            "context_overflow",
        )
        told: Columns = {name: [[] for _ in prompts] for name in names}
        talks = []
        for env, (system, met) in zip(envs, prompts, strict=True):
            opening, _ = env.reset(seed=met["seed"], options={"persona": met["persona"]})
            talks.append([system, {"role": "user", "content": opening}])
        for turn in range(self.card.turns):
            for number, (heard, reply) in enumerate(self._generated(talks, trainer)):
                if turn == 0:
                    told["prompt_ids"][number] = heard
                ids, mask = told["completion_ids"][number], told["env_mask"][number]
                between = heard[len(told["prompt_ids"][number]) + len(ids) :]
                ids += between + reply
                mask += [0] * len(between) + [1] * len(reply)
                words = trainer.processing_class.decode(reply, skip_special_tokens=True)
                answer, _, _, _, info = envs[number].step(words.rpartition("</think>")[2])
                talks[number] += [
                    {"role": "assistant", "content": words},
                    {"role": "user", "content": answer},
                ]
                told["emotion"][number], told["context_overflow"][number] = info["emotion"], False
        told["logprobs"] = [[0.0] * len(ids) for ids in told["completion_ids"]]
        return told

    def _generated(self, talks: list[Any], trainer: Any) -> list[tuple[list[int], list[int]]]:
        """What each dialogue comes to in tokens, and the reply to it."""
        started, tokenizer = time.perf_counter(), trainer.processing_class
        texts = [
            tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
            for talk in talks
        ]
        given = tokenizer(
            texts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False
        )
        trainer.model.eval()
        with torch.no_grad():
            whole = trainer.model.generate(
                **given,
                do_sample=True,
                top_k=0,
                min_new_tokens=self.reply_tokens,
                max_new_tokens=self.reply_tokens,
            )
        trainer.model.train()
        self.seconds.append(time.perf_counter() - started)
        ids, mask = given["input_ids"], given["attention_mask"].bool()
        replies = [self.into_form(reply) for reply in whole[:, ids.shape[1] :].tolist()]
        return [(ids[row][mask[row]].tolist(), reply) for row, reply in enumerate(replies)]
