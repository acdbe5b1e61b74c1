"""Plain supervised learning on demonstrations: of good supporters, or of the benchmark's agents for
a model that cannot yet speak.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.optim import AdamW

from rlver_gym.corpora.demonstrations import Demonstration
from rlver_gym.policy.learning.algorithms import Ints
from rlver_gym.policy.learning.micro_batches import split_into_micro_batches
from rlver_gym.policy.learning.rollouts import Tokens, pack_rollouts
from rlver_gym.policy.models.distributed import all_reduce_sum, rank, ranks, sync_gradients
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.models.rollout import SequenceBuilder
from rlver_gym.policy.models.sampler import Completion
from rlver_gym.policy.models.trajectory import Trajectory
from rlver_gym.util.errors import TrainingError

_DIALOGUES = 4
"""Dialogues that one step learns from."""
_TOKENS = 16_384
"""Tokens that pass at once, padding included."""


def tokenize_demonstration(demonstration: Demonstration, renderer: Renderer) -> Trajectory:
    """The demonstration as the policy would have said it, plans as thoughts if it thinks."""
    builders: list[SequenceBuilder] = []
    for turn, reply in enumerate(demonstration.replies):
        before = builders[-1].ids if builders else []
        prompt = renderer.next_prompt(
            before, demonstration.users[: turn + 1], demonstration.replies[:turn]
        )
        if renderer.style == "think" or not builders:
            builders.append(SequenceBuilder())
        said = renderer.reply(reply, demonstration.plans[turn])
        is_learned = not demonstration.only_last or turn == len(demonstration.replies) - 1
        completion = Completion(said, [0.0] * len(said))
        builders[-1].grow(prompt, completion, turn if is_learned else -1)
    return Trajectory(
        0,
        0,
        np.zeros(len(demonstration.replies), np.float32),
        np.zeros(len(demonstration.replies), np.bool_),
        tuple(one.sequence() for one in builders),
        (),
        {},
    )


class Split(NamedTuple):
    """Demonstrations to learn from, and those of people who are held out."""

    learned: list[Demonstration]
    held_out: list[Demonstration]


def hold_out(demonstrations: Sequence[Demonstration], share: float, seed: int) -> Split:
    """A share of the people, rounded down, by the seed; who begins alike is one, if unnamed."""
    people = sorted({_tell_apart(told) for told in demonstrations})
    drawn = np.random.default_rng((seed, 1)).permutation(len(people))[: int(share * len(people))]
    chosen = {people[at] for at in drawn}
    return Split(
        [told for told in demonstrations if _tell_apart(told) not in chosen],
        [told for told in demonstrations if _tell_apart(told) in chosen],
    )


def _tell_apart(told: Demonstration) -> str:
    return told.who or told.users[0]


@dataclass
class SupervisedLearner:
    """A policy that learns what was said: the cross-entropy of the action tokens."""

    actor: nn.Module
    trajectories: Sequence[Trajectory]
    epochs: int
    lr: float
    """At its highest: it rises over a twentieth of the steps and falls along a cosine to a tenth.
    """
    seed: int = 0
    step: int = 0
    """Steps that are done."""

    def __post_init__(self) -> None:
        learning = [weight for weight in self.actor.parameters() if weight.requires_grad]
        self.optimizer = AdamW(learning, lr=self.lr, weight_decay=0.01)
        rng, count = np.random.default_rng(self.seed), len(self.trajectories)
        self.plan: list[Ints] = [
            part
            for _ in range(self.epochs)
            for part in np.array_split(rng.permutation(count), max(1, count // _DIALOGUES))
        ]

    @property
    def is_pass_done(self) -> bool:
        """Whether all dialogues were learned from equally often."""
        return self.step % (len(self.plan) // self.epochs) == 0

    def learn(self) -> float:
        """Take the next step; its loss, in nats a token. TrainingError for no finite number."""
        number, steps = self.step, len(self.plan)
        for group in self.optimizer.param_groups:
            rise = min(1.0, (number + 1) / (0.05 * steps))
            group["lr"] = self.lr * rise * (0.55 + 0.45 * math.cos(math.pi * number / steps))
        self.optimizer.zero_grad()
        # A run that goes on drops out what it would have dropped, where a model drops anything.
        torch.manual_seed(int(np.random.SeedSequence((self.seed, number)).generate_state(1)[0]))
        chosen = pack_rollouts([self.trajectories[at] for at in self.plan[number]]).tokens
        loss = compute_cross_entropy(self.actor.train(), chosen)
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss became NaN or infinite in step {number + 1}. Try a smaller --lr than"
                f" {self.lr:g}."
            )
        nn.utils.clip_grad_norm_(self.actor.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return loss


@torch.no_grad()
def measure_cross_entropy(actor: nn.Module, trajectories: Sequence[Trajectory]) -> float:
    """The loss of these dialogues, in nats a token, as the actor is now."""
    return compute_cross_entropy(actor.eval(), pack_rollouts(trajectories).tokens)


def compute_cross_entropy(actor: nn.Module, tokens: Tokens, most: int = _TOKENS) -> float:
    """The mean over the action tokens, with gradients where asked for. `most`: tokens at once."""
    device, total = next(actor.parameters()).device, 0.0
    said = int(tokens.action_mask_BT.sum())
    todo = list(split_into_micro_batches(tokens, most, rank(), ranks()))
    for at, (rows, tree_B, is_dummy) in enumerate(todo):
        part = tokens.take(rows).to(device)
        with sync_gradients(actor, last=at == len(todo) - 1):
            scored = actor(part.id_BT, part.action_mask_BT, 1.0, False, tree_B)
            loss = -scored.logprob_BT.sum() * (not is_dummy) / said
            if torch.is_grad_enabled():
                # The engine averages over the processes; this is a part of a sum.
                (ranks() * loss).backward()
        total += float(loss.detach())
    return float(all_reduce_sum(torch.tensor(total, dtype=torch.float64)))
