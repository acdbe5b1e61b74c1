"""Rollouts as data: token ids that were really sampled and their rewards, padded into one value.

Axes: B sequences, T tokens, S sampled tokens, R replies (said ones and those that were only tried),
D dialogues. Everything is the same on every process.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlver_gym.policy.learning.algorithms import Advantages, Bools, Floats, Ints, Pairs
from rlver_gym.policy.learning.registry import Comparison
from rlver_gym.policy.models.trajectory import TokenSequence, Trajectory
from rlver_gym.util.errors import TrainingError


@dataclass(frozen=True, slots=True)
class Tokens:
    """Sequences of token ids. Those of a dialogue are neighbours, in the order of their turns, the
    replies to one moment side by side, the said one last. Tensors are 0 where nothing was sampled.
    """

    id_BT: Tensor
    """Token ids, padded with 0 on the right, which is never looked at: attention is causal."""
    action_mask_BT: Tensor
    """The policy chose this token. Never true of a sequence's first token, which nothing precedes.
    """
    sampled_BT: Tensor
    """The sampler's log-probability of a token, at the temperature it was sampled with, in nats."""
    reply_BT: Tensor
    """The reply that a sampled token belongs to."""
    length_B: Ints
    """Tokens of a sequence without its padding."""
    dialogue_B: Ints
    """The dialogue of a sequence, from 0."""
    moment_B: Ints
    """The moment of its last reply: rows of one moment always pass through the model together."""

    @property
    def reply_S(self) -> Ints:
        return self.reply_BT[self.action_mask_BT].cpu().numpy()

    def at_actions(self, value_BT: Tensor) -> Floats:
        """The values at the S sampled tokens, dialogue by dialogue and in the order of speaking."""
        return value_BT[self.action_mask_BT].double().numpy()

    def scatter(self, value_S: Floats) -> Tensor:
        """`at_actions` undone: value_BT, 0 where there is no action token."""
        value_BT = torch.zeros(self.action_mask_BT.shape)
        value_BT[self.action_mask_BT] = torch.from_numpy(value_S).float()
        return value_BT

    def take(self, rows: NDArray[np.integer]) -> Self:
        """These sequences alone, no wider than they must be."""
        at, width = torch.from_numpy(rows), int(self.length_B[rows].max(initial=0))
        axes = {field.name: field.name.rpartition("_")[2] for field in fields(self)}
        cropped = {
            name: getattr(self, name)[at, :width] if kind == "BT" else getattr(self, name)[rows]
            for name, kind in axes.items()
            if kind in ("BT", "B")
        }
        return replace(self, **cropped)

    def to(self, device: torch.device) -> Self:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors = {name: x.to(device) for name, x in values.items() if isinstance(x, Tensor)}
        return replace(self, **tensors)


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The dialogues of an iteration that can be learned from."""

    tokens: Tokens
    reward_R: Floats
    """What the environment gave; dialogue by dialogue said ones in order, then tried ones."""
    format_error_R: Bools
    """The reply broke the format that was asked for."""
    is_said_R: Bools
    dialogue_R: Ints
    """The dialogue of a reply, from 0."""
    turn_R: Ints
    """Its turn, from 0."""
    tokens_R: Ints
    """Its length."""
    group_D: Ints
    """Dialogues of one group had the same persona and seed."""
    who_D: NDArray[np.str_]
    """With whom: the persona that the environment's info names, or nothing."""
    num_skipped: int
    """Dialogues left out: broken off, without a log-probability, or without a sampled token."""

    @property
    def moment_R(self) -> Ints:
        """The moment that a reply was tried at: a dialogue's turn."""
        return self.dialogue_R * (self.turn_R.max(initial=0) + 1) + self.turn_R

    def key_R(self, compare: Comparison) -> Ints:
        """What a reply is compared within: its moment, or its dialogue's group."""
        return self.moment_R if compare == "replies" else self.group_D[self.dialogue_R]


class TokenColumns(NamedTuple):
    """What the models make of every sampled token; 0 where there is no such model."""

    old_BT: Tensor
    value_BT: Tensor
    reference_BT: Tensor


@dataclass(frozen=True, slots=True)
class Prepared(Tokens):
    """Sequences with all that an update needs; 0 everywhere for what its algorithm does without."""

    old_BT: Tensor
    """Log-probabilities under the policy before the update, in nats."""
    advantage_BT: Tensor
    """How much better than expected a token was."""
    value_BT: Tensor
    """The critic's guesses before the update, less what was expected of whom."""
    return_BT: Tensor
    """What they should have been."""
    reference_BT: Tensor
    """Log-probabilities under the reference."""
    loss_weight_BT: Tensor
    """How much a token counts in the losses; they add up to 1, but for `constant`."""
    metric_weight_BT: Tensor
    """How much a token counts in the metrics: 1 / sampled tokens of the minibatch."""
    pairs: Pairs
    """Of the replies, where the algorithm compares two and two."""
    pair_weight_P: Floats
    """How much a pair counts in the loss; over a minibatch they add up to 1."""

    @classmethod
    def of(cls, tokens: Tokens, scores: TokenColumns, advantages: Advantages) -> Self:
        """The weights are those of no minibatch yet: 0."""
        return cls(
            **{field.name: getattr(tokens, field.name) for field in fields(tokens)},
            **scores._asdict(),
            advantage_BT=tokens.scatter(advantages.advantage_S),
            return_BT=tokens.scatter(advantages.return_S),
            loss_weight_BT=torch.zeros(tokens.id_BT.shape),
            metric_weight_BT=torch.zeros(tokens.id_BT.shape),
            pairs=advantages.pairs,
            pair_weight_P=np.zeros(len(advantages.pairs.better_P)),
        )


