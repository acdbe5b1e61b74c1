"""Dialogues of the policy as data: token ids that were really sampled and their rewards, padded
into one batch, and cut into micro-batches that fit into memory.

Axes: B sequences, T tokens, D dialogues, N turns. Everything is the same on every process: only
which micro-batches a process computes differs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlver_gym.policy.models.prefixes import count_shared_prefix_tokens
from rlver_gym.policy.models.trajectory import TokenSequence, Trajectory
from rlver_gym.util.errors import TrainingError


@dataclass(frozen=True, slots=True)
class Batch:
    """What there is to learn from. The sequences of a dialogue are neighbours, in the order of
    their turns, each followed by the rivals of its replies, the last first. Tensors are 0 where
    nothing was sampled; those that may be None are filled in by `prepare_batch` and `update`.
    """

    id_BT: Tensor
    """Token ids, padded with 0 on the right, which is never looked at: attention is causal."""
    action_mask_BT: Tensor
    """The policy chose this token. Never true of a sequence's first token, which nothing precedes.
    """
    sampled_BT: Tensor
    """The sampler's log-probability of a token, at the temperature it was sampled with, in nats."""
    turn_BT: Tensor
    """The turn, from 0, that a sampled token belongs to; -1 elsewhere."""
    length_B: NDArray[np.int64]
    """Tokens of a sequence without its padding."""
    dialogue_B: NDArray[np.int64]
    """The dialogue of a sequence, from 0."""
    rival_B: NDArray[np.bool_]
    """The reply in this sequence was tried and not said."""
    group_D: NDArray[np.int64]
    """Dialogues of one group had the same persona and seed."""
    who_D: NDArray[np.str_]
    """With whom: the persona that the environment's info names, or nothing."""
    reward_DN: NDArray[np.float64]
    """The reward for each turn, 0 after the last; prepared: scaled and penalised."""
    format_error_DN: NDArray[np.bool_]
    """The reply of this turn broke the format; false after the last."""
    margin_DN: NDArray[np.float64]
    """By how much the reward of the reply of this turn lies above the mean of its candidates; 0
    after the last, and where there was but one.
    """
    turns_D: NDArray[np.int64]
    """Turns of a dialogue."""
    num_skipped: int = 0
    """Dialogues that were played but are not here: they broke off, outgrew the context, lack a
    log-probability, or the policy has no action token in them.
    """
    old_BT: Tensor | None = None
    """Log-probabilities under the policy before the update, in nats; None when they are those of
    the one step that learns from it.
    """
    advantage_BT: Tensor | None = None
    """How much better than expected a token was."""
    value_BT: Tensor | None = None
    """The critic's guesses before the update, less what was expected of whom; None without critic.
    """
    return_BT: Tensor | None = None
    """What they should have been; None without critic."""
    reference_BT: Tensor | None = None
    """Log-probabilities under the reference; None without one."""
    loss_weight_BT: Tensor | None = None
    """How much a token counts in the losses; over a minibatch they add up to 1 (not so for
    `constant`).
    """
    metric_weight_BT: Tensor | None = None
    """How much a token counts in the metrics: 1 / sampled tokens of the minibatch."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What is worth knowing of the whole, whichever part `only` chose."""

    @property
    def dialogues(self) -> int:
        return len(self.group_D)

    @property
    def dialogue_S(self) -> NDArray[np.int64]:
        """The dialogue of each of the S sampled tokens, in the order of `at_actions`."""
        return np.repeat(self.dialogue_B, self.action_mask_BT.sum(1).numpy())

    @property
    def turn_S(self) -> NDArray[np.int64]:
        return self.at_actions(self.turn_BT).astype(np.int64)

    @property
    def rival_S(self) -> NDArray[np.bool_]:
        return np.repeat(self.rival_B, self.action_mask_BT.sum(1).numpy())

    @property
    def reply_BT(self) -> Tensor:
        """The place of each sampled token in `reward_DN.flatten()`, the same for a reply and its
        rival; 0 elsewhere.
        """
        turns = self.reward_DN.shape[1]
        dialogue_B = torch.as_tensor(self.dialogue_B, device=self.turn_BT.device)
        return (dialogue_B[:, None] * turns + self.turn_BT) * self.action_mask_BT

    @property
    def tokens_DN(self) -> NDArray[np.int64]:
        """The length of each reply, in tokens; 0 after the last."""
        place_S = self.at_actions(self.reply_BT).astype(np.int64)[~self.rival_S]
        return np.bincount(place_S, minlength=self.reward_DN.size).reshape(self.reward_DN.shape)

    @property
    def tree_length_D(self) -> NDArray[np.int64]:
        """Tokens of a dialogue that pass through the model: what its sequences begin with alike
        counts once (`prefixes`).
        """
        shared_B = count_shared_prefix_tokens(self.id_BT.numpy(), self.length_B, self.dialogue_B)
        return np.bincount(self.dialogue_B, self.length_B - shared_B, self.dialogues).astype(
            np.int64
        )

    @property
    def residual_D(self) -> NDArray[np.float64]:
        """By how much each dialogue's returns were higher than the critic's guesses, the mean over
        its sampled tokens. TrainingError without critic.
        """
        if self.return_BT is None or self.value_BT is None:
            raise TrainingError("without a critic nothing was expected. Compute advantages by gae.")
        gap_S, count = self.at_actions(self.return_BT - self.value_BT), self.dialogues
        return np.bincount(self.dialogue_S, gap_S, count) / np.bincount(
            self.dialogue_S, minlength=count
        )

    def at_actions(self, value_BT: Tensor) -> NDArray[np.float64]:
        """The values at the S sampled tokens, dialogue by dialogue and in the order of speaking."""
        return value_BT[self.action_mask_BT].double().numpy()

    def scatter(self, value_S: NDArray[np.float64]) -> Tensor:
        """`at_actions` undone: value_BT, 0 where there is no action token."""
        value_BT = torch.zeros(self.action_mask_BT.shape)
        value_BT[self.action_mask_BT] = torch.from_numpy(value_S).float()
        return value_BT

    def rows_of(self, dialogue_R: NDArray[np.integer]) -> NDArray[np.int64]:
        return np.flatnonzero(np.isin(self.dialogue_B, dialogue_R))

    def only(self, dialogue_R: NDArray[np.integer]) -> Self:
        """The batch of these dialogues alone, no wider than it must be; their order stays."""
        row_R, dialogue_R = self.rows_of(dialogue_R), np.sort(dialogue_R)
        rows, width = torch.from_numpy(row_R), int(self.length_B[row_R].max(initial=0))
        parts: dict[str, Any] = {
            "BT": lambda value: value[rows, :width],
            "B": lambda value: value[row_R],
            "D": lambda value: value[dialogue_R],
            "DN": lambda value: value[dialogue_R],
        }
        cropped = {
            name: parts[axes](value)
            for name in (one.name for one in fields(self))
            if (axes := name.rpartition("_")[2]) in parts
            and (value := getattr(self, name)) is not None
        }
        cropped["dialogue_B"] = np.searchsorted(dialogue_R, cropped["dialogue_B"])
        return replace(self, **cropped)

    def to(self, device: torch.device) -> Self:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        tensors = {name: one for name, one in values.items() if isinstance(one, Tensor)}
        return replace(self, **{name: one.to(device) for name, one in tensors.items()})


