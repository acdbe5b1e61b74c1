"""Losses and weights against numbers worked out by hand."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
import torch

from rlver_gym.policy.learning import algorithms
from rlver_gym.policy.learning.algorithms import compute_token_weights
from rlver_gym.policy.learning.batch import pack_batch
from rlver_gym.policy.learning.objective import compute_loss
from rlver_gym.policy.learning.registry import ALGORITHMS, Objective
from rlver_gym.policy.models.actor import TokenScores


def t(*values):
    return torch.tensor([values], dtype=torch.float64)


def same(tensor, *values, tolerance=1e-12):
    assert tensor.flatten().tolist() == pytest.approx(values, abs=tolerance)


def test_the_ratio_is_how_much_likelier_a_token_became():
    same(algorithms.compute_token_ratio(t(log(0.6), log(0.1)), t(log(0.3), log(0.4))), 2, 0.25)


def test_the_ratio_of_a_sequence_is_the_geometric_mean_over_what_was_said():
    action_mask_BT = torch.tensor([[False, True, True]])
    ratio_BT = algorithms.compute_sequence_ratio(
        t(0, log(0.8), log(0.2)), t(0, log(0.2), log(0.2)), action_mask_BT
    )
    same(ratio_BT, 2, 2, 2)  # sqrt(4 * 1)


def test_the_ratio_of_a_sequence_passes_each_token_its_own_gradient():
    logprob_BT = t(log(0.8), log(0.2)).requires_grad_()
    ratio_BT = algorithms.compute_sequence_ratio(
        logprob_BT, t(log(0.2), log(0.2)), torch.tensor([[True, True]])
    )
    (ratio_BT * t(3.0, 5.0)).sum().backward()
    same(logprob_BT.grad, 6, 10)


def test_the_clipped_surrogate_by_hand():
    # good tokens gain nothing above 1.2, bad ones nothing below 0.8; the other way round they count
    # in full
    ratio_BT, advantage_BT = t(1.0, 1.5, 0.5, 1.5, 0.5), t(2.0, 2.0, 2.0, -2.0, -2.0)
    same(algorithms.clipped_surrogate(ratio_BT, advantage_BT), -2, -2.4, -1, 3, 1.6)


def test_clip_higher_lets_unlikely_tokens_grow_further():
    same(
        algorithms.clipped_surrogate(t(1.5, 1.25), t(1.0, 1.0), clip_low=0.2, clip_high=0.28),
        -1.28,
        -1.25,
    )


def test_where_the_ratio_is_clipped_no_gradient_flows():
    logprob_BT = t(log(1.5), log(1.1)).requires_grad_()
    algorithms.clipped_surrogate(
        algorithms.compute_token_ratio(logprob_BT, t(0, 0)), t(1.0, 1.0)
    ).sum().backward()
    same(logprob_BT.grad, 0, -1.1)


def test_cispo_weighs_every_token_with_the_clipped_ratio():
    logprob_BT = t(log(0.9), log(0.2)).requires_grad_()
    ratio_BT = algorithms.compute_token_ratio(logprob_BT, t(log(0.3), log(0.4)))  # 3 and 0.5
    loss_BT = algorithms.compute_cispo_loss(
        logprob_BT, ratio_BT, t(2.0, -1.0), clip_low=1.0, clip_high=0.5
    )
    same(loss_BT, -1.5 * 2 * log(0.9), 0.5 * log(0.2))
    loss_BT.sum().backward()
    same(logprob_BT.grad, -3, 0.5)


def test_a_preference_compares_how_much_two_replies_have_risen():
    # pair 0: chosen +0.3 and -0.1, rejected -0.4: 0.6 apart; pair 1 is none; pair 2: -0.5 apart
    logratio_BT = torch.cat([t(0.3, -0.1, 9.0, 0.2), t(-0.4, 0.0, 0.7, 0.0)])
    sign_BT = torch.cat([t(1, 1, 0, 1), t(-1, 0, -1, 0)])
    pair_BT = torch.tensor([[0, 0, 1, 2], [0, 0, 2, 0]])
    first, last = log(1 + exp(-2 * 0.6)), log(1 + exp(2 * 0.5))
    loss_BT = algorithms.compute_preference_loss(logratio_BT, sign_BT, pair_BT, beta=2.0)
    same(loss_BT, first, first, 0, last, first, 0, last, 0)


def test_importance_is_truncated_and_carries_no_gradient():
    old_BT = t(log(0.4), log(0.1), log(0.9)).requires_grad_()
    loss_weight_BT = algorithms.compute_truncated_importance_weight(
        old_BT, t(log(0.2), log(0.2), log(0.1)), cap=3
    )
    same(loss_weight_BT, 2, 0.5, 3)
    assert not loss_weight_BT.requires_grad


def test_the_divergence_by_hand():
    # the policy says 0.5, the reference 0.25: log ratio log 2
    same(algorithms.estimate_kl_divergence(t(log(0.5)), t(log(0.25))), 0.5 - 1 + log(2))


def test_the_estimate_of_the_divergence_has_the_true_one_as_its_mean():
    policy, reference = (
        torch.tensor([0.5, 0.3, 0.2]).double(),
        torch.tensor([0.2, 0.3, 0.5]).double(),
    )
    true = 0.5 * log(0.5 / 0.2) + 0.2 * log(0.2 / 0.5)
    estimates = algorithms.estimate_kl_divergence(policy.log(), reference.log())
    assert (policy * estimates).sum() == pytest.approx(true)


def test_the_value_loss_is_half_the_squared_error():
    same(algorithms.compute_value_loss(t(1.0, 3.0), t(9.0, 9.0), t(2.0, 0.0)), 0.5, 4.5)


def test_the_clipped_value_loss_takes_the_worse_of_both():
    # old 0, clip 0.5, target 2: from 1.0 the kept value is 0.5, error 1.5 against 1; from -1 it is
    # -0.5, error 2.5 against 3
    same(
        algorithms.compute_value_loss(t(1.0, -1.0), t(0.0, 0.0), t(2.0, 2.0), clip=0.5),
        1.5**2 / 2,
        4.5,
    )


def test_a_ratio_on_its_bound_is_not_outside():
    same(algorithms.find_clipped_ratios(t(0.5, 0.75, 1.0, 1.25, 1.5), 0.25, 0.25), 1, 0, 0, 0, 1)


# Three sequences: two of dialogue 0 (1 and 3 said tokens), one of dialogue 1 (4 said tokens).
SAID_BT = torch.tensor([[0, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0, 1, 1, 1, 1]]).bool()
DIALOGUE_B = torch.tensor([0, 0, 1])
TURN_BT = torch.tensor([[-1, 0, -1, -1, -1], [-1, 1, 1, 1, -1], [-1, 0, 0, 0, 1]])


@pytest.mark.parametrize(
    ("aggregate", "each_B"),
    [
        ("token", [1 / 8, 1 / 8, 1 / 8]),
        (
            "turn",
            [1 / 4, 1 / 12, [1 / 12] * 4 + [1 / 4]],
        ),  # 1 / (4 turns * tokens of the turn: 1; 3; 3 and 1)
        (
            "sequence",
            [1 / 4, 1 / 12, 1 / 8],
        ),  # 1 / (2 dialogues * 2 sequences * tokens); 1 / (2 * 1 * 4)
        ("constant", [1 / 20, 1 / 20, 1 / 20]),  # 1 / (2 dialogues * 10)
    ],
)
def test_the_weight_of_a_token_by_hand(aggregate, each_B):
    loss_weight_BT = compute_token_weights(SAID_BT, TURN_BT, DIALOGUE_B, aggregate, constant=10)
    assert torch.allclose(
        loss_weight_BT, torch.stack([torch.tensor(one).expand(5) for one in each_B]) * SAID_BT
    )


@pytest.mark.parametrize("aggregate", ["token", "turn", "sequence", "constant"])
def test_where_nothing_is_learned_every_weight_is_0(aggregate):
    nothing_BT = torch.zeros_like(SAID_BT)
    weight_BT = compute_token_weights(nothing_BT, TURN_BT, DIALOGUE_B, aggregate, constant=10)
    assert torch.equal(weight_BT, torch.zeros(SAID_BT.shape))
    no_rows = compute_token_weights(
        SAID_BT[:0], TURN_BT[:0], DIALOGUE_B[:0], aggregate, constant=10
    )
    assert no_rows.shape == (0, SAID_BT.shape[1])


def test_by_default_a_turn_of_a_short_dialogue_weighs_no_more_than_one_of_a_long():
    action_mask_BT = torch.tensor([[0, 1, 1, 0, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1, 1, 1]]).bool()
    turn_BT = torch.tensor([[-1, 0, 0, -1, -1, -1, -1, -1, -1], [-1, 0, 0, 1, 1, 2, 2, 3, 3]])
    weight_B = compute_token_weights(
        action_mask_BT, turn_BT, torch.tensor([0, 1]), Objective().aggregate
    ).sum(1)
    assert weight_B.tolist() == pytest.approx([1 / 5, 4 / 5])


def micro(**changes):
    """Two said tokens of equal weight, likelier by a factor of 2 and less likely by a half; the
    first was good, the second bad.
    """
    action_mask_BT = torch.tensor([[True, True]])
    plain = replace(
        pack_batch([]),
        id_BT=torch.zeros((1, 2), dtype=torch.int64),
        action_mask_BT=action_mask_BT,
        loss_weight_BT=t(0.5, 0.5),
        metric_weight_BT=t(0.5, 0.5),
        sampled_BT=t(log(0.1), log(0.4)),
        old_BT=t(log(0.2), log(0.4)),
        advantage_BT=t(1.0, -1.0),
        value_BT=t(0.0, 0.0),
        return_BT=t(1.0, 3.0),
    )
    return replace(plain, **changes)


SCORED = TokenScores(t(log(0.4), log(0.2)), t(0.6, 1.0), None)


def total(objective, scored=SCORED, **changes):
    return compute_loss(scored, micro(**changes), objective).loss.item()


def test_a_policys_loss_by_hand():
    # surrogates -1.2 and 0.8, mean -0.2
    assert total(Objective()) == pytest.approx(-0.2)
    parts = compute_loss(SCORED, micro(), Objective()).parts
    assert parts["entropy"].item() == pytest.approx(0.8)
    assert parts["clip_fraction"].item() == 1
    assert parts["kl"].item() == pytest.approx((2 - 1 - log(2) + 0.5 - 1 - log(0.5)) / 2)


def test_each_choice_of_an_objective_changes_the_loss_as_it_should():
    assert total(Objective(entropy=0.5)) == pytest.approx(-0.2 - 0.5 * 0.8)
    assert total(Objective(tis_cap=1.5)) == pytest.approx((-1.2 * 1.5 + 0.8) / 2)
    assert total(Objective(ratio="sequence")) == pytest.approx(0)  # the ratio of the sequence is 1
    assert total(Objective(surrogate="cispo", clip_low=1.0, clip_high=0.5)) == pytest.approx(
        (-1.5 * log(0.4) + 0.5 * log(0.2)) / 2
    )
    reference = {"reference_BT": t(log(0.2), log(0.2))}
    # the first token has become twice as likely: it counts twice
    assert total(Objective(kl=2.0), **reference) == pytest.approx(
        -0.2 + 2 * 2 * (0.5 - 1 + log(2)) / 2
    )


def test_the_value_loss_is_added_where_values_are():
    scored = SCORED._replace(value_BT=t(0.25, 0.25))
    wanted = (0.75**2 / 2 + 2.75**2 / 2) / 2
    assert total(Objective(), scored) == pytest.approx(-0.2 + wanted)
    assert total(Objective(), TokenScores(None, None, t(0.25, 0.25))) == pytest.approx(wanted)


def test_the_algorithms_differ_where_their_papers_do():
    assert total(ALGORITHMS["grpo"].objective) == pytest.approx(-0.2)
    assert total(ALGORITHMS["dapo"].objective) == pytest.approx((-1.28 + 0.8) / 2)
    assert total(ALGORITHMS["gspo"].objective) == pytest.approx(0)
    assert total(replace(ALGORITHMS["cispo"].objective, clip_high=0.5)) == pytest.approx(
        (-1.5 * log(0.4) + 0.5 * log(0.2)) / 2
    )


def test_before_the_first_update_every_algorithm_has_the_gradient_of_reinforce():
    logprob_BT = t(log(0.4), log(0.2)).requires_grad_()
    for algorithm in ALGORITHMS.values():
        if algorithm.learns_rivals:
            continue
        logprob_BT.grad = None
        scored = TokenScores(logprob_BT, t(0.0, 0.0), None)
        compute_loss(scored, micro(old_BT=logprob_BT.detach()), algorithm.objective).loss.backward()
        same(logprob_BT.grad, -0.5, 0.5)


def test_dpo_learns_a_pair_and_is_anchored_to_its_better_reply():
    pair = micro(
        advantage_BT=t(1.0, -1.0),
        reference_BT=t(log(0.1), log(0.4)),
        turn_BT=torch.tensor([[0, 0]]),
        dialogue_B=np.zeros(1, dtype=np.int64),
        reward_DN=np.zeros((1, 1)),
    )
    objective = replace(ALGORITHMS["dpo"].objective, beta=0.5, anchor=0.2)
    rise = log(0.4 / 0.1) - log(0.2 / 0.4)
    wanted = log(1 + exp(-0.5 * rise)) - 0.2 * log(0.4) / 2
    assert compute_loss(SCORED, pair, objective).loss.item() == pytest.approx(wanted)
