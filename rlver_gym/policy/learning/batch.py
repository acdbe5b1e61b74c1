"""Dialogues of the policy as data: token ids that were really sampled and their rewards, padded
into one batch, and cut into micro-batches that fit into memory.

Axes: B sequences, T tokens, D dialogues, N turns. Everything is the same on every process: only
which micro-batches a process computes differs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlver_gym.io.errors import TrainingError
from rlver_gym.policy.models.prefixes import shared_prefixes
from rlver_gym.policy.models.trajectory import TokenSequence, Trajectory


@dataclass(frozen=True, slots=True)
class Batch:
    """What there is to learn from.

    The sequences of a dialogue are neighbours, in the order of their turns; tensors are on the CPU.
    """

    id_BT: Tensor
    """Token ids, padded with 0 on the right. What pads is never looked at, since attention is
    causal.
    """
    action_mask_BT: Tensor
    """The policy chose this token. Never true of a sequence's first token, which nothing precedes.
    """
    sampled_BT: Tensor
    """The sampler's log-probability of each sampled token, at the temperature it was sampled with,
    in nats; 0 elsewhere.
    """
    turn_BT: Tensor
    """The turn, from 0, that a sampled token belongs to; -1 elsewhere."""
    length_B: NDArray[np.int64]
    """Tokens of a sequence without its padding."""
    dialogue_B: NDArray[np.int64]
    """The dialogue of a sequence, from 0."""
    group_D: NDArray[np.int64]
    """Dialogues of one group had the same persona and seed."""
    who_D: NDArray[np.str_]
    """With whom: the persona that the environment's info names, or nothing."""
    reward_DN: NDArray[np.float64]
    """The environment's reward for each turn; 0 after the last."""
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

    @property
    def dialogues(self) -> int:
        """How many dialogues there are: D."""
        return len(self.group_D)

    @property
    def dialogue_S(self) -> NDArray[np.int64]:
        """The dialogue of each of the S sampled tokens, in the order of `at_actions`."""
        return np.repeat(self.dialogue_B, self.action_mask_BT.sum(1).numpy())

    @property
    def turn_S(self) -> NDArray[np.int64]:
        """The turn of each sampled token, in the order of `at_actions`."""
        return self.at_actions(self.turn_BT).astype(np.int64)

    @property
    def tokens_DN(self) -> NDArray[np.int64]:
        """The length of each reply, in tokens; 0 after the last."""
        place_S = self.dialogue_S * self.reward_DN.shape[1] + self.turn_S
        return np.bincount(place_S, minlength=self.reward_DN.size).reshape(self.reward_DN.shape)

    @property
    def tree_length_D(self) -> NDArray[np.int64]:
        """Tokens of a dialogue, what its sequences begin with alike counted once: so many pass
        through the model (`prefixes`).
        """
        shared_B = shared_prefixes(self.id_BT.numpy(), self.length_B, self.dialogue_B)
        return np.bincount(self.dialogue_B, self.length_B - shared_B, self.dialogues).astype(
            np.int64
        )

    def rows_of(self, micro_batch: "MicroBatch") -> NDArray[np.int64]:
        """The sequences of its dialogues, in their order."""
        return np.flatnonzero(np.isin(self.dialogue_B, micro_batch.dialogue_R))

    def at_actions(self, value_BT: Tensor) -> NDArray[np.float64]:
        """The values at the S sampled tokens, dialogue by dialogue and in the order of speaking."""
        return value_BT[self.action_mask_BT].double().numpy()

    def scatter(self, value_S: NDArray[np.float64]) -> Tensor:
        """`at_actions` undone: value_BT, 0 where there is no action token."""
        value_BT = torch.zeros(self.action_mask_BT.shape)
        value_BT[self.action_mask_BT] = torch.from_numpy(value_S).float()
        return value_BT

    def rows(self, keep_D: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """keep_B: which sequences belong to these dialogues."""
        return keep_D[self.dialogue_B]

    def only(self, keep_D: NDArray[np.bool_]) -> Self:
        """The batch of these dialogues alone; their order stays. `num_skipped` is what it was."""
        keep_B = self.rows(keep_D)
        rows, width = torch.from_numpy(keep_B), int(self.length_B[keep_B].max(initial=0))
        parts: dict[str, Any] = {
            "_BT": lambda value: value[rows, :width],
            "_B": lambda value: value[keep_B],
            "_D": lambda value: value[keep_D],
            "_DN": lambda value: value[keep_D],
        }
        own = {
            name: parts["_" + name.rpartition("_")[2]](getattr(self, name))
            for name in self.__slots__
            if name != "num_skipped"
        }
        own["dialogue_B"] = (np.cumsum(keep_D) - 1)[own["dialogue_B"]]
        return replace(self, **own)


def pack(trajectories: Sequence[Trajectory]) -> Batch:
    """The dialogues that can be learned from, as one batch. TrainingError for a dialogue whose
    parts contradict each other.
    """
    kept = [
        one
        for one in trajectories
        if one.valid
        and not one.context_overflow
        and any(sequence.action_mask_T.any() for sequence in one.sequences)
    ]
    dialogue_B, sequences = [], []
    for dialogue, one in enumerate(kept):
        for sequence in one.sequences:
            if sequence.action_mask_T.any():
                _refuse_nonsense(sequence, one)
                dialogue_B.append(dialogue)
                sequences.append(sequence)
    if not all(np.isfinite(one.reward_N).all() for one in kept):
        raise TrainingError(
            "the environment gave a reward that is no finite number. Nothing can be learned from"
            " that."
        )
    turns = max((len(one.reward_N) for one in kept), default=0)

    def stack(rows: list[NDArray], dtype: Any) -> NDArray:
        padded = [_pad_turns(row, turns) for row in rows]
        return np.array(padded, dtype=dtype).reshape(len(kept), turns)

    return Batch(
        id_BT=_pad_rows([one.id_T for one in sequences], torch.int64, 0),
        action_mask_BT=_pad_rows([one.action_mask_T for one in sequences], torch.bool, 0),
        sampled_BT=_pad_rows([one.logprob_T for one in sequences], torch.float32, 0),
        turn_BT=_pad_rows([one.turn_T for one in sequences], torch.int64, -1),
        length_B=np.array([len(one.id_T) for one in sequences], dtype=np.int64),
        dialogue_B=np.array(dialogue_B, dtype=np.int64),
        group_D=np.array([one.group for one in kept], dtype=np.int64),
        who_D=np.array([str(one.info.get("persona") or "") for one in kept], dtype=np.str_),
        reward_DN=stack([one.reward_N for one in kept], np.float64),
        format_error_DN=stack([one.format_error_N for one in kept], np.bool_),
        margin_DN=stack([one.margin_N for one in kept], np.float64),
        turns_D=np.array([len(one.reward_N) for one in kept], dtype=np.int64),
        num_skipped=len(trajectories) - len(kept),
    )


def _refuse_nonsense(sequence: TokenSequence, dialogue: Trajectory) -> None:
    action_mask_T, turns = sequence.action_mask_T, len(dialogue.reward_N)
    lengths = {
        len(sequence.id_T),
        len(action_mask_T),
        len(sequence.logprob_T),
        len(sequence.turn_T),
    }
    turn_S = sequence.turn_T[action_mask_T]
    wrong = None
    if len(lengths) > 1:
        wrong = "its arrays differ in length"
    elif action_mask_T[0]:
        wrong = "its first token is an action, but nothing precedes it to predict it from"
    elif turn_S.min() < 0 or turn_S.max() >= turns:
        wrong = (
            f"it names turns {turn_S.min()} to {turn_S.max()}, and there are rewards for {turns}"
        )
    elif not np.isfinite(sequence.logprob_T[action_mask_T]).all():
        wrong = "an action token has no finite log-probability"
    if wrong:
        raise TrainingError(
            f"a token sequence of the dialogue with seed {dialogue.seed} cannot be learned from:"
            f" {wrong}. The sampler that made it is at fault."
        )


def _pad_rows(rows: Sequence[NDArray], dtype: torch.dtype, fill: int) -> Tensor:
    width = max(map(len, rows), default=0)
    value_BT = torch.full((len(rows), width), fill, dtype=dtype)
    for row, values in zip(value_BT, rows, strict=True):
        row[: len(values)] = torch.as_tensor(values)
    return value_BT


def _pad_turns(values_N: NDArray, turns: int) -> NDArray:
    return np.concatenate([values_N, np.zeros(turns - len(values_N), dtype=values_N.dtype)])


_FINER = 2
"""Micro-batches that each of several processes gets, at least where there are enough dialogues:
only small ones can be dealt evenly.
"""


class MicroBatch(NamedTuple):
    """Dialogues that pass through the model together."""

    dialogue_R: NDArray[np.int64]
    is_dummy: bool = False
    """It only keeps step with the other processes: compute it, count it 0 times."""


def micro_batches(
    length_D: NDArray[np.int64], tokens: int, rank: int = 0, ranks: int = 1
) -> Iterator[MicroBatch]:
    """This process's micro-batches, the longest dialogues or the heaviest first; every process gets
    equally many, as collective operations demand, and about equally much.

    `tokens`: the most that pass at once, padding included; of several processes each takes fewer. A
    dialogue that is longer passes alone.
    """
    if ranks > 1:
        tokens = min(tokens, int(length_D.sum()) // (_FINER * ranks))
    plan = _plan(length_D, tokens)
    while len(plan) % ranks:
        heaviest = max(
            range(len(plan)),
            key=lambda at: (
                _count_padded_tokens(plan[at], length_D) * (len(plan[at].dialogue_R) > 1)
            ),
        )
        dialogue_R = plan[heaviest].dialogue_R
        if len(dialogue_R) > 1:
            plan[heaviest : heaviest + 1] = [
                MicroBatch(part) for part in np.array_split(dialogue_R, 2)
            ]
        else:
            plan.append(MicroBatch(plan[-1].dialogue_R, is_dummy=True))
    yield from plan if ranks == 1 else _distribute(plan, length_D, ranks)[rank]


def _distribute(
    plan: list[MicroBatch], length_D: NDArray[np.int64], ranks: int
) -> list[list[MicroBatch]]:
    """Equally many for everybody, the heaviest first, each to whoever has the least so far."""
    hands: list[list[MicroBatch]] = [[] for _ in range(ranks)]
    weights = [0] * ranks
    for micro_batch in sorted(
        plan, key=lambda micro_batch: -_count_padded_tokens(micro_batch, length_D)
    ):
        least = min(
            (who for who in range(ranks) if len(hands[who]) < len(plan) // ranks),
            key=weights.__getitem__,
        )
        hands[least].append(micro_batch)
        weights[least] += _count_padded_tokens(micro_batch, length_D)
    return hands


def _count_padded_tokens(micro_batch: MicroBatch, length_D: NDArray[np.int64]) -> int:
    """Tokens that pass, padding included."""
    return len(micro_batch.dialogue_R) * int(length_D[micro_batch.dialogue_R].max())


def _plan(length_D: NDArray[np.int64], tokens: int) -> list[MicroBatch]:
    plan: list[list[int]] = []
    for row in np.argsort(-length_D, kind="stable"):
        if plan and (len(plan[-1]) + 1) * length_D[plan[-1][0]] <= tokens:
            plan[-1].append(int(row))
        else:
            plan.append([int(row)])
    return [MicroBatch(np.array(rows, dtype=np.int64)) for rows in plan]
