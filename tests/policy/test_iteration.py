"""Packing, preparing and learning with a real model of 20,000 weights, made on the spot."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_policy import FAMILIES, SIZES, eight_dialogues, played, sequence, tiny, trying
from transformers import Qwen2Config, Qwen2ForCausalLM

from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.iteration import compute_loss, compute_rewards, prepare
from rlver_gym.policy.learning import micro_batches, steps
from rlver_gym.policy.learning.algorithms import compute_overlong_penalty, explained_variance
from rlver_gym.policy.learning.micro_batches import MicroBatch, split_into_micro_batches
from rlver_gym.policy.learning.persona_baseline import PersonaBaseline
from rlver_gym.policy.learning.rollouts import pack_rollouts
from rlver_gym.policy.learning.steps import (
    accumulate_gradients,
    make_optimizer,
    set_learning_rates,
    take_steps,
    weigh,
)
from rlver_gym.policy.models import actor as actor_module
from rlver_gym.policy.models.actor import Actor, Critic, Models, make_reference_without_adapters
from rlver_gym.policy.models.prefixes import build_prefix_trees
from rlver_gym.policy.models.trajectory import ignore_progress
from rlver_gym.util.errors import TrainingError


def make_options(**options):
    """Two steps an iteration, no reference and no sampler of its own unless told otherwise."""
    return TrainConfig(
        **{"kl": 0.0, "minibatches": 2, "dtype": "float32", "max_sampler_kl": None, **options}
    )


ONE_STEP = make_options(minibatches=1)
TWO_PASSES = make_options(minibatches=1, epochs=2)


@pytest.fixture
def dialogues():
    return eight_dialogues()


@pytest.fixture
def rollouts(dialogues):
    return pack_rollouts(dialogues)


@pytest.fixture
def tokens(rollouts):
    return rollouts.tokens


def learn(prepared, models, optimizer, config=TWO_PASSES):
    rng = np.random.default_rng(0)
    return take_steps(prepared, models, config, ignore_progress, optimizer, rng, compute_loss)


def whole_logprobs(model, id_BT, action_mask_BT, temperature=1.0):
    logits_BTV = model(input_ids=id_BT).logits[:, :-1] / temperature
    logprob_BT = logits_BTV.log_softmax(-1).gather(-1, id_BT[:, 1:, None]).squeeze(-1)
    entropy_BT = torch.distributions.Categorical(logits=logits_BTV).entropy()
    pad = torch.zeros(len(id_BT), 1)
    return torch.cat([pad, logprob_BT], 1) * action_mask_BT, torch.cat(
        [pad, entropy_BT], 1
    ) * action_mask_BT


def gradients(module):
    return {
        name: weight.grad.clone()
        for name, weight in module.named_parameters()
        if weight.grad is not None
    }


def test_what_was_tried_stands_before_what_was_said_and_is_a_reply_of_its_own():
    dialogue = trying(np.random.default_rng(0), turns=2, tried=2)
    rollouts = pack_rollouts([dialogue, played(np.random.default_rng(1), turns=1)])
    assert rollouts.tokens.reply_BT.amax(1).tolist() == [2, 3, 0, 4, 5, 1, 6]
    assert rollouts.tokens.moment_B.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert rollouts.moment_R.tolist() == [0, 1, 0, 0, 1, 1, 2]
    assert rollouts.is_said_R.tolist() == [True, True, False, False, False, False, True]
    assert rollouts.reward_R[:2].tolist() == dialogue.reward_N.tolist()
    assert rollouts.reward_R[2:6].tolist() == [one.reward for one in dialogue.alternatives]
    said = np.bincount(rollouts.tokens.reply_S)
    assert rollouts.tokens_R.tolist() == said.tolist()


def test_rollouts_hold_the_sampled_tokens_as_they_were(dialogues, tokens):
    sequences = [one for dialogue in dialogues for one in dialogue.sequences]
    for row, one in enumerate(sequences):
        length = tokens.length_B[row]
        assert tokens.id_BT[row, :length].tolist() == one.id_T.tolist()
        assert tokens.action_mask_BT[row, :length].tolist() == one.action_mask_T.tolist()
        assert not tokens.action_mask_BT[row, length:].any()
    numbers = np.arange(len(tokens.reply_S), dtype=float)
    assert tokens.at_actions(tokens.scatter(numbers)).tolist() == numbers.tolist()


def test_dialogues_that_broke_off_or_stayed_silent_are_left_out_and_overflown_ones_are_not(
    dialogues,
):
    rng = np.random.default_rng(1)
    spoken = sequence(rng, 1)
    silent = replace(spoken, action_mask_T=np.zeros_like(spoken.action_mask_T))
    overflown = replace(dialogues[0], context_overflow=True)
    left_out = played(rng, valid=False), played(rng, turns=1, sequences=(silent,))
    rollouts = pack_rollouts([left_out[0], overflown, *dialogues[1:], left_out[1]])
    assert (len(rollouts.group_D), rollouts.num_skipped) == (8, 2)
    wanted = pack_rollouts(dialogues)
    assert rollouts.tokens.dialogue_B.tolist() == wanted.tokens.dialogue_B.tolist()
    assert rollouts.reward_R.tolist() == wanted.reward_R.tolist()


def make_many_tokens(turns=1):
    rng = np.random.default_rng(0)
    return pack_rollouts(
        [played(rng, turns=turns + at % 5, thinks=True) for at in range(20)]
    ).tokens


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_micro_batches_hold_every_row_once_within_the_budget_and_cut_no_moment(ranks):
    rng = np.random.default_rng(0)
    tokens = pack_rollouts([trying(rng, turns=4, tried=3) for _ in range(6)]).tokens
    parts = [list(split_into_micro_batches(tokens, 60, rank, ranks)) for rank in range(ranks)]
    assert len({len(part) for part in parts}) == 1
    real = [share for part in parts for share in part if not share.is_dummy]
    assert sorted(row for share in real for row in share.rows) == list(range(len(tokens.length_B)))
    for share in real:
        part, moments = tokens.take(share.rows), np.unique(tokens.moment_B[share.rows])
        assert np.isin(tokens.moment_B, moments).sum() == len(share.rows)
        trees = build_prefix_trees(part.id_BT, part.length_B, share.tree_B)
        assert trees.id_DL.numel() <= 60 or len(moments) == 1
    assert len(real) > 6, "dialogues are cut"


def test_a_process_without_rows_keeps_step():
    tokens = pack_rollouts([played(np.random.default_rng(0), turns=1)]).tokens
    parts = [list(split_into_micro_batches(tokens, 100, rank, 3)) for rank in range(3)]
    assert [[share.is_dummy for share in part] for part in parts] == [[False], [True], [True]]


@pytest.mark.parametrize("ranks", [2, 4])
def test_processes_get_about_equally_much(ranks):
    tokens = make_many_tokens(turns=8)
    for most in (200, 2_000):
        hands = [list(split_into_micro_batches(tokens, most, rank, ranks)) for rank in range(ranks)]
        passed = [sum(tokens.length_B[one.rows].sum() for one in hand) for hand in hands]
        assert max(passed) < 1.3 * np.mean(passed)


def test_what_only_keeps_step_counts_for_nothing(rollouts, monkeypatch):
    config = make_options(microbatch_tokens=100)

    def measure():
        models = Models(Actor(tiny()))
        prepared, _ = prepare(rollouts, models, config)
        return prepared.old_BT, learn(prepared, models, make_optimizer(models), config)

    wanted_BT, wanted = measure()
    dummy = MicroBatch(np.array([0, 3]), np.array([0, 1]), is_dummy=True)
    for module in (micro_batches, steps):
        monkeypatch.setattr(
            module,
            "split_into_micro_batches",
            lambda *how: [*split_into_micro_batches(*how), dummy],
        )
    old_BT, metrics = measure()
    assert torch.equal(old_BT, wanted_BT)
    assert metrics == pytest.approx(wanted, abs=1e-7)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunk", [None, 7])
def test_log_probabilities_are_those_of_the_whole_model(family, chunk, tokens, monkeypatch):
    if chunk:
        monkeypatch.setattr(actor_module, "LOGITS_AT_ONCE", 60 * chunk)
    model = tiny(family)
    scored = Actor(model)(tokens.id_BT, tokens.action_mask_BT, 0.7)
    logprob_BT, entropy_BT = whole_logprobs(model, tokens.id_BT, tokens.action_mask_BT, 0.7)
    assert torch.allclose(scored.logprob_BT, logprob_BT, atol=1e-5)
    assert torch.allclose(scored.entropy_BT, entropy_BT, atol=1e-5)
    scored.logprob_BT.sum().backward()
    ours = gradients(model)
    model.zero_grad()
    logprob_BT.sum().backward()
    assert all(
        torch.allclose(ours[name], theirs, atol=1e-4) for name, theirs in gradients(model).items()
    )


def test_nothing_of_the_vocabularys_size_is_made_for_a_prompt(tokens, monkeypatch):
    sizes = []
    model = tiny()
    model.lm_head.register_forward_hook(lambda module, given, made: sizes.append(made.shape[0]))
    monkeypatch.setattr(actor_module, "LOGITS_AT_ONCE", 60 * 16)
    actor = Actor(model)
    sizes.clear()
    actor(tokens.id_BT, tokens.action_mask_BT)
    assert max(sizes) <= 16
    assert sum(sizes) == tokens.action_mask_BT.sum()


def test_a_model_that_reworks_its_logits_is_refused():
    class Capped(Qwen2ForCausalLM):
        def forward(self, *args, **kwargs):
            made = super().forward(*args, **kwargs)
            made.logits = 30 * torch.tanh(made.logits / 30) + 1
            return made

    with pytest.raises(TrainingError, match="changes its logits"):
        Actor(Capped(Qwen2Config(**SIZES)))


def test_what_is_no_language_model_is_refused():
    with pytest.raises(TrainingError, match="AutoModelForCausalLM"):
        Actor(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("budget", [10_000, 64])
@pytest.mark.parametrize(
    "options", [{"algo": "ppo"}, {"advantage": "turn"}, {"algo": "ppo", "compare": "replies"}]
)
def test_before_the_first_update_the_ratio_is_exactly_1(rollouts, options, budget):
    config = make_options(**options, minibatches=1, epochs=2, microbatch_tokens=budget)
    models = Models(Actor(tiny()), Critic(tiny()) if config.algorithm.has_critic else None)
    prepared, _ = prepare(rollouts, models, config)
    metrics = accumulate_gradients(weigh(prepared, config), models, config, compute_loss)
    assert (metrics["kl"], metrics["clip_fraction"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    "options",
    [
        *({"aggregate": aggregate} for aggregate in ("token", "turn", "sequence", "constant")),
        {"algo": "gspo"},
        {"algo": "dpo", "tried": 3},
        {"compare": "replies", "tried": 3},
        {"algo": "ppo", "compare": "replies", "tried": 3},
    ],
)
def test_pieces_give_the_gradient_of_the_whole(options):
    options = dict(options)
    rng, tried = np.random.default_rng(0), options.pop("tried", 0)
    dialogues = (
        [trying(rng, turns=3, tried=tried) for _ in range(3)] if tried else eight_dialogues()
    )
    rollouts = pack_rollouts(dialogues)
    critic = Critic(tiny(seed=2).double()).double() if options.get("algo") == "ppo" else None
    models = Models(Actor(tiny().double()), critic, Actor(tiny(seed=1).double()))
    both, results = torch.nn.ModuleList(models.learners.values()), []
    for budget in (100_000, 100, 64):
        config = make_options(**{"kl": 0.1, "entropy": 0.01, **options}, microbatch_tokens=budget)
        prepared, _ = prepare(rollouts, models, config)
        both.zero_grad()
        metrics = accumulate_gradients(weigh(prepared, config), models, config, compute_loss)
        results.append((gradients(both), metrics))
    for grads, metrics in results[1:]:
        for name, whole in results[0][0].items():
            assert torch.allclose(grads[name], whole, rtol=1e-5, atol=1e-8), name
        assert metrics == pytest.approx(results[0][1], rel=1e-5, abs=1e-7)


def test_a_critic_of_its_own_learns_at_its_own_rate(rollouts):
    config = make_options(algo="ppo", minibatches=1, epochs=2, value_clip=None)
    models = Models(Actor(tiny()), Critic(tiny(seed=1)))
    prepared, before = prepare(rollouts, models, config)
    assert before["value_mean"] == 0.0
    optimizer = make_optimizer(models, lr=1e-6, critic_lr=1e-2)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-6, 1e-2]
    losses = [learn(prepared, models, optimizer, config)["value_loss"] for _ in range(10)]
    assert losses[-1] < losses[0] / 2
    _, after = prepare(rollouts, models, config)
    assert after["explained_variance"] > before["explained_variance"]


def test_what_is_expected_of_whom_is_a_part_of_the_values_and_is_learned(dialogues):
    who = np.array(["anna", "ben"] * 4)
    rollouts = pack_rollouts(
        [replace(one, info={"persona": name}) for one, name in zip(dialogues, who, strict=True)]
    )
    config = make_options(algo="ppo", gamma=0.5, gae_lambda=0.9)
    # A critic guesses 0 before it has learned.
    models = Models(Actor(tiny()), Critic(tiny(seed=1)))
    baseline = PersonaBaseline({"anna": (9, 2.5)})
    plain, _ = prepare(rollouts, models, config)
    prepared, metrics = prepare(rollouts, models, config, ignore_progress, baseline)
    dialogue_S = rollouts.dialogue_R[rollouts.tokens.reply_S]
    expected_S = np.where(who[dialogue_S] == "anna", 2.5, 0.0)
    is_ben_S = who[dialogue_S] == "ben"
    return_S = prepared.at_actions(prepared.return_BT)
    assert return_S[is_ben_S] == pytest.approx(
        plain.at_actions(plain.return_BT)[is_ben_S], abs=1e-5
    )
    assert return_S[~is_ben_S] != pytest.approx(
        plain.at_actions(plain.return_BT)[~is_ben_S], abs=1e-2
    )
    foreseen = explained_variance(expected_S, return_S + expected_S)
    assert metrics["explained_variance"] == pytest.approx(foreseen, abs=1e-5)
    assert baseline.state["anna"][0] == 13
    assert baseline.state.keys() == {"anna", "ben"}


@pytest.mark.parametrize(
    ("iterations", "how", "wanted"),
    [
        (10, {"warmup": 4}, [0.25, 0.5, 0.75, 1.0, 1.0]),
        (4, {"warmup": 2, "anneal": True}, [0.5, 0.7, 0.4, 0.1]),
    ],
)
def test_learning_rates_rise_in_equal_steps_and_fall_to_a_tenth(iterations, how, wanted):
    config = make_options(iterations=iterations, **how)
    optimizer = make_optimizer(Models(Actor(tiny())), lr=1.0)
    rates = []
    for iteration in range(len(wanted)):
        set_learning_rates(optimizer, iteration, config)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx(wanted)


def test_each_step_forgets_the_gradient_of_the_one_before(rollouts):
    once, by_hand = Models(Actor(tiny())), Models(Actor(tiny()))
    prepared, _ = prepare(rollouts, once, TWO_PASSES)
    learn(prepared, once, torch.optim.SGD(once.actor.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(by_hand.actor.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        accumulate_gradients(weigh(prepared, TWO_PASSES), by_hand, TWO_PASSES, compute_loss)
        torch.nn.utils.clip_grad_norm_(by_hand.actor.parameters(), 1.0)
        optimizer.step()
    for name, weight in once.actor.state_dict().items():
        assert torch.allclose(weight, by_hand.actor.state_dict()[name], atol=1e-6), name


def test_learning_stops_once_the_policy_has_moved_too_far(rollouts):
    models, config = Models(Actor(tiny())), make_options(minibatches=1, epochs=5, target_kl=1e-4)
    prepared, _ = prepare(rollouts, models, config)
    metrics = learn(prepared, models, make_optimizer(models, lr=1e-2), config)
    assert (metrics["stopped"], metrics["steps"]) == (1, 1)


def test_a_loss_that_is_not_a_number_changes_nothing(rollouts):
    models = Models(Actor(tiny()))
    before = copy.deepcopy(models.actor.state_dict())
    prepared, _ = prepare(rollouts, models, TWO_PASSES)
    prepared.advantage_BT[prepared.action_mask_BT] = float("nan")
    with pytest.raises(TrainingError, match=r"policy_loss, actor_gradient became NaN"):
        learn(prepared, models, make_optimizer(models, lr=1.0))
    for name, weight in models.actor.state_dict().items():
        assert torch.equal(weight, before[name])


def test_groups_without_signal_are_left_out_by_what_is_compared():
    # flat by any comparison; equal totals earned at other turns; different totals
    rewards = ((2, 2), (2, 2)), ((1, 3), (3, 1)), ((1, 3), (2, 3))
    rng, models = np.random.default_rng(5), Models(Actor(tiny()))
    earned = [(group, np.float32(one)) for group, pair in enumerate(rewards) for one in pair]
    made = [played(rng, group, turns=2, reward_N=reward_N) for group, reward_N in earned]
    for advantage, left, share in (("episode", [4, 5], 2 / 3), ("centred", [2, 3, 4, 5], 1 / 3)):
        config = make_options(algo="dapo", advantage=advantage)
        prepared, metrics = prepare(pack_rollouts(made), models, config)
        assert np.unique(prepared.dialogue_B).tolist() == left
        assert metrics["flat_groups"] == pytest.approx(share)
    nothing, _ = prepare(pack_rollouts(made[:4]), models, make_options(algo="dapo"))
    assert learn(nothing, models, make_optimizer(models)) == {"steps": 0, "stopped": 0}
    assert math.isnan(prepare(pack_rollouts([]), models, ONE_STEP)[1]["return_mean"])


def test_the_gap_to_the_sampler_is_measured_and_a_stranger_is_refused_before_the_first_step(
    rollouts,
):
    models = Models(Actor(tiny()))
    prepared, _ = prepare(rollouts, models, TWO_PASSES)
    for shift, gap in ((0.0, 0.0), (-0.1, math.exp(0.1) - 1.1)):
        sampled_BT = prepared.old_BT + shift * prepared.action_mask_BT
        shifted = replace(prepared, sampled_BT=sampled_BT)
        found = learn(shifted, models, make_optimizer(models, lr=0.0))
        assert found["sampler_kl"] == pytest.approx(gap, abs=1e-6)
    before = copy.deepcopy(models.actor.state_dict())
    stranger = replace(prepared, sampled_BT=prepared.old_BT - 0.5 * prepared.action_mask_BT)
    with pytest.raises(TrainingError, match=r"KL\(sampler \|\| learner\) is 0.149"):
        learn(stranger, models, make_optimizer(models), make_options(max_sampler_kl=0.1))
    for name, value in models.actor.state_dict().items():
        assert torch.equal(value, before[name])


def test_with_one_step_the_policy_is_asked_once_and_learns_the_same(rollouts):
    learned = []
    for options in ({"minibatches": 1}, {"minibatches": 1, "epochs": 2}):
        models, passes = Models(Actor(tiny())), []
        models.actor.register_forward_hook(lambda *_, passes=passes: passes.append(1))
        config = make_options(**options, microbatch_tokens=10_000, max_sampler_kl=None)
        prepared, _ = prepare(rollouts, models, config)
        assert bool(passes) == (not config.has_one_step)
        learned.append(accumulate_gradients(weigh(prepared, config), models, config, compute_loss))
        learned.append(gradients(models.actor))
    once, once_gradients, twice, twice_gradients = learned
    assert once == pytest.approx(twice, abs=1e-6)
    for name, gradient in once_gradients.items():
        assert torch.allclose(gradient, twice_gradients[name], atol=1e-6), name


def test_an_entropy_without_weight_is_outside_of_the_graph(tokens):
    actor = Actor(tiny())
    for learns in (True, False):
        scored = actor(tokens.id_BT, tokens.action_mask_BT, 1.0, learns)
        assert scored.entropy_BT.requires_grad == learns
        assert scored.logprob_BT.requires_grad


def test_a_reply_near_the_limit_costs_in_a_line(rollouts):
    longest = int(rollouts.tokens_R.max())
    cost_R = compute_overlong_penalty(rollouts.tokens_R, longest, 2)
    assert set(cost_R[rollouts.tokens_R == longest]) == {1.0}
    assert set(cost_R[rollouts.tokens_R == longest - 1]) <= {0.5}
    assert cost_R[rollouts.tokens_R < longest - 1].sum() == 0
    assert compute_overlong_penalty(rollouts.tokens_R, longest, 0).sum() == 0
    costly = make_options(overlong_tokens=2, overlong_cost=3.0, max_reply_tokens=longest)
    apart_R = compute_rewards(rollouts, make_options()) - compute_rewards(rollouts, costly)
    assert apart_R == pytest.approx(0.01 * 3 * cost_R)


@pytest.mark.filterwarnings(
    "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"
)  # peft's
def test_the_base_below_adapters_is_a_reference(rollouts):
    peft = pytest.importorskip("peft", reason="adapters need peft: pip install '.[lora]'")
    base = tiny()
    tokens = rollouts.tokens
    before = Actor(base)(tokens.id_BT, tokens.action_mask_BT).logprob_BT.detach()
    adapters = peft.LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM")
    actor = Actor(peft.get_peft_model(base, adapters))
    models = Models(actor, None, make_reference_without_adapters(actor))
    config = make_options(kl=0.1)
    prepared, _ = prepare(rollouts, models, config)
    assert torch.equal(prepared.old_BT, prepared.reference_BT)
    learn(prepared, models, make_optimizer(models, lr=1e-2), config)
    prepared, _ = prepare(rollouts, models, config)
    assert torch.allclose(prepared.reference_BT, before, atol=1e-5)
    assert not torch.allclose(prepared.old_BT, before, atol=1e-3)


def test_a_policy_without_adapters_has_no_base():
    with pytest.raises(TrainingError, match="second model"):
        make_reference_without_adapters(Actor(tiny()))


def test_half_precision_stays_close(tokens):
    model = tiny()
    full, use_bf16 = (
        Actor(model, use_bf16=use_bf16)(tokens.id_BT, tokens.action_mask_BT).logprob_BT
        for use_bf16 in (False, True)
    )
    assert use_bf16.dtype == torch.float32
    assert torch.allclose(full, use_bf16, atol=0.05)
    assert not torch.equal(full, use_bf16)
