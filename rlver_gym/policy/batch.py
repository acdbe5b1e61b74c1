"""Played dialogues as one batch of padded tensors. The same on every process: which rows a process computes is decided in `microbatch`.

Axes: B sequences, T tokens, D dialogues, N turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlver_gym.errors import TrainingError
from rlver_gym.policy.trajectory import Played, TokenSequence


@dataclass(frozen=True, slots=True)
class Batch:
    """What there is to learn from. The sequences of a dialogue are neighbours, in the order of their turns; tensors are on the CPU."""

    id_BT: Tensor
    """Token ids, padded with 0 on the right. What pads is never looked at, since attention is causal."""
    said_BT: Tensor
    """The policy chose this token. Never true of a sequence's first token, which nothing precedes."""
    learned_BT: Tensor
    """Said tokens that count in the losses: all of them, unless cut replies are masked."""
    sampled_BT: Tensor
    """The sampler's log-probability of each said token, at the temperature it was sampled with, in nats; 0 elsewhere."""
    turn_BT: Tensor
    """The turn, from 0, that a said token belongs to; -1 elsewhere."""
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
    broken_DN: NDArray[np.bool_]
    """The reply of this turn broke the format; false after the last."""
    turns_D: NDArray[np.int64]
    """Turns of a dialogue."""
    left_out: int = 0
    """Dialogues that were played but are not here: they broke off, outgrew the context, or the policy said nothing in them."""

    @property
    def dialogues(self) -> int:
        """How many dialogues there are: D."""
        return len(self.group_D)

    @property
    def dialogue_S(self) -> NDArray[np.int64]:
        """The dialogue of each of the S said tokens, in the order of `said`."""
        return np.repeat(self.dialogue_B, self.said_BT.sum(1).numpy())

    @property
    def turn_S(self) -> NDArray[np.int64]:
        """The turn of each said token, in the order of `said`."""
        return self.said(self.turn_BT).astype(np.int64)

    @property
    def tokens_DN(self) -> NDArray[np.int64]:
        """The length of each reply, in tokens; 0 after the last."""
        place_S = self.dialogue_S * self.reward_DN.shape[1] + self.turn_S
        return np.bincount(place_S, minlength=self.reward_DN.size).reshape(self.reward_DN.shape)

    def said(self, value_BT: Tensor) -> NDArray[np.float64]:
        """The values at the S said tokens, dialogue by dialogue and in the order in which they were said."""
        return value_BT[self.said_BT].double().numpy()

    def spread(self, value_S: NDArray[np.float64]) -> Tensor:
        """`said` undone: value_BT, 0 where nothing was said."""
        value_BT = torch.zeros(self.said_BT.shape)
        value_BT[self.said_BT] = torch.from_numpy(value_S).float()
        return value_BT

    def rows(self, keep_D: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """keep_B: which sequences belong to these dialogues."""
        return keep_D[self.dialogue_B]

    def only(self, keep_D: NDArray[np.bool_]) -> Self:
        """The batch of these dialogues alone; their order stays. `left_out` is what it was."""
        keep_B = self.rows(keep_D)
        rows, width = torch.from_numpy(np.flatnonzero(keep_B)), int(self.length_B[keep_B].max(initial=0))
        return type(self)(
            id_BT=self.id_BT[rows, :width],
            said_BT=self.said_BT[rows, :width],
            learned_BT=self.learned_BT[rows, :width],
            sampled_BT=self.sampled_BT[rows, :width],
            turn_BT=self.turn_BT[rows, :width],
            length_B=self.length_B[keep_B],
            dialogue_B=(np.cumsum(keep_D) - 1)[self.dialogue_B[keep_B]],
            group_D=self.group_D[keep_D],
            who_D=self.who_D[keep_D],
            reward_DN=self.reward_DN[keep_D],
            broken_DN=self.broken_DN[keep_D],
            turns_D=self.turns_D[keep_D],
            left_out=self.left_out,
        )


def pack(played: Sequence[Played], mask_cut: bool = False) -> Batch:
    """The dialogues that can be learned from, as one batch; `mask_cut`: nothing is learned from replies that were cut at the token limit, though their
    rewards count. TrainingError for a dialogue whose parts contradict each other."""
    kept = [
        one
        for one in played
        if one.valid and not one.overflowed and any(sequence.said_T.any() for sequence in one.sequences)
    ]
    dialogue_B, sequences = [], []
    for dialogue, one in enumerate(kept):
        for sequence in one.sequences:
            if sequence.said_T.any():
                _refuse_nonsense(sequence, one)
                dialogue_B.append(dialogue)
                sequences.append(sequence)
    if not all(np.isfinite(one.reward_N).all() for one in kept):
        raise TrainingError("the environment gave a reward that is no finite number. Nothing can be learned from that.")
    turns = max((len(one.reward_N) for one in kept), default=0)
    learned = [
        sequence.said_T & ~(mask_cut & _filled(kept[dialogue].cut_N, turns)[sequence.turn_T])
        for dialogue, sequence in zip(dialogue_B, sequences, strict=True)
    ]
    return Batch(
        id_BT=_padded([one.id_T for one in sequences], torch.int64, 0),
        said_BT=_padded([one.said_T for one in sequences], torch.bool, 0),
        learned_BT=_padded(learned, torch.bool, 0),
        sampled_BT=_padded([one.logprob_T for one in sequences], torch.float32, 0),
        turn_BT=_padded([one.turn_T for one in sequences], torch.int64, -1),
        length_B=np.array([len(one.id_T) for one in sequences], dtype=np.int64),
        dialogue_B=np.array(dialogue_B, dtype=np.int64),
        group_D=np.array([one.group for one in kept], dtype=np.int64),
        who_D=np.array([str(one.info.get("persona") or "") for one in kept], dtype=np.str_),
        reward_DN=np.array([_filled(one.reward_N, turns) for one in kept], dtype=np.float64).reshape(len(kept), turns),
        broken_DN=np.array([_filled(one.broken_N, turns) for one in kept], dtype=np.bool_).reshape(len(kept), turns),
        turns_D=np.array([len(one.reward_N) for one in kept], dtype=np.int64),
        left_out=len(played) - len(kept),
    )


def _refuse_nonsense(sequence: TokenSequence, dialogue: Played) -> None:
    said_T, turns = sequence.said_T, len(dialogue.reward_N)
    lengths = {len(sequence.id_T), len(said_T), len(sequence.logprob_T), len(sequence.turn_T)}
    turn_S = sequence.turn_T[said_T]
    wrong = (
        "its arrays differ in length"
        if len(lengths) > 1
        else "its first token is marked as said, but nothing precedes it to predict it from"
        if said_T[0]
        else f"it names turns {turn_S.min()} to {turn_S.max()}, and there are rewards for {turns}"
        if turn_S.min() < 0 or turn_S.max() >= turns
        else "a said token has no finite log-probability"
        if not np.isfinite(sequence.logprob_T[said_T]).all()
        else None
    )
    if wrong:
        raise TrainingError(
            f"a token sequence of the dialogue with seed {dialogue.seed} cannot be learned from: {wrong}. The sampler that made it is at fault."
        )


def _padded(rows: Sequence[NDArray], dtype: torch.dtype, fill: int) -> Tensor:
    width = max(map(len, rows), default=0)
    value_BT = torch.full((len(rows), width), fill, dtype=dtype)
    for row, values in zip(value_BT, rows, strict=True):
        row[: len(values)] = torch.as_tensor(values)
    return value_BT


def _filled(values_N: NDArray, turns: int) -> NDArray:
    return np.concatenate([values_N, np.zeros(turns - len(values_N), dtype=values_N.dtype)])
