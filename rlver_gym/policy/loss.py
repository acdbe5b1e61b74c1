"""The terms of the losses, one value for each said token. Pure: `weights` says how much each counts, `update` adds them up.

Axes: B sequences, T tokens. Every input is 0 where nothing was said. Log-probabilities are in nats; `old` is the policy before the update.
"""

import math
from typing import Literal

import torch
from torch import Tensor

Estimator = Literal["k1", "k2", "k3"]


def token_ratio(logprob_BT: Tensor, old_BT: Tensor) -> Tensor:
    """How much likelier each token has become: 1 before the first update."""
    return (logprob_BT - old_BT).exp()


def sequence_ratio(logprob_BT: Tensor, old_BT: Tensor, said_BT: Tensor) -> Tensor:
    """How much likelier a sequence has become, as the geometric mean over its said tokens, at each of its tokens. Each token's gradient flows through
    its own probability, so that turns of a sequence may have advantages of their own (GSPO-token, arXiv:2507.18071, 4.3)."""
    said_B1 = said_BT.sum(1, keepdim=True).clamp(min=1)
    ratio_B1 = ((logprob_BT - old_BT).sum(1, keepdim=True) / said_B1).exp().detach()
    return ratio_B1 * (logprob_BT - logprob_BT.detach()).exp()


def clipped(ratio_BT: Tensor, advantage_BT: Tensor, low: float = 0.2, high: float = 0.2) -> Tensor:
    """PPO's clipped surrogate (arXiv:1707.06347, eq. 7), to be minimised. `low` and `high` differ in DAPO's clip-higher (arXiv:2503.14476, 3.1)."""
    return -torch.minimum(ratio_BT * advantage_BT, ratio_BT.clamp(1 - low, 1 + high) * advantage_BT)


def cispo(logprob_BT: Tensor, ratio_BT: Tensor, advantage_BT: Tensor, low: float = 1.0, high: float = 0.2) -> Tensor:
    """REINFORCE weighted with the clipped ratio, through which no gradient flows, so that no token is left out (arXiv:2506.13585, eq. 4 and 5)."""
    return -ratio_BT.clamp(1 - low, 1 + high).detach() * advantage_BT * logprob_BT


def truncated_importance(old_BT: Tensor, sampled_BT: Tensor, cap: float = 2.0) -> Tensor:
    """What a token's term is worth when another program sampled it than the one that learns: learner's over sampler's probability, truncated at
    `cap` (TIS; Ionides 2008, doi:10.1198/106186008X320456; apart from PPO's ratio, as in arXiv:2110.00641). No gradient."""
    return (old_BT - sampled_BT).exp().clamp(max=cap).detach()


def sequence_mask(old_BT: Tensor, sampled_BT: Tensor, said_BT: Tensor, cap: float = 2.0) -> Tensor:
    """1 for the tokens of a sequence whose probability ratio, learner over sampler, lies within [1/cap, cap] as the geometric mean over its tokens; else 0. No gradient."""
    said_B1 = said_BT.sum(1, keepdim=True).clamp(min=1)
    gap_B1 = ((old_BT - sampled_BT) * said_BT).sum(1, keepdim=True) / said_B1
    return (gap_B1.abs() <= math.log(cap)).float().expand_as(old_BT).detach()


def divergence(logprob_BT: Tensor, reference_BT: Tensor, estimator: Estimator = "k3") -> Tensor:
    """Estimates KL(policy || reference) from tokens of the policy (J. Schulman, joschu.net/blog/kl-approx.html; k3 as in arXiv:2402.03300, eq. 4).

    k1 is unbiased but can be negative, and its gradient is 0 on average: it belongs into the reward, not into a loss. k2 is small in variance,
    k3 unbiased and never negative.
    """
    logratio_BT = logprob_BT - reference_BT
    if estimator == "k1":
        return logratio_BT
    if estimator == "k2":
        return logratio_BT**2 / 2
    return (-logratio_BT).exp() - 1 + logratio_BT


def value_loss(value_BT: Tensor, old_BT: Tensor, return_BT: Tensor, clip: float | None = None) -> Tensor:
    """Half the squared error; with `clip`, the worse of it and that of the value kept within ± clip of the old one (as in OpenAI's PPO;
    arXiv:2005.12729, section 3)."""
    loss_BT = (value_BT - return_BT) ** 2
    if clip is not None:
        kept_BT = old_BT + (value_BT - old_BT).clamp(-clip, clip)
        loss_BT = torch.maximum(loss_BT, (kept_BT - return_BT) ** 2)
    return loss_BT / 2


def outside(ratio_BT: Tensor, low: float, high: float) -> Tensor:
    """1 where the ratio lies outside of its bounds: its mean is the clip fraction."""
    return ((ratio_BT < 1 - low) | (ratio_BT > 1 + high)).float()
