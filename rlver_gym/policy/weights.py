"""How much each token counts in a loss. The weights of a minibatch are made before it is cut into pieces, so that the pieces' losses, added up on
however many processes, are the loss of the whole. Pure."""

from typing import Literal

import torch
from torch import Tensor

Aggregate = Literal["token", "turn", "dialogue", "sequence", "constant"]


def token_weights(
    learned_BT: Tensor, turn_BT: Tensor, dialogue_B: Tensor, aggregate: Aggregate = "turn", constant: float = 1.0
) -> Tensor:
    """weight_BT for a loss that is a sum of weight times term; 0 where nothing is learned. `turn_BT`: the turn of a token within its dialogue, from 0.

    token: the mean over all tokens (DAPO, arXiv:2503.14476, 3.3), so a dialogue counts as much as it is long.
    turn: the mean over turns of the mean over their tokens: GRPO (arXiv:2402.03300, eq. 3), whose output is one reply. A dialogue counts by its turns.
    dialogue: the mean over dialogues of the mean over their tokens, however many sequences a dialogue left. A turn of a short dialogue counts more.
    sequence: as dialogue, but each sequence of a dialogue counts the same (GSPO, arXiv:2507.18071).
    constant: the mean over dialogues of the sum over their tokens, divided by `constant` (Dr.GRPO, arXiv:2503.20783): length changes no token's weight.
    """
    learned_B, dialogues = learned_BT.sum(1).double(), int(dialogue_B.max()) + 1 if len(dialogue_B) else 0
    has_B = (learned_B > 0).double()
    learned_D, sequences_D = (
        torch.zeros(dialogues, dtype=torch.double).index_add(0, dialogue_B, one) for one in (learned_B, has_B)
    )
    count = max(1, int((learned_D > 0).sum()))
    if aggregate == "turn":
        return _by_turn(learned_BT, turn_BT, dialogue_B)
    weight_B = {
        "token": lambda: has_B / learned_B.sum().clamp(min=1),
        "dialogue": lambda: 1 / (count * learned_D[dialogue_B].clamp(min=1)),
        "sequence": lambda: 1 / (count * sequences_D[dialogue_B].clamp(min=1) * learned_B.clamp(min=1)),
        "constant": lambda: has_B / (count * constant),
    }[aggregate]()
    return (weight_B[:, None] * learned_BT).float()


def _by_turn(learned_BT: Tensor, turn_BT: Tensor, dialogue_B: Tensor) -> Tensor:
    weight_BT = torch.zeros(learned_BT.shape, dtype=torch.double)
    if learned_BT.any():
        place_S = (dialogue_B[:, None] * (turn_BT.max() + 1) + turn_BT)[learned_BT]
        _, place_S, tokens = place_S.unique(return_inverse=True, return_counts=True)
        weight_BT[learned_BT] = 1 / (len(tokens) * tokens[place_S].double())
    return weight_BT.float()
