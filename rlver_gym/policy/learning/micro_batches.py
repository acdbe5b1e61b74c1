"""Sequences cut into micro-batches that fit into memory, and dealt to the processes.

A dialogue may be cut between two moments, never within one: replies to one moment are compared.
Axes: B sequences, P pieces of dialogues that pass through the model as one tree each.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.learning.algorithms import Ints
from rlver_gym.policy.learning.rollouts import TokenColumns, Tokens
from rlver_gym.policy.models.actor import Models, Scorer
from rlver_gym.policy.models.distributed import all_reduce_sum, rank, ranks
from rlver_gym.policy.models.prefixes import count_shared_prefix_tokens
from rlver_gym.policy.models.trajectory import OnProgress

_FINER = 2
"""Micro-batches for each of several processes, if there are enough: small ones deal evenly."""


class MicroBatch(NamedTuple):
    """Sequences that pass through the model together."""

    rows: Ints
    tree_B: Ints
    """The tree that each of them is in."""
    is_dummy: bool
    """It only keeps step with the other processes: compute it, count it 0 times."""


class _Piece(NamedTuple):
    """Neighbouring moments of one dialogue."""

    rows: Ints
    length: int
    """Tokens of its tree: what its sequences begin with alike counts once (`prefixes`)."""


def split_into_micro_batches(
    tokens: Tokens, most: int, rank: int = 0, ranks: int = 1
) -> Iterator[MicroBatch]:
    """This process's micro-batches, the longest or heaviest first, equally many on every process.
    `most`: the tokens, padding included, that pass at once; a longer moment passes alone.
    """
    if not len(tokens.length_B):
        return
    if ranks > 1:
        whole = sum(piece.length for piece in _cut_at_moments(tokens, most))
        most = min(most, whole // (_FINER * ranks))
    plan: list[list[_Piece]] = []
    for piece in sorted(_cut_at_moments(tokens, most), key=lambda piece: -piece.length):
        if plan and (len(plan[-1]) + 1) * plan[-1][0].length <= most:
            plan[-1].append(piece)
        else:
            plan.append([piece])
    dummies = 0
    while (len(plan) + dummies) % ranks:
        heaviest = max(plan, key=lambda part: _count_tokens(part) * (len(part) > 1))
        at, half = plan.index(heaviest), -(-len(heaviest) // 2)
        if len(heaviest) > 1:
            plan[at : at + 1] = [heaviest[:half], heaviest[half:]]
        else:
            dummies += 1
    hand = plan if ranks == 1 else _balance_over_ranks(plan, ranks, dummies)[rank]
    for part in hand:
        pieces = part or plan[-1]
        rows = np.concatenate([piece.rows for piece in pieces])
        tree_B = np.repeat(np.arange(len(pieces)), [len(piece.rows) for piece in pieces])
        yield MicroBatch(rows, tree_B, is_dummy=not part)


def _cut_at_moments(tokens: Tokens, most: int) -> list[_Piece]:
    """The dialogues, cut where a tree would grow beyond `most` tokens."""
    shared_B = count_shared_prefix_tokens(
        tokens.id_BT.cpu().numpy(), tokens.length_B, tokens.dialogue_B
    )
    starts = np.flatnonzero(np.diff(tokens.moment_B, prepend=-1))
    pieces: list[_Piece] = []
    for rows in np.split(np.arange(len(tokens.moment_B)), starts[1:]):
        added = int((tokens.length_B[rows] - shared_B[rows]).sum())
        last = pieces[-1] if pieces else None
        is_same = last and tokens.dialogue_B[last.rows[0]] == tokens.dialogue_B[rows[0]]
        if last and is_same and last.length + added <= most:
            pieces[-1] = _Piece(np.concatenate([last.rows, rows]), last.length + added)
        else:
            pieces.append(_Piece(rows, added + int(shared_B[rows[0]])))
    return pieces


def _balance_over_ranks(
    plan: list[list[_Piece]], ranks: int, dummies: int
) -> list[list[list[_Piece]]]:
    """Equally many parts for everybody, the heaviest first to who has least; empty: a dummy."""
    hands: list[list[list[_Piece]]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    parts = [*plan, *([[]] * dummies)]
    for part in sorted(parts, key=lambda part: -_count_tokens(part)):
        free = [who for who in range(ranks) if len(hands[who]) < len(parts) // ranks]
        least = min(free, key=loads.__getitem__)
        hands[least].append(part)
        loads[least] += _count_tokens(part)
    return hands


def _count_tokens(part: Sequence[_Piece]) -> int:
    return len(part) * max((piece.length for piece in part), default=0)


def score_with_models(
    tokens: Tokens, models: Models, config: TrainConfig, on_progress: OnProgress
) -> TokenColumns:
    """The models' log-probabilities and values; the policy's not where a single step gives them."""
    device, none_BT = next(models.actor.parameters()).device, torch.zeros(tokens.id_BT.shape)
    ask = partial(score_tokens, tokens, device, config, on_progress)
    old = {} if config.has_one_step else ask(models.actor.eval())
    values = {} if models.critic is None else ask(models.critic.eval())
    reference = {} if models.reference is None else ask(models.reference)
    return TokenColumns(
        old.get("logprob_BT", none_BT),
        values.get("value_BT", none_BT),
        reference.get("logprob_BT", none_BT),
    )


@torch.no_grad()
def score_tokens(
    tokens: Tokens,
    device: torch.device,
    config: TrainConfig,
    on_progress: OnProgress,
    scorer: Scorer,
) -> dict[str, Tensor]:
    """What the scorer thinks of every sampled token, by the names of `TokenScores`."""
    columns: dict[str, Tensor] = {}
    todo = list(split_into_micro_batches(tokens, config.microbatch_tokens, rank(), ranks()))
    for done, (rows, tree_B, is_dummy) in enumerate(todo):
        on_progress("micro-batches scored", done, len(todo))
        part = tokens.take(rows).to(device)
        scored = scorer(part.id_BT, part.action_mask_BT, config.temperature, False, tree_B)
        for name, value_RT in scored._asdict().items():
            if value_RT is not None:
                value_BT = columns.setdefault(name, torch.zeros(tokens.id_BT.shape))
                value_BT[rows, : part.id_BT.shape[1]] += (not is_dummy) * value_RT.float().cpu()
    return {name: all_reduce_sum(value_BT) for name, value_BT in columns.items()}
