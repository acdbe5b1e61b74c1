"""One iteration of learning, from top to bottom: rollouts, rewards, advantages, loss, step.

The equations stand in `learning/algorithms.py`, what an algorithm takes of them in
`learning/registry.py`. Departures from the papers:

- Rewards belong to replies, and GAE counts its discounts from turn to turn, not by token.
- GRPO's mean is over replies, and its standard deviation has a floor; where replies to one moment
  are compared, nothing divides. PPO's advantages are whitened; its critic has weights of its own.
- DAPO draws no new groups for those that tell nothing. Dr.GRPO and RLOO clip the ratio.
- DPO's pairs are the policy's own and count by how far they lie apart, with the better reply's
  cross-entropy a token beside them. RFT learns from winners as they come, without a data set.
- Replies of a corpus were sampled by whomever: nothing weighs them by that sampler's probability.
- The divergence from the start is in the loss, weighed by the ratio. There is no weight decay.
"""

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.learner import Learner
from rlver_gym.policy.learning import algorithms as maths
from rlver_gym.policy.learning.algorithms import Advantages, Floats
from rlver_gym.policy.learning.metrics import compute_metrics
from rlver_gym.policy.learning.micro_batches import score_with_models
from rlver_gym.policy.learning.persona_baseline import PersonaBaseline
from rlver_gym.policy.learning.rollouts import Prepared, Rollouts, drop_flat_groups, pack_rollouts
from rlver_gym.policy.learning.signal import measure_critic, measure_rewards
from rlver_gym.policy.learning.steps import Loss, set_learning_rates, take_steps
from rlver_gym.policy.models.actor import Models, TokenScores
from rlver_gym.policy.models.trajectory import OnProgress, Trajectory, ignore_progress


class Iteration(NamedTuple):
    """What one round of rollouts and learning gave; the seed decides all but the times."""

    number: int
    trajectories: list[Trajectory]
    metrics: dict[str, float]
    times: dict[str, float]


def train(learner: Learner) -> Iterator[Iteration]:
    """The iterations that are left; the learner has learned each when it is yielded."""
    while learner.iteration < learner.config.iterations:
        yield _run_iteration(learner)


def _run_iteration(learner: Learner) -> Iteration:
    config, clock = learner.config, [time.perf_counter()]
    trajectories = learner.collect()
    clock.append(time.perf_counter())
    rollouts = pack_rollouts(trajectories)
    how = learner.models, config, learner.on_progress
    prepared, signal = prepare(rollouts, *how, learner.persona_baseline)
    clock.append(time.perf_counter())
    set_learning_rates(learner.optimizer, learner.iteration, config)
    deals = np.random.default_rng((config.seed, learner.iteration))
    steps = take_steps(prepared, *how, learner.optimizer, deals, compute_loss)
    clock.append(time.perf_counter())
    learner.iteration += 1
    stages = zip(("rollout_s", "prepare_s", "update_s"), np.diff(clock).tolist(), strict=True)
    times: dict[str, float] = dict(stages)
    times["tokens_per_s"] = float(rollouts.tokens_R.sum()) / (clock[-1] - clock[0])
    metrics = {**compute_metrics(trajectories), **signal, **steps}
    return Iteration(learner.iteration, trajectories, metrics, times)


def prepare(
    rollouts: Rollouts,
    models: Models,
    config: TrainConfig,
    on_progress: OnProgress = ignore_progress,
    baseline: PersonaBaseline | None = None,
) -> tuple[Prepared, dict[str, float]]:
    """All that the steps need, and metrics; the baseline adds to the critic's values and learns."""
    tokens, who_D = rollouts.tokens, rollouts.who_D
    reward_R = compute_rewards(rollouts, config)
    scores = score_with_models(tokens, models, config, on_progress)
    dialogue_S = rollouts.dialogue_R[tokens.reply_S]
    expected_D = np.zeros(len(who_D)) if baseline is None else baseline.of(who_D)
    value_S = tokens.at_actions(scores.value_BT) + expected_D[dialogue_S]
    advantages = compute_advantages(rollouts, reward_R, value_S, config)
    return_S, expected_S = advantages.return_S, expected_D[dialogue_S]
    prepared = Prepared.of(tokens, scores, advantages._replace(return_S=return_S - expected_S))
    metrics = measure_rewards(rollouts, reward_R, advantages, config.advantage_config)
    if models.critic is not None:
        metrics |= measure_critic(value_S, return_S)
    if baseline is not None and len(who_D):
        baseline.learn(who_D, maths.mean_by(dialogue_S, return_S - value_S, len(who_D)))
    if config.advantage_config.drop_flat:
        prepared = drop_flat_groups(prepared, rollouts, config.compares)
    return prepared, metrics


def compute_rewards(rollouts: Rollouts, config: TrainConfig) -> Floats:
    """reward_R as learned from: no gains of a broken format; scaled, unless a margin decides."""
    alone_R = np.arange(len(rollouts.reward_R))
    key_R = alone_R if config.compares == "replies" else rollouts.dialogue_R
    earned = rollouts.reward_R, rollouts.format_error_R, key_R, config.format_penalty
    limits = rollouts.tokens_R, config.max_reply_tokens, config.overlong_tokens
    reward_R = maths.penalise_format_errors(*earned)
    cost_R = config.overlong_cost * maths.compute_overlong_penalty(*limits)
    return (reward_R - cost_R) * (1.0 if config.algorithm.has_margin else config.reward_scale)


