"""Which rows pass through a model together, and on which process. Knows lengths, no contents."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_FINER = 2
"""Micro-batches that each of several processes gets, at least where there are enough rows: only small ones can be dealt evenly."""


class Share(NamedTuple):
    """Rows that pass through the model together."""

    row_R: NDArray[np.int64]
    real: bool
    """False for a share that only keeps step with the other processes: compute it, count it 0 times."""


def shares(length_B: NDArray[np.int64], tokens: int, rank: int = 0, ranks: int = 1) -> Iterator[Share]:
    """This process's micro-batches, the longest rows or the heaviest first; every process gets equally many, as collective operations demand, and about equally much.

    `tokens`: the most that pass at once, padding included; of several processes each takes fewer. A row that is longer passes alone.
    """
    if ranks > 1:
        tokens = min(tokens, int(length_B.sum()) // (_FINER * ranks))
    plan = _plan(length_B, tokens)
    while len(plan) % ranks:
        heaviest = max(range(len(plan)), key=lambda at: _passed(plan[at], length_B) * (len(plan[at].row_R) > 1))
        row_R = plan[heaviest].row_R
        if len(row_R) > 1:
            plan[heaviest : heaviest + 1] = [Share(part, True) for part in np.array_split(row_R, 2)]
        else:
            plan.append(Share(plan[-1].row_R, False))
    yield from plan if ranks == 1 else _dealt(plan, length_B, ranks)[rank]


def _dealt(plan: list[Share], length_B: NDArray[np.int64], ranks: int) -> list[list[Share]]:
    """Equally many for everybody, the heaviest first, each to whoever has the least so far."""
    hands: list[list[Share]] = [[] for _ in range(ranks)]
    weights = [0] * ranks
    for share in sorted(plan, key=lambda share: -_passed(share, length_B)):
        least = min((who for who in range(ranks) if len(hands[who]) < len(plan) // ranks), key=weights.__getitem__)
        hands[least].append(share)
        weights[least] += _passed(share, length_B)
    return hands


def padding(length_B: NDArray[np.int64], tokens: int) -> float:
    """The share of what passes through the model that is padding, in [0, 1)."""
    passed = sum(_passed(share, length_B) for share in _plan(length_B, tokens))
    return 1 - float(length_B.sum() / passed) if passed else 0.0


def _passed(share: Share, length_B: NDArray[np.int64]) -> int:
    """Tokens that pass, padding included."""
    return len(share.row_R) * int(length_B[share.row_R].max())


def _plan(length_B: NDArray[np.int64], tokens: int) -> list[Share]:
    plan: list[list[int]] = []
    for row in np.argsort(-length_B, kind="stable"):
        if plan and (len(plan[-1]) + 1) * length_B[plan[-1][0]] <= tokens:
            plan[-1].append(int(row))
        else:
            plan.append([int(row)])
    return [Share(np.array(rows, dtype=np.int64), True) for rows in plan]
