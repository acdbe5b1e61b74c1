"""How much each said token counts in a loss. The weights of a minibatch are made before it is cut into pieces, so that the pieces' losses, added up on
however many processes, are the loss of the whole. Pure."""

from typing import Literal

import torch
from torch import Tensor

Aggregate = Literal["token", "dialogue", "sequence", "constant"]


def token_weights(
    said_BT: Tensor, dialogue_B: Tensor, aggregate: Aggregate = "dialogue", constant: float = 1.0
) -> Tensor:
    """weight_BT for a loss that is a sum of weight times term; 0 where nothing was said.

    token: the mean over all said tokens (DAPO, arXiv:2503.14476, 3.3), so a dialogue counts as much as it is long.
    dialogue: the mean over dialogues of the mean over their tokens (GRPO, arXiv:2402.03300), however many sequences a dialogue left.
    sequence: as dialogue, but each sequence of a dialogue counts the same (GSPO, arXiv:2507.18071).
    constant: the mean over dialogues of the sum over their tokens, divided by `constant` (Dr.GRPO, arXiv:2503.20783): length changes no token's weight.
    """
    said_B = said_BT.sum(1).double()
    dialogues, sequences = int(dialogue_B.max()) + 1 if len(dialogue_B) else 0, torch.ones_like(said_B)
    said_D = torch.zeros(dialogues, dtype=torch.double).index_add(0, dialogue_B, said_B)
    sequences_D = torch.zeros(dialogues, dtype=torch.double).index_add(0, dialogue_B, sequences)
    weight_B = {
        "token": lambda: sequences / said_B.sum(),
        "dialogue": lambda: 1 / (dialogues * said_D[dialogue_B]),
        "sequence": lambda: 1 / (dialogues * sequences_D[dialogue_B] * said_B),
        "constant": lambda: sequences / (dialogues * constant),
    }[aggregate]()
    return (weight_B[:, None] * said_BT).float()