class _Row(NamedTuple):
    sequence: TokenSequence
    reply_T: Ints
    dialogue: int
    moment: tuple[int, int]


def pack_rollouts(trajectories: Sequence[Trajectory]) -> Rollouts:
    """What can be learned from, padded. TrainingError for a reward that is no finite number."""
    kept = [x for x in trajectories if x.valid and any(s.action_mask_T.any() for s in x.sequences)]
    rows: list[_Row] = []
    replies: list[tuple[float, bool, bool, int, int]] = []
    for number, dialogue in enumerate(kept):
        rows += _list_rows(dialogue, number, len(replies))
        both = zip(dialogue.reward_N, dialogue.format_error_N, strict=True)
        replies += [
            (float(reward), bool(broken), True, number, turn)
            for turn, (reward, broken) in enumerate(both)
        ]
        replies += [
            (tried.reward, tried.format_error, False, number, tried.turn)
            for tried in dialogue.alternatives
        ]
    columns = list(zip(*replies, strict=True)) if replies else [()] * 5
    reward_R = np.array(columns[0], dtype=np.float64)
    if not np.isfinite(reward_R).all():
        raise TrainingError(
            "the environment gave a reward that is no finite number. Nothing can be learned from"
            " that."
        )
    tokens = _pad(rows)
    return Rollouts(
        tokens=tokens,
        reward_R=reward_R,
        format_error_R=np.array(columns[1], dtype=np.bool_),
        is_said_R=np.array(columns[2], dtype=np.bool_),
        dialogue_R=np.array(columns[3], dtype=np.int64),
        turn_R=np.array(columns[4], dtype=np.int64),
        tokens_R=np.bincount(tokens.reply_S, minlength=len(replies)),
        group_D=np.array([one.group for one in kept], dtype=np.int64),
        who_D=np.array([str(one.info.get("persona") or "") for one in kept], dtype=np.str_),
        num_skipped=len(trajectories) - len(kept),
    )


def drop_flat_groups(prepared: Prepared, rollouts: Rollouts, compare: Comparison) -> Prepared:
    key_S = rollouts.key_R(compare)[prepared.reply_S]
    telling = key_S[prepared.at_actions(prepared.advantage_BT) != 0]
    row_S = np.repeat(np.arange(len(prepared.length_B)), prepared.action_mask_BT.sum(1).numpy())
    return prepared.take(np.unique(row_S[np.isin(key_S, telling)]))


def _list_rows(dialogue: Trajectory, number: int, first: int) -> Iterator[_Row]:
    """Its sequences so that neighbours begin alike: what was tried stands before what was said."""
    turns = len(dialogue.reward_N)
    for sequence in dialogue.sequences:
        if not sequence.action_mask_T.any():
            continue
        moment = number, int(sequence.turn_T.max())
        for at, tried in enumerate(dialogue.alternatives):
            if tried.turn == moment[1]:
                mask_T = tried.sequence.action_mask_T
                yield _Row(tried.sequence, mask_T * (first + turns + at), number, moment)
        reply_T = np.where(sequence.turn_T >= 0, first + sequence.turn_T, 0)
        yield _Row(sequence, reply_T, number, moment)


def _pad(rows: Sequence[_Row]) -> Tokens:
    width = max((len(row.reply_T) for row in rows), default=0)

    def pad(values: Sequence[NDArray], dtype: torch.dtype) -> Tensor:
        value_BT = torch.zeros((len(rows), width), dtype=dtype)
        for padded_T, value_T in zip(value_BT, values, strict=True):
            padded_T[: len(value_T)] = torch.as_tensor(value_T)
        return value_BT

    moments = {
        moment: number for number, moment in enumerate(dict.fromkeys(x.moment for x in rows))
    }
    return Tokens(
        id_BT=pad([row.sequence.id_T for row in rows], torch.int64),
        action_mask_BT=pad([row.sequence.action_mask_T for row in rows], torch.bool),
        sampled_BT=pad([row.sequence.logprob_T for row in rows], torch.float32),
        reply_BT=pad([row.reply_T for row in rows], torch.int64),
        length_B=np.array([len(row.reply_T) for row in rows], dtype=np.int64),
        dialogue_B=np.array([row.dialogue for row in rows], dtype=np.int64),
        moment_B=np.array([moments[row.moment] for row in rows], dtype=np.int64),
    )
