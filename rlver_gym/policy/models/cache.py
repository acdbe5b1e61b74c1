"""Keys and values of many dialogues of different lengths, kept from turn to turn. Row b's token at
position t stands in slot t: no padding in between.

Rows can be cut back, reordered and added; what stands behind a row's length is never looked at,
since the mask ends there.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

_CHUNK = 256


class _Window:
    """Where the next forward pass reads and writes, the same for all layers."""

    def __init__(self) -> None:
        self.rows = slice(0, 0)
        self.row_B1 = torch.empty(0, 1, dtype=torch.long)
        self.slot_BT = torch.empty(0, 0, dtype=torch.long)
        self.reach = 0
        """How many slots are read."""
        self.dtype = torch.float32
        """Of what is kept: rotated keys may come in a wider one than values do."""


class _Layer(CacheLayerMixin):
    def __init__(self, window: _Window) -> None:
        super().__init__()
        self.window = window

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys, self.values = (
            one.new_zeros(0, one.shape[1], 0, one.shape[3], dtype=self.window.dtype)
            for one in (key_states, value_states)
        )
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        window = self.window
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        self.keys = _enlarge_store(self.keys, window.rows.stop, window.reach)
        self.values = _enlarge_store(self.values, window.rows.stop, window.reach)
        self.keys[window.row_B1, :, window.slot_BT] = key_states.transpose(1, 2).to(window.dtype)
        self.values[window.row_B1, :, window.slot_BT] = value_states.transpose(1, 2).to(
            window.dtype
        )
        return self.keys[window.rows, :, : window.reach], self.values[
            window.rows, :, : window.reach
        ]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.window.reach, 0

    def get_seq_length(self) -> int:
        return self.window.reach - self.window.slot_BT.shape[1]

    def get_max_length(self) -> int:
        return -1


class RaggedCache(Cache):
    """A transformers cache whose rows have lengths of their own. `aim` before each forward pass."""

    def __init__(self, num_layers: int) -> None:
        self.window = _Window()
        super().__init__(layers=[_Layer(self.window) for _ in range(num_layers)])

    def aim(self, first_row: int, position_BT: Tensor, reach: int, dtype: torch.dtype) -> Tensor:
        """Set where the next pass writes: rows from `first_row` on, at these positions, below
        `reach`. Gives the attention mask (B, 1, T, reach), added to scores of that `dtype`.
        """
        window, count = self.window, position_BT.shape[0]
        window.rows = slice(first_row, first_row + count)
        window.row_B1 = torch.arange(first_row, first_row + count, device=position_BT.device)[
            :, None
        ]
        window.slot_BT, window.reach, window.dtype = position_BT, reach, dtype
        unseen = torch.arange(reach, device=position_BT.device) > position_BT[..., None]
        return torch.zeros(unseen.shape, dtype=dtype, device=unseen.device).masked_fill_(
            unseen, -torch.inf
        )[:, None]

    def move(self, order: Sequence[int], places: Sequence[int]) -> None:
        """Copy what is in row `order[i]` to row `places[i]`, all at once."""
        if not places:
            return
        for layer in self.layers:
            if isinstance(layer, _Layer) and layer.keys is not None and layer.values is not None:
                rows = max(*order, *places) + 1
                layer.keys, layer.values = (
                    _enlarge_store(layer.keys, rows, 0),
                    _enlarge_store(layer.values, rows, 0),
                )
                layer.keys[places], layer.values[places] = layer.keys[order], layer.values[order]


def _enlarge_store(store: Tensor, rows: int, slots: int) -> Tensor:
    """The store, copied into a larger one when it has not that many rows and slots."""
    if store.shape[0] >= rows and store.shape[2] >= slots:
        return store
    slots = max(store.shape[2], -(-slots // _CHUNK) * _CHUNK)
    larger = store.new_zeros(max(store.shape[0], rows), store.shape[1], slots, store.shape[3])
    larger[: store.shape[0], :, : store.shape[2]] = store
    return larger
