"""A circuit that repeats what was read, put into the weights of a fresh model.

Models that were trained on much text all have one: heads look at the tokens before, later heads
look for where the tokens before were the ones at hand, and say what came next there (induction
heads, arXiv:2209.11895). A tiny model on a laptop would need hours to find it, so it is born with
it.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import Qwen2ForCausalLM

THETA = 1e8
"""Of the rotary positions: so wide that most of a head's directions hardly turn within a dialogue.
"""
EMBEDDING = 0.1
"""Standard deviation of the embeddings, per direction."""
_SHAPE, _OWN = 0.2, 0.04
"""Of an embedding's variance: what all pieces have in common that begin alike, and what a piece has
to itself; the rest is its word's.
"""
_PART_OF_A_LETTER = "\ufffd"
"""What some of a letter's bytes are decoded to."""
HEADS = 2
"""Heads of a layer that the circuit takes."""
_FAST, _SLOW = 0.05, 0.008
"""Radians a token: directions that turn faster tell positions apart, those that turn slower tell
contents apart.
"""
_SHARPNESS = 12.0
"""How much the logit of the best position stands out, in nats, roughly."""
_LOUDNESS = 3.0
"""The weight of the copied token beside the one at hand."""
_BEGINNING = HEADS
"""The head that finds where the latest sentences begin."""
_NEAR = slice(5, 9)
"""Rotary directions that turn by a quarter within a sentence or a few: they tell the latest
sentence from those before.
"""
_ENDS = (".", "?", "!")
"""What a sentence ends with."""
_FOUND = 3.0
"""How far the trace of a sentence's end stands out, roughly, in the token after it."""


@torch.no_grad()
def teach_copying(model: Qwen2ForCausalLM, pieces: Sequence[str]) -> None:
    """Write the circuit into the first `HEADS` heads of the first and the last layer, and one more
    head of the last that finds where to begin; the others stay free. The model needs tied
    embeddings, two layers or more, more than `HEADS` heads, as many of keys as of queries, each
    half as wide as the model, and `THETA`. `pieces`: the text of each token.
    """
    model.model.embed_tokens.weight.copy_(_embeddings(pieces, model.config.hidden_size))
    first, last = (cast(Any, model.model.layers[at]).self_attn for at in (0, -1))
    width = model.config.hidden_size // HEADS
    turn_H = THETA ** (-torch.arange(width // 2) / (width // 2))
    seen_WD, kept_DD, copied_DD, begun_DD = (_rotation(model.config.hidden_size) for _ in range(4))
    seen_WD = seen_WD[:width]
    one_before_DW, two_before_DW = kept_DD[:, :width], kept_DD[:, width : 2 * width]
    for head in range(HEADS):
        rows = slice(head * width, (head + 1) * width)
        first.q_proj.bias[rows], first.k_proj.bias[rows] = _make_look_back_biases(
            1 + head % 2, turn_H
        )
        first.v_proj.weight[rows] = seen_WD
        first.o_proj.weight[:, rows] = EMBEDDING * (two_before_DW if head % 2 else one_before_DW)
        here_WW, before_WW = _slow_directions(turn_H), _slow_directions(turn_H)
        last.q_proj.weight[rows] = here_WW @ seen_WD + before_WW @ one_before_DW.T
        last.k_proj.weight[rows] = here_WW @ one_before_DW.T + before_WW @ two_before_DW.T
        last.v_proj.weight[rows] = copied_DD[rows]
        last.o_proj.weight[:, rows] = _LOUDNESS * EMBEDDING * copied_DD[rows].T
    ends_D = model.model.embed_tokens.weight[[pieces.index(end) for end in _ENDS]].mean(0)
    _write_sentence_start_head(
        last, one_before_DW @ nn.functional.normalize(seen_WD @ ends_D, dim=0), begun_DD[:width]
    )


def _write_sentence_start_head(attention: Any, after_end_D: Tensor, begun_WD: Tensor) -> None:
    """Write the head that says what the latest sentence began with.

    `after_end_D`: where a token keeps the trace of a sentence that ended before it.
    """
    width = len(begun_WD)
    rows = slice(_BEGINNING * width, (_BEGINNING + 1) * width)
    near_W = torch.zeros(width)
    near_W[_NEAR] = math.sqrt(_SHARPNESS * math.sqrt(width) / (_NEAR.stop - _NEAR.start))
    attention.q_proj.bias[rows] = near_W
    attention.k_proj.weight[rows] = torch.outer(near_W, after_end_D) / _FOUND
    attention.v_proj.weight[rows] = begun_WD
    attention.o_proj.weight[:, rows] = _LOUDNESS * EMBEDDING * begun_WD.T


def _embeddings(pieces: Sequence[str], width: int) -> Tensor:
    """Random, of standard deviation `EMBEDDING` a direction, and alike for the pieces of one word:
    "She" opens a line, " she" gives it back within one. Without that a model copies the letters it
    read, and does not know how to begin.
    """
    word_D, shape_D = (defaultdict(lambda: torch.randn(width)) for _ in range(2))
    rows = []
    for piece in pieces:
        bare = piece.strip()
        word = (
            word_D[bare.lower()] if bare and _PART_OF_A_LETTER not in bare else torch.randn(width)
        )
        shape = shape_D[piece[:1].isspace(), bare[:1].isupper()]
        own = torch.randn(width)
        rows.append(
            math.sqrt(1 - _SHAPE - _OWN) * word + math.sqrt(_SHAPE) * shape + math.sqrt(_OWN) * own
        )
    return EMBEDDING * torch.stack(rows)


def _make_look_back_biases(tokens: int, turn_H: Tensor) -> tuple[Tensor, Tensor]:
    """Biases of query and key, which agree best when the key stands so many tokens before the
    query, whatever is said there.
    """
    width = 2 * len(turn_H)
    strength = math.sqrt(_SHARPNESS * math.sqrt(width))
    fast_H = strength * (turn_H > _FAST)
    query_W = torch.cat([fast_H * torch.cos(tokens * turn_H), -fast_H * torch.sin(tokens * turn_H)])
    return query_W, torch.cat([fast_H, torch.zeros_like(fast_H)])


def _slow_directions(turn_H: Tensor) -> Tensor:
    """A map of a head's directions onto those that hardly turn, sized so that a token's match with
    itself stands out.
    """
    width = 2 * len(turn_H)
    slow_W = (turn_H < _SLOW).repeat(2)
    count = int(slow_W.sum())
    match_WW = torch.zeros(width, width)
    match_WW[slow_W] = _rotation(width)[:count]
    return math.sqrt(4 * _SHARPNESS * math.sqrt(width) / count) * match_WW


def _rotation(size: int) -> Tensor:
    """A random orthogonal matrix."""
    return torch.linalg.qr(torch.randn(size, size))[0]
