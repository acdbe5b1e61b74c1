"""What the sequences of a dialogue begin with alike passes through the model once. A policy that
thinks leaves a sequence a turn, since its earlier thoughts are not in its later prompts: eight
turns hold the same history eight times. Here they become one row, a tree of tokens in which each
sees its own path.

Axes: B sequences, T tokens, D dialogues, L tokens of a tree.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ints = NDArray[np.int64]


def count_shared_prefix_tokens(id_BT: Ints, length_B: Ints, dialogue_B: Ints) -> Ints:
    """shared_B: the tokens that a sequence begins with like the one before it of its dialogue."""
    shared_B = np.zeros(len(length_B), dtype=np.int64)
    if len(length_B) > 1:
        most_B = np.minimum(length_B[1:], length_B[:-1]) * (dialogue_B[1:] == dialogue_B[:-1])
        alike_B = np.cumprod(id_BT[1:] == id_BT[:-1], axis=1).sum(axis=1)
        shared_B[1:] = np.minimum(alike_B, most_B)
    return shared_B


class PrefixTrees(NamedTuple):
    """A tree a dialogue; padded with tokens that see but themselves."""

    id_DL: Tensor
    position_DL: Tensor
    """Of a token in its sequence, from 0."""
    is_seen_DLL: Tensor
    """Whether a token (first L) attends to another: itself and what precedes it in its sequence."""
    place_BT: Tensor
    """Where each token of a sequence stands, counted through all trees; 0 where it is padded."""


def build_prefix_trees(id_BT: Tensor, length_B: Ints, dialogue_B: Ints) -> PrefixTrees:
    """Lay out sequences, those of a dialogue neighbours; `length_B`: tokens without padding."""
    ids = id_BT.cpu().numpy()
    shared_B = count_shared_prefix_tokens(ids, length_B, dialogue_B)
    tree_B = np.cumsum(np.diff(dialogue_B, prepend=dialogue_B[:1]) != 0)
    size_D = np.bincount(tree_B, length_B - shared_B).astype(np.int64)
    trees, width = len(size_D), int(size_D.max())
    id_DL, position_DL = np.zeros((trees, width), np.int64), np.zeros((trees, width), np.int64)
    is_seen_DLL = np.zeros((trees, width, width), np.bool_)
    is_seen_DLL[:, np.arange(width), np.arange(width)] = True
    place_BT = np.zeros(ids.shape, np.int64)
    for row, (tree, new, path_T) in enumerate(_iterate_branches(tree_B, length_B, shared_B)):
        length, shared = int(length_B[row]), int(shared_B[row])
        id_DL[tree, new] = ids[row, shared:length]
        position_DL[tree, new] = np.arange(shared, length)
        # a slice and an array: the block of all its tokens and all before
        is_seen_DLL[tree, new, path_T[:shared]] = True
        is_seen_DLL[tree, new, new] = np.tri(length - shared, dtype=np.bool_)
        place_BT[row, :length] = tree * width + path_T
    on = id_BT.device
    arrays = (id_DL, position_DL, is_seen_DLL, place_BT)
    return PrefixTrees(*(torch.from_numpy(one).to(on) for one in arrays))


def _iterate_branches(
    tree_B: Ints, length_B: Ints, shared_B: Ints
) -> Iterator[tuple[int, slice, Ints]]:
    """Of each sequence its tree, the places of its new tokens there, and of all its tokens."""
    path_T, used, before = np.zeros(0, np.int64), 0, -1
    for tree, length, shared in zip(
        tree_B.tolist(), length_B.tolist(), shared_B.tolist(), strict=True
    ):
        used = used if tree == before else 0
        new = slice(used, used + length - shared)
        path_T = np.concatenate([path_T[:shared], np.arange(new.start, new.stop)])
        yield tree, new, path_T
        used, before = new.stop, tree