def pack_batch(trajectories: Sequence[Trajectory], with_rivals: bool = False) -> Batch:
    """The dialogues that can be learned from, as one batch, with the worst of the replies that were
    tried or without. TrainingError for a reward that is no finite number.
    """
    kept = [
        one
        for one in trajectories
        if one.valid
        and not one.context_overflow
        and any(sequence.action_mask_T.any() for sequence in one.sequences)
    ]
    dialogue_B, sequences, rival_B = [], [], []
    for dialogue, one in enumerate(kept):
        for sequence, is_rival in _order_sequences(one, with_rivals):
            if sequence.action_mask_T.any():
                dialogue_B.append(dialogue)
                sequences.append(sequence)
                rival_B.append(is_rival)
    if not all(np.isfinite(one.reward_N).all() for one in kept):
        raise TrainingError(
            "the environment gave a reward that is no finite number. Nothing can be learned from"
            " that."
        )
    turns = max((len(one.reward_N) for one in kept), default=0)

    def pad(name: str, dtype: torch.dtype, fill: int) -> Tensor:
        width = max((len(one.id_T) for one in sequences), default=0)
        value_BT = torch.full((len(sequences), width), fill, dtype=dtype)
        for row, one in zip(value_BT, sequences, strict=True):
            row[: len(one.id_T)] = torch.as_tensor(getattr(one, name))
        return value_BT

    def stack(name: str, dtype: Any) -> NDArray:
        value_DN = np.zeros((len(kept), turns), dtype=dtype)
        for row, one in zip(value_DN, kept, strict=True):
            values_N = getattr(one, name)
            row[: len(values_N)] = values_N
        return value_DN

    return Batch(
        id_BT=pad("id_T", torch.int64, 0),
        action_mask_BT=pad("action_mask_T", torch.bool, 0),
        sampled_BT=pad("logprob_T", torch.float32, 0),
        turn_BT=pad("turn_T", torch.int64, -1),
        length_B=np.array([len(one.id_T) for one in sequences], dtype=np.int64),
        dialogue_B=np.array(dialogue_B, dtype=np.int64),
        rival_B=np.array(rival_B, dtype=np.bool_),
        group_D=np.array([one.group for one in kept], dtype=np.int64),
        who_D=np.array([str(one.info.get("persona") or "") for one in kept], dtype=np.str_),
        reward_DN=stack("reward_N", np.float64),
        format_error_DN=stack("format_error_N", np.bool_),
        margin_DN=stack("margin_N", np.float64),
        turns_D=np.array([len(one.reward_N) for one in kept], dtype=np.int64),
        num_skipped=len(trajectories) - len(kept),
    )


