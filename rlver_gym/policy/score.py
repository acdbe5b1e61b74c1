"""A whole batch scored without gradients, piece by piece, each process its share."""

import torch
from torch import Tensor

from rlver_gym.policy.batch import Batch
from rlver_gym.policy.distributed import rank, ranks, summed
from rlver_gym.policy.forward import Scored, Scorer
from rlver_gym.policy.microbatch import shares


@torch.no_grad()
def score(batch: Batch, scorer: Scorer, device: torch.device, temperature: float = 1.0, tokens: int = 8192) -> Scored:
    """What the scorer thinks of every said token, on the CPU and on every process. `tokens`: the most in one pass, padding included."""
    columns: dict[str, Tensor] = {}
    for share in shares(batch.length_B, tokens, rank(), ranks()):
        rows, width = torch.from_numpy(share.row_R), int(batch.length_B[share.row_R].max())
        scored = scorer(batch.id_BT[rows, :width].to(device), batch.said_BT[rows, :width].to(device), temperature)
        for name, value_RT in scored._asdict().items():
            if value_RT is not None:
                value_BT = columns.setdefault(name, torch.zeros(batch.said_BT.shape))
                value_BT[rows, :width] += share.real * value_RT.float().cpu()
    return Scored(*(summed(columns[name]) if name in columns else None for name in Scored._fields))