def compute_advantages(
    rollouts: Rollouts, reward_R: Floats, value_S: Floats, config: TrainConfig
) -> Advantages:
    """The advantage of every sampled token, and what its value should have been; for DPO pairs."""
    choice, reply_S = config.advantage_config, rollouts.tokens.reply_S
    if choice.kind == "gae":
        # Where replies are compared, nothing follows a reply: its advantage is r - V(state).
        episode_S = reply_S if choice.compare == "replies" else rollouts.dialogue_R[reply_S]
        reward_S, how = maths.place_rewards(reward_R, reply_S), (choice.gamma, choice.gae_lambda)
        estimate = maths.gae(reward_S, value_S, episode_S, reply_S, *how)
        whitened_S = maths.whiten(estimate.advantage_S)
        return estimate._replace(advantage_S=whitened_S) if choice.whiten else estimate
    rewards = reward_R, rollouts.dialogue_R, rollouts.turn_R, rollouts.group_D
    how = {"baseline": choice.baseline, "scale": choice.scale, "min_std": choice.min_std}
    moments = reward_R, rollouts.moment_R, ~rollouts.format_error_R, choice.margin
    if choice.kind == "pairs":
        nothing_S = np.zeros(len(reply_S))
        return Advantages(nothing_S, nothing_S, maths.find_pairs(*moments))
    if choice.kind == "winner":
        advantage_R = maths.find_winners(*moments)
    elif choice.kind == "reply":
        advantage_R = maths.group_relative(reward_R, rollouts.moment_R, **how)
    elif choice.kind == "episode":
        advantage_R = maths.compute_group_advantage_by_episode(*rewards, **how)
    else:
        gamma = choice.gamma if choice.kind == "turn" else 0.0
        advantage_R = maths.compute_group_advantage_by_turn(*rewards, gamma, **how)
    return Advantages(advantage_R[reply_S], np.zeros(len(reply_S)))


def compute_loss(scored: TokenScores, part: Prepared, config: TrainConfig) -> Loss:
    """The loss of sequences that pass together: the policy's, or the critic's for values."""
    weight_BT, logprob_BT, entropy_BT = part.loss_weight_BT, scored.logprob_BT, scored.entropy_BT
    if scored.value_BT is not None:
        targets = part.value_BT, part.return_BT, config.objective.value_clip
        loss = (weight_BT * maths.compute_value_loss(scored.value_BT, *targets)).sum()
        return Loss(loss, {"value_loss": loss})
    assert logprob_BT is not None  # a policy's scores, then
    assert entropy_BT is not None
    old_BT = logprob_BT.detach() if config.has_one_step else part.old_BT
    ratio_BT = maths.compute_token_ratio(logprob_BT, old_BT)
    means = {"entropy": entropy_BT, "kl": maths.estimate_kl_divergence(old_BT, logprob_BT)}
    if config.is_sampled:
        means["sampler_kl"] = maths.estimate_kl_divergence(part.sampled_BT, old_BT)
    loss, parts = _compute_surrogate(logprob_BT, old_BT, ratio_BT, part, config)
    if config.entropy:
        loss = loss - config.entropy * (weight_BT * entropy_BT).sum()
    if config.has_reference:
        apart_BT = maths.estimate_kl_divergence(logprob_BT, part.reference_BT)
        means["reference_kl"] = apart_BT
        # Unbiased only for tokens of the policy as it is: others weigh by their ratio
        # (arXiv:2512.02556, eq. 7).
        loss = loss + config.objective.kl * (weight_BT * ratio_BT * apart_BT).sum()
    parts |= {name: (part.metric_weight_BT * mean_BT).sum() for name, mean_BT in means.items()}
    return Loss(loss, parts)


def _compute_surrogate(
    logprob_BT: Tensor, old_BT: Tensor, ratio_BT: Tensor, part: Prepared, config: TrainConfig
) -> Loss:
    """What the policy minimises, but for entropy and divergence."""
    objective, mask_BT, advantage_BT = config.objective, part.action_mask_BT, part.advantage_BT
    if objective.surrogate == "preference":
        reply_BT, pairs = torch.where(mask_BT, part.reply_BT, -1), part.pairs
        how = part.reference_BT, reply_BT, pairs, objective.beta, objective.anchor
        of_pairs = maths.compute_preference_loss(logprob_BT, *how)
        weight_P = torch.from_numpy(part.pair_weight_P).to(logprob_BT)
        loss = (weight_P * of_pairs.loss_P).sum()
        accuracy = (weight_P * of_pairs.is_right_P).sum()
        return Loss(loss, {"policy_loss": loss, "pair_accuracy": accuracy})
    bounds = objective.clip_low, objective.clip_high
    if objective.ratio == "sequence":
        ratio_BT = maths.compute_sequence_ratio(logprob_BT, old_BT, mask_BT)
    if objective.surrogate == "cispo":
        loss_BT = maths.compute_cispo_loss(logprob_BT, ratio_BT, advantage_BT, *bounds)
    elif objective.surrogate == "likelihood":
        loss_BT = -advantage_BT * logprob_BT
    else:
        loss_BT = maths.clipped_surrogate(ratio_BT, advantage_BT, *bounds)
    if np.isfinite(objective.tis_cap):
        importance = part.sampled_BT, objective.tis_cap
        loss_BT = loss_BT * maths.compute_truncated_importance_weight(old_BT, *importance)
    is_clipped_BT = maths.find_clipped_ratios(ratio_BT, *bounds)
    clip_fraction = (part.metric_weight_BT * is_clipped_BT).sum()
    loss = (part.loss_weight_BT * loss_BT).sum()
    return Loss(loss, {"policy_loss": loss, "clip_fraction": clip_fraction})
