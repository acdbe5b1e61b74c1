"""Sequences of a dialogue that begin alike: laid out as a tree, scored and learned from as if each
had passed by itself.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_policy import FAMILIES, SIZES, played, tiny
from transformers import Qwen2Config, Qwen2ForCausalLM

from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.learning.micro_batches import score_tokens
from rlver_gym.policy.learning.rollouts import pack_rollouts
from rlver_gym.policy.models.actor import Actor, Critic
from rlver_gym.policy.models.prefixes import build_prefix_trees, count_shared_prefix_tokens
from rlver_gym.policy.models.trajectory import TokenSequence, ignore_progress

CPU = torch.device("cpu")


def thinking(rng, turns, group):
    """A policy that thinks: each prompt holds the replies said so far, and none of the thoughts
    before them.
    """
    history = rng.integers(0, 60, 6).tolist()
    sequences = []
    for turn in range(turns):
        thought, reply = rng.integers(0, 60, 5).tolist(), rng.integers(0, 60, 4).tolist()
        ids = [*history, *thought, *reply]
        is_said = np.arange(len(ids)) >= len(history)
        logprob_T = np.where(is_said, -1.0, 0).astype(np.float32)
        turn_T = np.where(is_said, turn, -1)
        sequences.append(TokenSequence(np.array(ids), is_said, logprob_T, turn_T))
        history = [*history, *reply, *rng.integers(0, 60, 3).tolist()]
    return played(rng, group, turns, sequences=tuple(sequences))


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return pack_rollouts(
        [thinking(rng, turns, at // 2) for at, turns in enumerate((4, 1, 3, 5))] + [played(rng, 2)]
    ).tokens


def test_what_is_shared_is_counted_within_a_dialogue_only():
    id_BT = np.array([[5, 6, 7, 8], [5, 6, 9, 0], [5, 6, 9, 0], [5, 6, 9, 1]])
    shared_B = count_shared_prefix_tokens(id_BT, np.array([4, 3, 3, 4]), np.array([0, 0, 0, 1]))
    assert shared_B.tolist() == [0, 2, 3, 0]


def test_a_tree_by_hand():
    """5 6 7 8, then 5 6 9: the 9 stands behind the 8 and sees 5, 6 and itself."""
    trees = build_prefix_trees(
        torch.tensor([[5, 6, 7, 8], [5, 6, 9, 0]]), np.array([4, 3]), np.array([0, 0])
    )
    assert trees.id_DL.tolist() == [[5, 6, 7, 8, 9]]
    assert trees.position_DL.tolist() == [[0, 1, 2, 3, 2]]
    assert trees.place_BT.tolist() == [[0, 1, 2, 3], [0, 1, 4, 0]]
    assert trees.is_seen_DLL[0, 4].tolist() == [True, True, False, False, True]


IDS = st.lists(st.integers(0, 2), min_size=1, max_size=8)


@given(st.lists(st.tuples(st.integers(0, 2), IDS), min_size=1, max_size=9))
def test_each_token_sees_its_own_path_and_no_other(rows):
    rows = sorted(rows, key=lambda row: row[0])
    length_B = np.array([len(ids) for _, ids in rows])
    dialogue_B = np.array([who for who, _ in rows])
    id_BT = torch.zeros(len(rows), 8, dtype=torch.long)
    for row, (_, ids) in zip(id_BT, rows, strict=True):
        row[: len(ids)] = torch.tensor(ids)
    trees = build_prefix_trees(id_BT, length_B, dialogue_B)
    width = trees.id_DL.shape[1]
    for row, (_, ids) in enumerate(rows):
        for at in range(len(ids)):
            tree, place = divmod(int(trees.place_BT[row, at]), width)
            seen = trees.is_seen_DLL[tree, place].nonzero()[:, 0]
            by_position = seen[trees.position_DL[tree, seen].argsort()]
            assert trees.id_DL[tree, by_position].tolist() == ids[: at + 1]
            assert trees.position_DL[tree, by_position].tolist() == list(range(at + 1))


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_values_and_gradients_are_those_of_each_sequence_alone(batch, family):
    actor, critic = Actor(tiny(family)), Critic(tiny(family, seed=1))
    torch.nn.init.normal_(critic.value_head.weight)
    for scorer in (actor, critic):
        found = {}
        for dialogue_B in (None, batch.dialogue_B):
            scorer.zero_grad()
            scored = scorer(batch.id_BT, batch.action_mask_BT, 0.9, dialogue_B=dialogue_B)
            made = [one for one in scored if one is not None]
            sum((one**2).sum() for one in made).backward()
            gradients = [one.grad.clone() for one in scorer.parameters() if one.grad is not None]
            found[dialogue_B is None] = (made, gradients)
        for alone, shared in zip(*(found[which][0] for which in (True, False)), strict=True):
            assert torch.allclose(alone, shared, atol=1e-5)
        for alone, shared in zip(*(found[which][1] for which in (True, False)), strict=True):
            # Single ones can be small differences of large numbers.
            assert (alone - shared).norm() <= 1e-5 * alone.norm()


def test_the_history_passes_once_and_micro_batches_count_it_so(batch):
    passed = []
    actor = Actor(tiny())
    actor.model.base_model.register_forward_pre_hook(
        lambda module, args, named: passed.append(named["input_ids"].numel()), with_kwargs=True
    )
    shared_B = count_shared_prefix_tokens(batch.id_BT.numpy(), batch.length_B, batch.dialogue_B)
    in_trees = np.bincount(batch.dialogue_B, batch.length_B - shared_B)
    score_tokens(batch, CPU, TrainConfig(microbatch_tokens=10_000), ignore_progress, actor)
    assert in_trees.sum() < 0.7 * batch.length_B.sum()
    assert passed[0] <= len(in_trees) * in_trees.max()
    passed.clear()
    score_tokens(batch, CPU, TrainConfig(microbatch_tokens=64), ignore_progress, actor)
    assert max(passed) <= max(64, batch.length_B.max())


def test_layers_that_do_not_see_everything_share_nothing(batch):
    windows = Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=4, max_window_layers=1)
    actor = Actor(Qwen2ForCausalLM(windows)).eval()
    with torch.no_grad():
        alone, asked = (
            actor(batch.id_BT, batch.action_mask_BT, dialogue_B=dialogue_B).logprob_BT
            for dialogue_B in (None, batch.dialogue_B)
        )
    assert torch.equal(alone, asked)