def _order_sequences(one: Trajectory, with_rivals: bool) -> Iterator[tuple[TokenSequence, bool]]:
    """Its sequences, and whether they are rivals: so that neighbours begin alike for as long as
    they can (`prefixes`).
    """
    for sequence in one.sequences:
        yield sequence, False
        for rival in reversed(one.rivals if with_rivals else ()):
            if rival.turn_T.max() in sequence.turn_T:
                yield rival, True


_FINER = 2
"""Micro-batches that each of several processes gets, at least where there are enough dialogues:
only small ones can be dealt evenly.
"""


class MicroBatch(NamedTuple):
    """Dialogues that pass through the model together."""

    dialogue_R: NDArray[np.int64]
    is_dummy: bool = False
    """It only keeps step with the other processes: compute it, count it 0 times."""


def split_into_micro_batches(
    length_D: NDArray[np.int64], tokens: int, rank: int = 0, ranks: int = 1
) -> Iterator[MicroBatch]:
    """This process's micro-batches, the longest dialogues or the heaviest first; every process gets
    equally many, as collective operations demand, and about equally much.

    `tokens`: the most that pass at once, padding included; of several processes each takes fewer. A
    dialogue that is longer passes alone.
    """
    if ranks > 1:
        tokens = min(tokens, int(length_D.sum()) // (_FINER * ranks))
    plan: list[list[int]] = []
    for dialogue in map(int, np.argsort(-length_D, kind="stable")):
        if plan and (len(plan[-1]) + 1) * length_D[plan[-1][0]] <= tokens:
            plan[-1].append(dialogue)
        else:
            plan.append([dialogue])

    dummies = 0
    while (len(plan) + dummies) % ranks:
        heaviest = max(plan, key=lambda part: _count_tokens(part, length_D) * (len(part) > 1))
        at, half = plan.index(heaviest), -(-len(heaviest) // 2)
        if len(heaviest) > 1:
            plan[at : at + 1] = [heaviest[:half], heaviest[half:]]
        else:
            dummies += 1
    parts = [MicroBatch(np.array(part, dtype=np.int64)) for part in plan]
    parts += [MicroBatch(parts[-1].dialogue_R, is_dummy=True)] * dummies
    yield from parts if ranks == 1 else _balance_over_ranks(parts, length_D, ranks)[rank]


def _balance_over_ranks(
    parts: list[MicroBatch], length_D: NDArray[np.int64], ranks: int
) -> list[list[MicroBatch]]:
    """Equally many for everybody, the heaviest first, each to whoever has the least so far."""
    hands: list[list[MicroBatch]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    for part in sorted(parts, key=lambda part: -_count_tokens(part.dialogue_R, length_D)):
        free = [who for who in range(ranks) if len(hands[who]) < len(parts) // ranks]
        least = min(free, key=loads.__getitem__)
        hands[least].append(part)
        loads[least] += _count_tokens(part.dialogue_R, length_D)
    return hands


def _count_tokens(dialogue_R: Sequence[int] | NDArray[np.int64], length_D: NDArray) -> int:
    """Tokens of these dialogues when they pass together, padding included."""
    return len(dialogue_R) * int(length_D[dialogue_R].max())
