"""Which rows pass through a model together, and on which process. Knows lengths, no contents."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Share(NamedTuple):
    """Rows that pass through the model together."""

    row_R: NDArray[np.int64]
    real: bool
    """False for a share that only keeps step with the other processes: compute it, count it 0 times."""


def shares(length_B: NDArray[np.int64], tokens: int, rank: int = 0, ranks: int = 1) -> Iterator[Share]:
    """This process's micro-batches, the longest rows first; every process gets equally many, as collective operations demand.

    `tokens`: the most that pass at once, padding included. A row that is longer passes alone.
    """
    plan = _plan(length_B, tokens)
    while len(plan) % ranks:
        longest = max(range(len(plan)), key=lambda at: len(plan[at].row_R) if plan[at].real else 0)
        row_R = plan[longest].row_R
        if len(row_R) > 1:
            plan[longest : longest + 1] = [Share(part, True) for part in np.array_split(row_R, 2)]
        else:
            plan.append(Share(plan[-1].row_R, False))
    yield from plan[rank::ranks]


def padding(length_B: NDArray[np.int64], tokens: int) -> float:
    """The share of what passes through the model that is padding, in [0, 1)."""
    passed = sum(len(share.row_R) * length_B[share.row_R].max() for share in _plan(length_B, tokens))
    return 1 - float(length_B.sum() / passed) if passed else 0.0


def _plan(length_B: NDArray[np.int64], tokens: int) -> list[Share]:
    plan: list[list[int]] = []
    for row in np.argsort(-length_B, kind="stable"):
        if plan and (len(plan[-1]) + 1) * length_B[plan[-1][0]] <= tokens:
            plan[-1].append(int(row))
        else:
            plan.append([int(row)])
    return [Share(np.array(rows, dtype=np.int64), True) for rows in plan]
