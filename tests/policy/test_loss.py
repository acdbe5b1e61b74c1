"""Losses and weights against numbers worked out by hand."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
import torch

from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.iteration import compute_loss
from rlver_gym.policy.learning import algorithms
from rlver_gym.policy.learning.algorithms import Pairs, compute_token_weights
from rlver_gym.policy.learning.registry import ALGORITHMS
from rlver_gym.policy.learning.rollouts import Prepared
from rlver_gym.policy.learning.steps import weigh
from rlver_gym.policy.models.actor import TokenScores


def t(*values):
    return torch.tensor([values], dtype=torch.float64)


def same(tensor, *values, tolerance=1e-12):
    assert tensor.flatten().tolist() == pytest.approx(values, abs=tolerance)


RATIO = t(1.0, 1.5, 0.5, 1.5, 0.5)
SAID_BT = torch.tensor([[False, True, True]])
BY_HAND = [
    (algorithms.compute_token_ratio, (t(log(0.6), log(0.1)), t(log(0.3), log(0.4))), [2, 0.25]),
    # the geometric mean over what was said: sqrt(4 * 1)
    (
        algorithms.compute_sequence_ratio,
        (t(0, log(0.8), log(0.2)), t(0, log(0.2), log(0.2)), SAID_BT),
        [2, 2, 2],
    ),
    # good tokens gain nothing above 1.2, bad ones nothing below 0.8; else they count in full
    (algorithms.clipped_surrogate, (RATIO, t(2, 2, 2, -2, -2)), [-2, -2.4, -1, 3, 1.6]),
    (algorithms.clipped_surrogate, (t(1.5, 1.25), t(1, 1), 0.2, 0.28), [-1.28, -1.25]),
    # the policy says 0.5, the reference 0.25: log ratio log 2
    (algorithms.estimate_kl_divergence, (t(log(0.5)), t(log(0.25))), [0.5 - 1 + log(2)]),
    (algorithms.compute_value_loss, (t(1, 3), t(9, 9), t(2, 0)), [0.5, 4.5]),
    # old 0, clip 0.5, target 2: from 1 the kept value is 0.5, error 1.5 against 1; from -1 it is
    # -0.5, error 2.5 against 3
    (algorithms.compute_value_loss, (t(1, -1), t(0, 0), t(2, 2), 0.5), [1.5**2 / 2, 4.5]),
    # a ratio on its bound is not outside
    (algorithms.find_clipped_ratios, (t(0.5, 0.75, 1, 1.25, 1.5), 0.25, 0.25), [1, 0, 0, 0, 1]),
]


@pytest.mark.parametrize(("compute", "given", "wanted"), BY_HAND)
def test_what_losses_are_made_of_by_hand(compute, given, wanted):
    same(compute(*given), *wanted)


def test_the_ratio_of_a_sequence_passes_each_token_its_own_gradient():
    logprob_BT = t(log(0.8), log(0.2)).requires_grad_()
    ratio_BT = algorithms.compute_sequence_ratio(
        logprob_BT, t(log(0.2), log(0.2)), torch.tensor([[True, True]])
    )
    (ratio_BT * t(3.0, 5.0)).sum().backward()
    same(logprob_BT.grad, 6, 10)


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


def test_a_pair_compares_how_much_two_replies_have_risen_and_is_anchored_a_token():
    # reply 0 rises by 0.3 - 0.1, reply 1 falls by 0.4: 0.6 apart; reply 2 falls by 0.5, reply 3 has
    # two tokens and rises by 0.2: 0.7 apart the wrong way; reply 4 and 5 are not here
    logprob_BT = torch.cat([t(-1.0, -3.0, 9.0, -2.0), t(-4.0, -1.0, -3.0, 9.0)])
    logratio_BT = torch.cat([t(0.3, -0.1, 7.0, -0.5), t(-0.4, 0.1, 0.1, 7.0)])
    reply_BT = torch.tensor([[0, 0, -1, 2], [1, 3, 3, -1]])
    pairs = Pairs(np.array([0, 2, 4]), np.array([1, 3, 5]), np.ones(3))
    given = logprob_BT, logprob_BT - logratio_BT, reply_BT, pairs
    first, last = log(1 + exp(-2 * 0.6)), log(1 + exp(2 * 0.7))
    found = algorithms.compute_preference_loss(*given, beta=2.0)
    same(found.loss_P, first, last, 0)
    same(found.is_right_P.double(), 1, 0, 0)
    # the anchor is the winner's own cross-entropy, (1 + 3) / 2 and 2 / 1, whatever the loser's
    # length
    anchored = algorithms.compute_preference_loss(*given, beta=2.0, anchor=0.5).loss_P
    same(anchored, first + 0.5 * 2, last + 0.5 * 2, 0)


def test_importance_is_truncated_and_carries_no_gradient():
    old_BT = t(log(0.4), log(0.1), log(0.9)).requires_grad_()
    loss_weight_BT = algorithms.compute_truncated_importance_weight(
        old_BT, t(log(0.2), log(0.2), log(0.1)), cap=3
    )
    same(loss_weight_BT, 2, 0.5, 3)
    assert not loss_weight_BT.requires_grad


def test_the_estimate_of_the_divergence_has_the_true_one_as_its_mean():
    policy = torch.tensor([0.5, 0.3, 0.2]).double()
    reference = torch.tensor([0.2, 0.3, 0.5]).double()
    true = 0.5 * log(0.5 / 0.2) + 0.2 * log(0.2 / 0.5)
    estimates = algorithms.estimate_kl_divergence(policy.log(), reference.log())
    assert (policy * estimates).sum() == pytest.approx(true)


# Three sequences: two of episode 4 (1 and 3 said tokens), one of episode 7 (4 said tokens).
MASK_BT = torch.tensor([[0, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0, 1, 1, 1, 1]]).bool()
EPISODE_B = torch.tensor([4, 4, 7])
REPLY_BT = torch.tensor([[0, 0, 0, 0, 0], [0, 1, 1, 1, 0], [0, 5, 5, 5, 6]])


@pytest.mark.parametrize(
    ("aggregate", "each_B"),
    [
        ("token", [1 / 8, 1 / 8, 1 / 8]),
        # 1 / (4 replies * tokens of the reply: 1; 3; 3 and 1)
        ("turn", [1 / 4, 1 / 12, [1 / 12] * 4 + [1 / 4]]),
        # 1 / (2 episodes * 2 sequences * tokens); 1 / (2 * 1 * 4)
        ("sequence", [1 / 4, 1 / 12, 1 / 8]),
        ("constant", [1 / 20, 1 / 20, 1 / 20]),  # 1 / (2 episodes * 10)
    ],
)
def test_the_weight_of_a_token_by_hand(aggregate, each_B):
    weight_BT = compute_token_weights(MASK_BT, REPLY_BT, EPISODE_B, aggregate, constant=10)
    wanted = torch.stack([torch.tensor(each).expand(5) for each in each_B]) * MASK_BT
    assert torch.allclose(weight_BT, wanted)
    nothing = compute_token_weights(MASK_BT & False, REPLY_BT, EPISODE_B, aggregate, constant=10)
    assert torch.equal(nothing, torch.zeros(MASK_BT.shape))
    no_rows = compute_token_weights(MASK_BT[:0], REPLY_BT[:0], EPISODE_B[:0], aggregate)
    assert no_rows.shape == (0, MASK_BT.shape[1])


# Two said tokens of one reply each: likelier by a factor of 2 and good, less likely by a half, bad.
PART = weigh(
    Prepared(
        id_BT=torch.zeros((1, 2), dtype=torch.int64),
        action_mask_BT=torch.tensor([[True, True]]),
        sampled_BT=t(log(0.1), log(0.4)),
        reply_BT=torch.tensor([[0, 1]]),
        length_B=np.array([2]),
        dialogue_B=np.array([0]),
        moment_B=np.array([0]),
        old_BT=t(log(0.2), log(0.4)),
        advantage_BT=t(1.0, -1.0),
        value_BT=t(0.0, 0.0),
        return_BT=t(1.0, 3.0),
        reference_BT=t(log(0.2), log(0.2)),
        loss_weight_BT=t(0.0, 0.0),
        metric_weight_BT=t(0.0, 0.0),
        pairs=Pairs(np.array([0]), np.array([1]), np.array([3.0])),
        pair_weight_P=np.zeros(1),
    ),
    TrainConfig(),
)
SCORED = TokenScores(t(log(0.4), log(0.2)), t(0.6, 1.0), None)


def loss_of(scored=SCORED, part=PART, **options):
    """Of two steps an iteration, so that ratios are not 1, unless told otherwise."""
    config = TrainConfig(**{"kl": 0.0, "minibatches": 2, "dtype": "float32", **options})
    return compute_loss(scored, part, config)


def test_a_policys_loss_and_its_metrics_by_hand():
    # surrogates -1.2 and 0.8, mean -0.2
    loss, parts = loss_of()
    assert loss.item() == pytest.approx(-0.2)
    assert parts["entropy"].item() == pytest.approx(0.8)
    assert parts["clip_fraction"].item() == 1
    assert parts["kl"].item() == pytest.approx((2 - 1 - log(2) + 0.5 - 1 - log(0.5)) / 2)


WEIGHED = (-1.5 * log(0.4) + 0.5 * log(0.2)) / 2
CLIPPED = {"clip_low": 1.0, "clip_high": 0.5}
RISE = log(0.4 / 0.2) - log(0.2 / 0.2)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"entropy": 0.5}, -0.2 - 0.5 * 0.8),
        ({"tis_cap": 1.5, "dtype": "bfloat16"}, (-1.2 * 1.5 + 0.8) / 2),
        ({"clip_low": 0.6}, (-1.2 + 0.5) / 2),  # the other bound stays the algorithm's own
        ({"clip_high": 0.5}, (-1.5 + 0.8) / 2),
        # the first token has become twice as likely: its divergence counts twice
        ({"kl": 2.0}, -0.2 + 2 * 2 * (0.5 - 1 + log(2)) / 2),
        ({"minibatches": 1}, 0.0),  # no ratio differs from 1 before the only step
        ({"algo": "dapo"}, (-1.28 + 0.8) / 2),
        ({"algo": "gspo"}, 0.0),  # the ratio of the sequence is 1
        ({"algo": "cispo", **CLIPPED}, WEIGHED),
        ({"algo": "cispo", **CLIPPED, "compare": "replies"}, WEIGHED),
        ({"algo": "rft"}, (-log(0.4) + log(0.2)) / 2),
        ({"algo": "dpo", "beta": 0.5}, log(1 + exp(-0.5 * RISE)) - 0.1 * log(0.4)),
    ],
)
def test_each_choice_changes_the_loss_as_it_should(options, wanted):
    assert loss_of(**options).loss.item() == pytest.approx(wanted)


def test_a_critics_loss_is_that_of_its_values():
    scored = TokenScores(None, None, t(0.25, 0.25))
    wanted = (0.75**2 / 2 + 2.75**2 / 2) / 2
    assert loss_of(scored, algo="ppo").loss.item() == pytest.approx(wanted)


@pytest.mark.parametrize("algo", [name for name in ALGORITHMS if name != "dpo"])
def test_before_the_first_update_every_algorithm_has_the_gradient_of_reinforce(algo):
    logprob_BT = t(log(0.4), log(0.2)).requires_grad_()
    scored = TokenScores(logprob_BT, t(0.0, 0.0), None)
    part = replace(PART, old_BT=logprob_BT.detach())
    for steps in (1, 2):
        logprob_BT.grad = None
        loss_of(scored, part, algo=algo, minibatches=steps).loss.backward()
        same(logprob_BT.grad, -0.5, 0.5)


def test_pairs_weigh_by_their_distance_and_add_up_to_1():
    pairs = Pairs(np.array([0, 1, 9]), np.array([1, 0, 8]), np.array([3.0, 1.0, 7.0]))
    weighed = weigh(replace(PART, pairs=pairs), TrainConfig(algo="dpo"))
    assert weighed.pair_weight_P.tolist() == [0.75, 0.25, 0.0], "the last is of another minibatch"
