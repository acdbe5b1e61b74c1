"""A real causal LM of 20,000 weights and dialogues of random tokens. Needs transformers."""

from dataclasses import replace

import numpy as np
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from rlver_gym.policy.models.trajectory import Alternative, TokenSequence, Trajectory

SIZES = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
FAMILIES = {
    "qwen2, tied": (Qwen2ForCausalLM, Qwen2Config(**SIZES, tie_word_embeddings=True)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SIZES)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**SIZES, head_dim=8)),
    "llama": (LlamaForCausalLM, LlamaConfig(**SIZES)),
}


SHORT = {
    "iterations": 1,
    "dialogues": 2,
    "group_size": 2,
    "max_reply_tokens": 8,
    "max_tokens": 1024,
    "lr": 1e-2,
    "eval_every": 0,
}
"""Options of a run of one iteration with one group, whom nobody evaluates."""


def tiny(family="qwen2, tied", seed=0):
    torch.manual_seed(seed)
    made, config = FAMILIES[family]
    return made(config)


def sequence(rng, turns, first=0):
    """A sequence of heard and said tokens, each turn a few of both."""
    id_T, action_mask_T, turn_T = [], [], []
    for turn in range(first, first + turns):
        for said, length in ((False, rng.integers(2, 9)), (True, rng.integers(1, 7))):
            id_T += rng.integers(0, 60, length).tolist()
            action_mask_T += [said] * length
            turn_T += [turn if said else -1] * length
    action_mask_T = np.array(action_mask_T)
    logprob_T = np.where(action_mask_T, -rng.random(len(action_mask_T)) * 4, 0).astype(np.float32)
    return TokenSequence(np.array(id_T), action_mask_T, logprob_T, np.array(turn_T, dtype=np.int32))


def played(rng, group=0, turns=3, thinks=False, **changes):
    sequences = (
        [sequence(rng, 1, turn) for turn in range(turns)] if thinks else [sequence(rng, turns)]
    )
    reward_N = rng.integers(-10, 11, turns).astype(np.float32)
    plain = Trajectory(
        group,
        int(rng.integers(100)),
        reward_N,
        np.zeros(turns, dtype=bool),
        tuple(sequences),
        (),
        {},
    )
    return replace(plain, **changes)


def trying(rng, turns=3, tried=2, group=0):
    """A dialogue with that many more replies tried at each turn, after the same words."""
    said, alternatives, before = [], [], np.zeros(0, np.int64)
    for turn in range(turns):
        prompt = np.concatenate([before, rng.integers(0, 60, 4)])
        drawn = []
        for _ in range(tried + 1):
            reply = rng.integers(0, 60, rng.integers(1, 6))
            mask_T = np.arange(len(prompt) + len(reply)) >= len(prompt)
            logprob_T = np.where(mask_T, -rng.random(len(mask_T)) * 4, 0).astype(np.float32)
            ids = np.concatenate([prompt, reply])
            drawn.append(TokenSequence(ids, mask_T, logprob_T, np.where(mask_T, turn, -1)))
        said.append(drawn[0])
        before = drawn[0].id_T
        alternatives += [
            Alternative(turn, one, float(rng.integers(-10, 11)), format_error=False)
            for one in drawn[1:]
        ]
    return played(rng, group, turns, sequences=tuple(said), alternatives=tuple(alternatives))


def eight_dialogues():
    """In four groups, of one to four turns, every other one of a policy that thinks."""
    rng = np.random.default_rng(0)
    return [played(rng, at // 2, 1 + at % 4, thinks=at % 2 == 1) for at in range(8)]
