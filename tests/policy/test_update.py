"""Packing, scoring, judging and updating with a real model of 20,000 weights, made on the spot."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_policy import FAMILIES, SIZES, eight_dialogues, played, sequence, tiny
from transformers import Qwen2Config, Qwen2ForCausalLM

from rlver_gym.policy.learning import experience
from rlver_gym.policy.learning import update as update_module
from rlver_gym.policy.learning.algorithms import (
    compute_overlong_penalty,
    explained_variance,
    gae,
    place_rewards,
)
from rlver_gym.policy.learning.batch import MicroBatch, pack_batch, split_into_micro_batches
from rlver_gym.policy.learning.experience import PersonaBaseline, prepare_batch
from rlver_gym.policy.learning.registry import AdvantageConfig, Objective
from rlver_gym.policy.learning.update import (
    _accumulate_gradients,
    make_optimizer,
    run_optimizer_steps,
    set_learning_rates,
)
from rlver_gym.policy.models import actor as actor_module
from rlver_gym.policy.models.actor import Actor, Critic, make_reference_without_adapters
from rlver_gym.util.errors import TrainingError


@pytest.fixture
def dialogues():
    return eight_dialogues()


@pytest.fixture
def batch(dialogues):
    return pack_batch(dialogues)


def whole_logprobs(model, id_BT, action_mask_BT, temperature=1.0):
    logits_BTV = model(input_ids=id_BT).logits[:, :-1] / temperature
    logprob_BT = logits_BTV.log_softmax(-1).gather(-1, id_BT[:, 1:, None]).squeeze(-1)
    entropy_BT = torch.distributions.Categorical(logits=logits_BTV).entropy()
    pad = torch.zeros(len(id_BT), 1)
    return torch.cat([pad, logprob_BT], 1) * action_mask_BT, torch.cat(
        [pad, entropy_BT], 1
    ) * action_mask_BT


def learn(*given, **how):
    return run_optimizer_steps(*given, rng=np.random.default_rng(0), **how)


def gradients(module):
    return {
        name: weight.grad.clone()
        for name, weight in module.named_parameters()
        if weight.grad is not None
    }


@pytest.mark.parametrize(
    ("thinks", "turn_B", "rival_B"),
    [(False, [2, 2, 1, 0], [0, 1, 1, 1]), (True, [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])],
)
def test_rivals_stand_behind_what_they_lost_to_and_share_its_place(thinks, turn_B, rival_B):
    rng = np.random.default_rng(0)
    plain = played(rng, thinks=thinks)
    one = replace(plain, rivals=tuple(sequence(rng, 1, turn) for turn in range(3)))
    batch, without = pack_batch([one], with_rivals=True), pack_batch([one])
    assert batch.turn_BT.amax(1).tolist() == turn_B
    assert batch.rival_B.tolist() == [bool(is_rival) for is_rival in rival_B]
    assert (batch.reply_BT == batch.turn_BT.clamp(min=0)).all()
    assert (batch.tokens_DN == without.tokens_DN).all()
    assert not without.rival_B.any()


def test_a_batch_holds_the_sampled_tokens_as_they_were(dialogues, batch):
    sequences = [one for dialogue in dialogues for one in dialogue.sequences]
    for row, one in enumerate(sequences):
        length = batch.length_B[row]
        assert batch.id_BT[row, :length].tolist() == one.id_T.tolist()
        assert batch.action_mask_BT[row, :length].tolist() == one.action_mask_T.tolist()
        assert not batch.action_mask_BT[row, length:].any()
    assert batch.turn_S.tolist() == [
        turn for one in sequences for turn in one.turn_T[one.action_mask_T]
    ]
    assert batch.at_actions(
        batch.scatter(np.arange(len(batch.turn_S), dtype=float))
    ).tolist() == list(range(len(batch.turn_S)))


def test_dialogues_that_broke_off_stayed_silent_or_overflowed_are_left_out_and_counted(dialogues):
    rng = np.random.default_rng(1)
    full_params = sequence(rng, 1)
    silent = replace(full_params, action_mask_T=np.zeros_like(full_params.action_mask_T))
    overflowed = replace(dialogues[0], context_overflow=True)
    left_out = played(rng, valid=False), overflowed, played(rng, turns=1, sequences=(silent,))
    batch = pack_batch([*left_out[:2], *dialogues, left_out[2]])
    assert (batch.dialogues, batch.num_skipped) == (8, 3)
    assert batch.dialogue_B.tolist() == pack_batch(dialogues).dialogue_B.tolist()


def test_a_sequence_in_which_nothing_was_said_is_no_row_of_its_dialogue():
    rng = np.random.default_rng(1)
    spoken, silent, last = (sequence(rng, 1, turn) for turn in range(3))
    silent = replace(silent, action_mask_T=np.zeros_like(silent.action_mask_T))
    batch = pack_batch([played(rng, sequences=(spoken, silent, last)), played(rng, turns=1)])
    assert batch.dialogue_B.tolist() == [0, 0, 1]
    assert batch.length_B[:2].tolist() == [len(spoken.id_T), len(last.id_T)]


def test_a_part_of_a_batch_is_the_batch_of_a_part(dialogues, batch):
    keep_D = np.array([True, False, False, True, False, False, True, False])
    part, wanted = (
        batch.only(np.flatnonzero(keep_D)),
        pack_batch([one for one, keep in zip(dialogues, keep_D, strict=True) if keep]),
    )
    for name in ("id_BT", "action_mask_BT", "sampled_BT", "turn_BT"):
        assert torch.equal(getattr(part, name), getattr(wanted, name)), name
    for name in ("length_B", "dialogue_B", "group_D", "turns_D"):
        assert getattr(part, name).tolist() == getattr(wanted, name).tolist(), name
    assert part.reward_DN.sum(1).tolist() == wanted.reward_DN.sum(1).tolist()


def test_micro_batches_hold_every_row_once_within_the_budget():
    length_B = np.random.default_rng(0).integers(5, 100, 50)
    for ranks in (1, 2, 3):
        parts = [
            list(split_into_micro_batches(length_B, 300, rank, ranks)) for rank in range(ranks)
        ]
        assert len({len(part) for part in parts}) == 1
        rows = [
            row
            for part in parts
            for share in part
            if not share.is_dummy
            for row in share.dialogue_R
        ]
        assert sorted(rows) == list(range(50))
        assert all(
            len(s.dialogue_R) * length_B[s.dialogue_R].max() <= 300 for part in parts for s in part
        )


def test_a_process_without_rows_keeps_step():
    parts = [list(split_into_micro_batches(np.array([7]), 100, rank, 3)) for rank in range(3)]
    assert [[share.is_dummy for share in part] for part in parts] == [[False], [True], [True]]


def test_what_only_keeps_step_counts_for_nothing(batch, monkeypatch):
    def found():
        actor = Actor(tiny())
        judged = prepare_batch(batch, actor, tokens=100)
        return judged.old_BT, learn(judged, actor, make_optimizer(actor), tokens=100)

    wanted_BT, wanted = found()
    monkeypatch.setattr(
        experience,
        "split_into_micro_batches",
        lambda *how: [*split_into_micro_batches(*how), MicroBatch(np.array([0, 3]), is_dummy=True)],
    )
    monkeypatch.setattr(
        update_module, "split_into_micro_batches", experience.split_into_micro_batches
    )
    old_BT, metrics = found()
    assert torch.equal(old_BT, wanted_BT)
    assert metrics == pytest.approx(wanted, abs=1e-7)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunk", [None, 7])
def test_log_probabilities_are_those_of_the_whole_model(family, chunk, batch, monkeypatch):
    if chunk:
        monkeypatch.setattr(actor_module, "LOGITS_AT_ONCE", 60 * chunk)
    model = tiny(family)
    scored = Actor(model)(batch.id_BT, batch.action_mask_BT, 0.7)
    logprob_BT, entropy_BT = whole_logprobs(model, batch.id_BT, batch.action_mask_BT, 0.7)
    assert torch.allclose(scored.logprob_BT, logprob_BT, atol=1e-5)
    assert torch.allclose(scored.entropy_BT, entropy_BT, atol=1e-5)
    scored.logprob_BT.sum().backward()
    ours = gradients(model)
    model.zero_grad()
    logprob_BT.sum().backward()
    assert all(
        torch.allclose(ours[name], theirs, atol=1e-4) for name, theirs in gradients(model).items()
    )


def test_nothing_of_the_vocabularys_size_is_made_for_a_prompt(batch, monkeypatch):
    sizes = []
    model = tiny()
    model.lm_head.register_forward_hook(lambda module, given, made: sizes.append(made.shape[0]))
    monkeypatch.setattr(actor_module, "LOGITS_AT_ONCE", 60 * 16)
    actor = Actor(model)
    sizes.clear()
    actor(batch.id_BT, batch.action_mask_BT)
    assert max(sizes) <= 16
    assert sum(sizes) == batch.action_mask_BT.sum()


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


@pytest.mark.parametrize("tokens", [10_000, 60])
@pytest.mark.parametrize("kind", ["gae", "episode", "turn", "centred"])
def test_before_the_first_update_the_ratio_is_exactly_1(batch, kind, tokens):
    actor, critic = Actor(tiny()), Critic(tiny()) if kind == "gae" else None
    judged = prepare_batch(batch, actor, critic, advantage=AdvantageConfig(kind), tokens=tokens)
    rng, optimizer = np.random.default_rng(0), make_optimizer(actor, critic)
    metrics = run_optimizer_steps(judged, actor, optimizer, critic, rng=rng, tokens=tokens)
    assert metrics["kl"] == 0.0
    assert metrics["clip_fraction"] == 0.0
    assert metrics["steps"] == 1


@pytest.mark.parametrize("aggregate", ["token", "turn", "sequence", "constant"])
@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_pieces_give_the_gradient_of_the_whole(batch, aggregate, ratio):
    objective = Objective(aggregate=aggregate, ratio=ratio, constant=8, entropy=0.01, kl=0.1)
    judging = {"advantage": AdvantageConfig("gae"), "reward_scale": 0.1}
    actor, critic = Actor(tiny().double()), Critic(tiny(seed=2).double()).double()
    reference, both = Actor(tiny(seed=1).double()), torch.nn.ModuleList([actor, critic])
    found = []
    for tokens in (100_000, 100, 1):
        judged = prepare_batch(batch, actor, critic, reference, **judging, tokens=100_000)
        both.zero_grad()
        metrics = _accumulate_gradients(judged, [actor, critic], objective, tokens, 1.0)
        found.append((gradients(both), metrics))
    for grads, metrics in found[1:]:
        for name, full_params in found[0][0].items():
            assert torch.allclose(grads[name], full_params, rtol=1e-6, atol=1e-9), name
        assert metrics == pytest.approx(found[0][1], rel=1e-6)


def test_a_critic_of_its_own_learns_at_its_own_rate(batch):
    actor, critic = Actor(tiny()), Critic(tiny(seed=1))
    judged = prepare_batch(
        batch, actor, critic, advantage=AdvantageConfig("gae"), reward_scale=0.01
    )
    assert judged.metrics["value_mean"] == 0.0
    optimizer = make_optimizer(actor, critic, lr=1e-6, critic_lr=1e-2)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-6, 1e-2]
    losses = [
        learn(judged, actor, optimizer, critic, objective=Objective(value_clip=None))["value_loss"]
        for _ in range(20)
    ]
    assert losses[-1] < losses[0] / 2
    again = prepare_batch(batch, actor, critic, advantage=AdvantageConfig("gae"), reward_scale=0.01)
    assert again.metrics["explained_variance"] > judged.metrics["explained_variance"]


def test_what_is_expected_of_whom_is_a_part_of_the_values(dialogues):
    who = ["anna", "ben"] * 4
    batch = pack_batch(
        [replace(one, info={"persona": name}) for one, name in zip(dialogues, who, strict=True)]
    )
    # Which guesses 0 before it has learned.
    advantage, critic = (AdvantageConfig("gae", whiten=False), Critic(tiny(seed=1)))
    unwrap, expected = (
        prepare_batch(batch, Actor(tiny()), critic, advantage=advantage),
        PersonaBaseline({"anna": (9, 2.5)}),
    )
    judged = prepare_batch(
        batch, Actor(tiny()), critic, persona_baseline=expected, advantage=advantage
    )
    less_S = np.where(np.array(who)[batch.dialogue_S] == "anna", 2.5, 0.0)
    for name in ("advantage_BT", "return_BT"):
        assert batch.at_actions(getattr(judged, name)) == pytest.approx(
            batch.at_actions(getattr(unwrap, name)) - less_S, abs=1e-5
        )
    bootstrapped = prepare_batch(
        batch,
        Actor(tiny()),
        critic,
        persona_baseline=expected,
        advantage=AdvantageConfig("gae", 0.5, 0.9, whiten=False),
    )
    value_S, dialogue_S, turn_S = less_S, batch.dialogue_S, batch.turn_S
    wanted = gae(
        place_rewards(batch.reward_DN, dialogue_S, turn_S), value_S, dialogue_S, turn_S, 0.5, 0.9
    )
    assert batch.at_actions(bootstrapped.advantage_BT) == pytest.approx(
        wanted.advantage_S, abs=1e-5
    )
    assert bootstrapped.metrics["explained_variance"] == pytest.approx(
        explained_variance(value_S, wanted.return_S)
    )
    assert judged.residual_D == pytest.approx(
        unwrap.residual_D - np.where(np.array(who) == "anna", 2.5, 0.0), abs=1e-5
    )
    assert unwrap.residual_D[0] == pytest.approx(
        batch.at_actions(unwrap.return_BT)[batch.dialogue_S == 0].mean()
    )
    kept = np.array([name == "ben" for name in who])
    assert judged.only(np.flatnonzero(kept)).who_D.tolist() == ["ben"] * 4
    with pytest.raises(TrainingError, match="without a critic"):
        _ = prepare_batch(batch, Actor(tiny())).residual_D


@pytest.mark.parametrize("ranks", [2, 4])
def test_processes_get_about_equally_much(ranks):
    rng = np.random.default_rng(0)
    for tokens in (1_500, 4_096):  # the one binds, the other does not
        for _ in range(50):
            length_B = rng.integers(350, 950, 8 * ranks)
            hands = [
                list(split_into_micro_batches(length_B, tokens, rank, ranks))
                for rank in range(ranks)
            ]
            passed = [
                sum(len(one.dialogue_R) * length_B[one.dialogue_R].max() for one in hand)
                for hand in hands
            ]
            assert max(passed) < 1.25 * np.mean(passed)


@pytest.mark.parametrize(
    ("iterations", "how", "wanted"),
    [
        (10, {"warmup": 4}, [0.25, 0.5, 0.75, 1.0, 1.0]),
        (4, {"warmup": 2, "anneal": True}, [0.5, 0.7, 0.4, 0.1]),
    ],
)
def test_learning_rates_rise_in_equal_steps_and_fall_to_a_tenth(iterations, how, wanted):
    optimizer = make_optimizer(Actor(tiny()), lr=1.0)
    rates = []
    for iteration in range(len(wanted)):
        set_learning_rates(optimizer, iteration, iterations, **how)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx(wanted)


@pytest.mark.parametrize("kind", ["gae", "episode"])
def test_what_was_rewarded_becomes_likelier(batch, kind):
    actor, critic = Actor(tiny()), Critic(tiny()) if kind == "gae" else None
    optimizer, rng = (
        make_optimizer(actor, critic, lr=1e-3, critic_lr=1e-3),
        np.random.default_rng(0),
    )
    judged = prepare_batch(batch, actor, critic, advantage=AdvantageConfig(kind), reward_scale=0.01)
    run_optimizer_steps(judged, actor, optimizer, critic, rng=rng, epochs=3, minibatches=2)
    gained_BT = prepare_batch(batch, actor).old_BT - judged.old_BT
    assert (gained_BT * judged.advantage_BT).sum() > 0


def test_advantages_by_gae_are_scaled_and_whitened(batch):
    batch = replace(batch, reward_DN=np.where(np.arange(4) == 0, batch.reward_DN, 0.0))
    models = Actor(tiny()), Critic(tiny())
    plain = AdvantageConfig("gae", whiten=False)
    unwrap = prepare_batch(batch, *models, advantage=plain, reward_scale=0.5)
    # All values are 0 and nothing is discounted: what the first turn earns is its tokens' return.
    return_S = 0.5 * (batch.reward_DN[:, 0])[batch.dialogue_S] * (batch.turn_S == 0)
    assert unwrap.at_actions(unwrap.advantage_BT) == pytest.approx(return_S)
    judged = prepare_batch(batch, *models, advantage=AdvantageConfig("gae"), reward_scale=0.5)
    advantage_S = judged.at_actions(judged.advantage_BT)
    assert (advantage_S.mean(), advantage_S.std()) == pytest.approx((0, 1), abs=1e-6)
    assert judged.at_actions(judged.return_BT) == pytest.approx(return_S)


def test_each_step_forgets_the_gradient_of_the_one_before(batch):
    once, twice = Actor(tiny()), Actor(tiny())
    judged = prepare_batch(batch, once)
    learn(judged, once, torch.optim.SGD(once.parameters(), lr=0.1), epochs=2)
    for _ in range(2):
        learn(judged, twice, torch.optim.SGD(twice.parameters(), lr=0.1))
    assert all(
        torch.equal(weight, twice.state_dict()[name]) for name, weight in once.state_dict().items()
    )


def test_learning_stops_once_the_policy_has_moved_too_far(batch):
    actor = Actor(tiny())
    judged = prepare_batch(batch, actor)
    metrics = learn(judged, actor, make_optimizer(actor, lr=1e-2), epochs=5, target_kl=1e-4)
    assert metrics["stopped"] == 1
    assert metrics["steps"] == 1


def test_a_loss_that_is_not_a_number_changes_nothing(batch):
    actor = Actor(tiny())
    before = copy.deepcopy(actor.state_dict())
    judged = prepare_batch(batch, actor)
    judged.advantage_BT[judged.action_mask_BT] = float("nan")
    with pytest.raises(TrainingError, match=r"policy_loss, actor_gradient became NaN"):
        learn(judged, actor, make_optimizer(actor, lr=1.0))
    assert all(torch.equal(weight, before[name]) for name, weight in actor.state_dict().items())


def test_groups_without_signal_can_be_left_out_and_nothing_left_is_no_error(dialogues):
    flat = [
        replace(one, reward_N=np.ones_like(one.reward_N) * 4 / len(one.reward_N))
        for one in dialogues
    ]
    actor = Actor(tiny())
    judged = prepare_batch(
        pack_batch([*flat[:6], *dialogues[6:]]), actor, advantage=AdvantageConfig(drop_flat=True)
    )
    assert judged.dialogues == 2
    assert judged.metrics["flat_groups"] == 0.75
    judged = prepare_batch(pack_batch(flat), actor, advantage=AdvantageConfig(drop_flat=True))
    assert learn(judged, actor, make_optimizer(actor)) == {"steps": 0, "stopped": 0}
    assert math.isnan(prepare_batch(pack_batch([]), actor).metrics["return_mean"])


def test_the_gap_to_the_sampler_is_measured_and_a_stranger_is_refused_before_the_first_step(
    dialogues,
):
    actor = Actor(tiny())
    batch = pack_batch(dialogues)
    exact = replace(batch, sampled_BT=prepare_batch(batch, actor).old_BT)
    found = learn(prepare_batch(exact, actor), actor, make_optimizer(actor, lr=0.0))
    assert found["sampler_kl"] == 0
    shifted = prepare_batch(
        replace(exact, sampled_BT=exact.sampled_BT - 0.5 * exact.action_mask_BT), actor
    )
    found = learn(shifted, actor, make_optimizer(actor, lr=0.0))
    assert found["sampler_kl"] == pytest.approx(math.exp(0.5) - 1.5, abs=1e-6)
    before = copy.deepcopy(actor.state_dict())
    with pytest.raises(TrainingError, match=r"KL\(sampler \|\| learner\) is 0.149"):
        learn(shifted, actor, make_optimizer(actor), max_sampler_kl=0.1)
    assert all(torch.equal(value, before[name]) for name, value in actor.state_dict().items())


def test_with_one_step_the_policy_is_asked_once_and_learns_the_same(batch, monkeypatch):
    learned = []
    for one_step in (False, True):
        actor, passes = Actor(tiny()), []
        actor.register_forward_hook(lambda *_, passes=passes: passes.append(1))
        judged = prepare_batch(batch, actor, one_step=one_step)
        assert (judged.old_BT is None, not passes) == (one_step, one_step)
        metrics = learn(judged, actor, make_optimizer(actor, lr=1e-2))
        learned.append((metrics, torch.cat([one.flatten() for one in actor.parameters()])))
    (once, after_once), (twice, after_twice) = learned
    assert once == pytest.approx(twice, abs=1e-6)
    assert torch.allclose(after_once, after_twice, atol=1e-6)


def test_an_entropy_without_weight_is_outside_of_the_graph(batch):
    actor = Actor(tiny())
    for learns in (True, False):
        scored = actor(batch.id_BT, batch.action_mask_BT, 1.0, learns)
        assert scored.entropy_BT.requires_grad == learns
        assert scored.logprob_BT.requires_grad


def test_a_reply_near_the_limit_costs_in_a_line(dialogues):
    batch = pack_batch(dialogues)
    longest = int(batch.tokens_DN.max())
    assert batch.tokens_DN.sum() == batch.action_mask_BT.sum()
    cost_DN = compute_overlong_penalty(batch.tokens_DN, longest, 2)
    assert set(cost_DN[batch.tokens_DN == longest]) == {1.0}
    assert set(cost_DN[batch.tokens_DN == longest - 1]) <= {0.5}
    assert cost_DN[batch.tokens_DN < longest - 1].sum() == 0
    assert compute_overlong_penalty(batch.tokens_DN, longest, 0).sum() == 0
    unwrap, charged = (
        prepare_batch(batch, Actor(tiny()), cost_DN=cost).reward_DN for cost in (0.0, 3 * cost_DN)
    )
    assert np.allclose(unwrap - charged, 3 * cost_DN)


def test_a_samplers_log_probabilities_are_those_of_the_temperature_that_is_learned(batch):
    exact = replace(batch, sampled_BT=prepare_batch(batch, Actor(tiny()), temperature=0.5).old_BT)
    for temperature, is_same in ((0.5, True), (1.0, False)):
        actor = Actor(tiny())
        judged = prepare_batch(exact, actor, temperature=temperature, one_step=True)
        found = learn(judged, actor, make_optimizer(actor), temperature=temperature)
        assert (found["sampler_kl"] < 1e-9) == is_same


def test_a_critic_is_needed_where_it_is_needed_and_only_there(batch):
    actor, critic, rng = Actor(tiny()), Critic(tiny()), np.random.default_rng(0)
    optimizer = make_optimizer(actor, critic)
    with pytest.raises(TrainingError, match="needs values"):
        prepare_batch(batch, actor, advantage=AdvantageConfig("gae"))
    with pytest.raises(TrainingError, match="without its critic"):
        run_optimizer_steps(prepare_batch(batch, actor), actor, optimizer, critic, rng=rng)


@pytest.mark.filterwarnings(
    "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"
)  # peft's
def test_the_base_below_adapters_is_a_reference(batch):
    peft = pytest.importorskip("peft", reason="adapters need peft: pip install '.[lora]'")
    base = tiny()
    before = Actor(base)(batch.id_BT, batch.action_mask_BT).logprob_BT.detach()
    actor = Actor(
        peft.get_peft_model(
            base, peft.LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM")
        )
    )
    judged = prepare_batch(batch, actor, None, make_reference_without_adapters(actor))
    assert torch.equal(judged.old_BT, judged.reference_BT)
    optimizer = make_optimizer(actor, lr=1e-2)
    learn(judged, actor, optimizer, objective=Objective(kl=0.1), epochs=2)
    judged = prepare_batch(batch, actor, None, make_reference_without_adapters(actor))
    assert torch.allclose(judged.reference_BT, before, atol=1e-5)
    assert not torch.allclose(judged.old_BT, before, atol=1e-3)


def test_a_policy_without_adapters_has_no_base():
    with pytest.raises(TrainingError, match="second model"):
        make_reference_without_adapters(Actor(tiny()))


def test_half_precision_stays_close(batch):
    model = tiny()
    full, use_bf16 = (
        Actor(model, use_bf16=use_bf16)(batch.id_BT, batch.action_mask_BT).logprob_BT
        for use_bf16 in (False, True)
    )
    assert use_bf16.dtype == torch.float32
    assert torch.allclose(full, use_bf16, atol=0.05)
    assert not torch.equal(full, use_bf16)
