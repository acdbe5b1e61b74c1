"""Replies drawn in batch with a cache kept from turn to turn are those of the model alone,
re-reading everything each time.
"""

import copy
import inspect
import json
import math

import numpy as np
import pytest
import torch
from asking import answering
from completions import completion
from tiny_policy import SIZES
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    MistralForCausalLM,
    Phi3ForCausalLM,
    Starcoder2ForCausalLM,
)

from rlver_gym.policy.models.model import get_max_context, load_model, make_bf16_copy
from rlver_gym.policy.models.sampler import Completion, ModelSampler, Prompt, Sampling, pick_tokens
from rlver_gym.policy.models.servers import ServerSampler
from rlver_gym.util.errors import TrainingError

GREEDY = Sampling(max_tokens=12, stop_ids=frozenset(range(0, 600, 9)), temperature=0.0)


@pytest.fixture(scope="module")
def model(tiny_folder):
    """With weights so large that no two tokens are about equally likely."""
    model = load_model(str(tiny_folder), device="cpu")
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(10.0 if weight.dim() > 1 else 1.0)
    return model


@torch.no_grad()
def alone(model, ids, sampling):
    """The greedy reply without batch and without cache."""
    ids, start, logprobs = list(ids), len(ids), []
    while len(ids) - start < sampling.max_tokens:
        logprob_V = model(torch.tensor([ids]), use_cache=False).logits[0, -1].log_softmax(-1)
        ids.append(int(logprob_V.argmax()))
        logprobs.append(float(logprob_V[ids[-1]]))
        if ids[-1] in sampling.stop_ids:
            break
    return Completion(ids[start:], logprobs)


def words(count, seed):
    return np.random.default_rng(seed).integers(3, 600, count).tolist()


def same(drawn, expected):
    return drawn.ids == expected.ids and np.allclose(drawn.logprobs, expected.logprobs, atol=1e-4)


@pytest.mark.parametrize("prefill_tokens", [1, 40, 10_000])
def test_ragged_dialogues_with_kept_caches_equal_each_alone_read_from_scratch(
    model, prefill_tokens
):
    sampler = ModelSampler(model, prefill_tokens=prefill_tokens)
    dialogues = {
        number: words(length, number) for number, length in enumerate((5, 17, 9, 30, 12, 1))
    }
    lengths = set()
    for turn, speaking in enumerate(([0, 1, 2, 3, 4, 5], [5, 0, 2, 4], [4, 1, 5], [3, 0, 1, 2])):
        drawn = sampler.sample([Prompt(one, dialogues[one], 0) for one in speaking], GREEDY)
        for one, reply in zip(speaking, drawn, strict=True):
            assert same(reply, alone(model, dialogues[one], GREEDY)), (turn, one)
            lengths.add(len(reply.ids))
            dialogues[one] += reply.ids + words(3 + one, 100 * turn + one)
    assert len(lengths) > 3, "some replies end early, others are cut"


def count_fed(model, monkeypatch):
    """How many tokens pass through the model, pass by pass."""
    fed = []
    trunk = model.base_model
    run = trunk.forward

    def forward(input_ids, **rest):
        fed.append(input_ids.numel())
        return run(input_ids=input_ids, **rest)

    monkeypatch.setattr(trunk, "forward", forward)
    return fed


def test_only_new_tokens_are_fed(model, monkeypatch):
    sampler, sampling = ModelSampler(model), Sampling(4, frozenset(), 0.0)
    fed = count_fed(model, monkeypatch)
    first = words(20, 0)
    (reply,) = sampler.sample([Prompt(0, first, 0)], sampling)
    assert fed == [20, 1, 1, 1]
    fed.clear()
    sampler.sample([Prompt(0, first + reply.ids + words(5, 1), 0)], sampling)
    assert fed == [6, 1, 1, 1], "the last sampled token and what is new"
    fed.clear()
    sampler.sample([Prompt(0, first[:10] + words(2, 2), 0)], sampling)
    assert fed == [2, 1, 1, 1], "a prompt that begins alike keeps that much"
    fed.clear()
    sampler.forget()
    sampler.sample([Prompt(number, first, 0) for number in range(3)], sampling)
    assert fed == [20, 3, 3, 3], "equal prompts are read once"


def test_dialogues_whose_reply_has_ended_cost_nothing_more(model, monkeypatch):
    sampler = ModelSampler(model)
    fed = count_fed(model, monkeypatch)
    prompts = [Prompt(number, words(8, number), 0) for number in range(6)]
    drawn = sampler.sample(prompts, GREEDY)
    steps = max(len(one.ids) for one in drawn)
    assert fed[1:] == [sum(len(one.ids) > step for one in drawn) for step in range(1, steps)]


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_a_model_takes_its_cache_by_the_name_of_its_transformers_version(model, name, monkeypatch):
    """`cache` from 5.24 on; before, and in models with code of their own, `past_key_values`."""
    trunk, ids = model.base_model, words(20, 0)
    expected = alone(model, ids, GREEDY)
    (now,) = {"cache", "past_key_values"} & set(inspect.signature(type(trunk).forward).parameters)

    class TakesCache(type(trunk)):
        def forward(self, input_ids, cache=None, **rest):
            return super().forward(input_ids, **{now: cache}, **rest)

    class TakesPastKeyValues(TakesCache):
        def forward(self, input_ids, past_key_values=None, **rest):
            return super().forward(input_ids, past_key_values, **rest)

    kinds = {"cache": TakesCache, "past_key_values": TakesPastKeyValues}
    monkeypatch.setattr(trunk, "__class__", kinds[name])
    (reply,) = ModelSampler(model).sample([Prompt(0, ids, 0)], GREEDY)
    assert same(reply, expected)


def test_what_is_drawn_depends_on_the_seed_and_not_on_the_company(model):
    sampling = Sampling(10, frozenset({7}), temperature=20.0)
    prompts = [Prompt(number, words(6 + number, number), number) for number in range(5)]
    together = ModelSampler(model).sample(prompts, sampling)
    assert same(together[3], ModelSampler(model).sample(prompts[3:4], sampling)[0])
    other = ModelSampler(model).sample([prompts[3]._replace(seed=99)], sampling)[0]
    assert together[3].ids != other.ids


def test_the_draws_follow_the_distribution():
    logits = torch.tensor([[0.0, 1.0, 2.0, -torch.inf]]).repeat(3000, 1)
    chances = torch.rand(3000, generator=torch.Generator().manual_seed(0))
    token, logprob = pick_tokens(logits, chances, Sampling(1, frozenset(), temperature=2.0))
    expected = (logits[0] / 2).softmax(-1)
    counts = torch.bincount(token, minlength=4) / 3000
    assert counts[3] == 0
    assert torch.allclose(counts, expected, atol=0.03)
    assert torch.allclose(logprob.exp(), expected[token])


def test_cuts_change_the_draw_but_not_the_log_probability():
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]]).repeat(500, 1)
    chances = torch.linspace(0, 1 - 1e-7, 500)
    for cut, left in (
        (Sampling(1, frozenset(), top_k=2), {2, 3}),
        (Sampling(1, frozenset(), top_p=0.6), {3}),
        (Sampling(1, frozenset(), top_p=0.7), {2, 3}),
    ):
        token, logprob = pick_tokens(logits, chances, cut)
        assert set(token.tolist()) == left
        assert torch.allclose(logprob, logits[0].log_softmax(-1)[token])


def test_the_highest_chance_never_gives_an_impossible_token():
    logits = torch.full((1, 1000), -torch.inf)
    logits[0, :500] = 0.0
    token, _ = pick_tokens(logits, torch.tensor([1.0]), Sampling(1, frozenset()))
    assert int(token) < 500


def test_a_model_that_broke_is_not_sampled_from():
    with pytest.raises(TrainingError, match="not finite"):
        pick_tokens(torch.tensor([[0.0, torch.nan]]), torch.tensor([0.5]), Sampling(1, frozenset()))


def test_layers_that_do_not_look_at_everything_are_refused():
    small = Gemma3TextConfig(
        vocab_size=20,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=8,
        sliding_window=4,
    )
    with pytest.raises(TrainingError, match="sliding_attention"):
        ModelSampler(Gemma3ForCausalLM(small))


@pytest.mark.parametrize("family", [MistralForCausalLM, Phi3ForCausalLM, Starcoder2ForCausalLM])
def test_a_window_of_all_layers_bounds_the_context(family):
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    for window, context in ((16, 16), (None, 128)):
        config = family.config_class(**SIZES, **ends, sliding_window=window)
        assert get_max_context(family(config)) == context


class _Casts(TorchDispatchMode):
    """Counts how often a weight is cast."""

    def __init__(self, model):
        super().__init__()
        self.weights = {weight.data_ptr() for weight in model.parameters() if weight.dim() > 1}
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._to_copy.default and args[0].data_ptr() in self.weights:
            self.count += 1
        return func(*args, **(kwargs or {}))


def test_in_half_precision_no_weight_is_cast_for_every_token(model):
    counted = []
    for tokens in (2, 12):
        with _Casts(model) as casts:
            ModelSampler(model, use_bf16=True).sample(
                [Prompt(0, words(9, 0), 0)], Sampling(tokens, frozenset(), temperature=0.0)
            )
        counted.append(casts.count)
    assert counted[0] == counted[1] > 0


def test_a_copy_in_half_precision_follows_the_weights(model):
    learning = copy.deepcopy(model)
    sampler = ModelSampler(learning, use_bf16=True, copied=True)
    sampling = Sampling(6, frozenset(), temperature=0.0)
    prompts = [Prompt(number, words(9, number), 0) for number in range(4)]
    before = sampler.sample(prompts, sampling)
    assert before == ModelSampler(make_bf16_copy(learning)).sample(prompts, sampling)
    with torch.no_grad():
        learning.get_output_embeddings().weight.copy_(
            learning.get_output_embeddings().weight.flip(0)
        )
    sampler.refresh()
    after = sampler.sample(prompts, sampling)
    assert after != before
    assert after == ModelSampler(make_bf16_copy(learning)).sample(prompts, sampling)


@torch.no_grad()
def scale_adapters(model, scale):
    torch.manual_seed(0)
    for name, weight in model.named_parameters():
        if "lora_" in name:
            weight.normal_(std=0.1 * scale)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft asks by names that will go
def test_a_copy_of_a_model_with_adapters_has_them_merged_in_and_follows_them():
    learning = load_model("tiny", device="cpu", lora=4)
    scale_adapters(learning, 1)
    sampler = ModelSampler(learning, use_bf16=True, copied=True)
    sampling = Sampling(6, frozenset(), temperature=0.0)
    prompts = [Prompt(number, words(9, number), 0) for number in range(4)]

    def merged():
        return make_bf16_copy(copy.deepcopy(learning).merge_and_unload())

    before = sampler.sample(prompts, sampling)
    assert not any(hasattr(one, "lora_A") for one in sampler._lm.modules())
    assert before == ModelSampler(merged()).sample(prompts, sampling)
    scale_adapters(learning, 3)
    sampler.refresh()
    after = sampler.sample(prompts, sampling)
    assert after != before
    assert after == ModelSampler(merged()).sample(prompts, sampling)


def test_small_updates_of_adapters_are_not_lost_in_a_copy():
    learning = load_model("tiny", device="cpu", lora=4, use_bf16=True)
    scale_adapters(learning, 0.01)
    copied = dict(make_bf16_copy(learning.get_base_model()).named_parameters())
    for name, layer in learning.get_base_model().named_modules():
        if hasattr(layer, "get_delta_weight"):
            delta = layer.get_delta_weight("default").detach()
            moved = copied[f"{name}.weight"].float() - layer.base_layer.weight.float()
            assert (moved * delta).sum() / delta.square().sum() == pytest.approx(1, abs=0.1)
            assert delta.abs().mean() < layer.base_layer.weight.abs().mean() / 512, "half a step"


def test_sampling_leaves_the_model_in_the_mode_it_was_in(model):
    model.train()
    ModelSampler(model).sample([Prompt(0, [5, 6], 0)], Sampling(2, frozenset()))
    assert model.training
    model.eval()


class Server:
    """Completes token ids with the ids that follow them, as vLLM would."""

    def __init__(self):
        self.asked, self.other = [], {}

    def __call__(self, request):
        self.asked.append(asked := json.loads(request.body))
        start = asked["prompt"][-1]
        ids = range(start + 1, start + 1 + asked["max_tokens"])
        stop = next((i for i, one in enumerate(ids) if one in asked["stop_token_ids"]), None)
        ids = list(ids)[: None if stop is None else stop + 1]
        ended = "length" if stop is None else "stop"
        return 200, completion(ids, [-0.5] * len(ids), ended, self.other)


@pytest.fixture
def server():
    server = Server()
    with answering(server) as server.url:
        yield server


def test_a_server_is_sampled_from_with_ids_alone(server):
    sampler = ServerSampler(server.url, "m", seeded=True)
    sampling = Sampling(4, frozenset({12}), temperature=0.7, top_k=5)
    drawn = sampler.sample([Prompt(0, [3, 10], 1), Prompt(1, [40], 2)], sampling)
    assert drawn == [Completion([11, 12], [-0.5] * 2), Completion([41, 42, 43, 44], [-0.5] * 4)]
    asked = sorted(server.asked, key=lambda one: one["seed"])
    assert [one["prompt"] for one in asked] == [[3, 10], [40]]
    assert {
        (one["temperature"], one["top_k"], one["return_tokens_as_token_ids"]) for one in asked
    } == {(0.7, 5, True)}
    # A server that took them from the model's own settings would sample something else.
    off = {"repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0, "min_p": 0}
    for one in asked:
        assert off.items() <= one.items()
        assert one["ignore_eos"], "what ends a reply is the learner's to say"
    sampler.forget()
    ServerSampler(server.url, "m").sample([Prompt(0, [3, 10], 1)], sampling)
    why = "a seed of its own keeps vLLM from drawing a batch at once"
    assert "seed" not in server.asked[-1], why


ONE_DRAWN = {"tokens": ["token_id:5"], "token_logprobs": [-1.0]}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"logprobs": None}, "did not answer with a completion"),
        ({"logprobs": {"tokens": ["Hi"], "token_logprobs": [-1.0]}}, "tokens as text"),
        ({"logprobs": ONE_DRAWN, "finish_reason": "stop"}, "kept the token"),
    ],
)
def test_a_server_whose_answers_cannot_be_learned_from_is_refused(server, answer, told):
    server.other = answer
    with pytest.raises(TrainingError, match=told):
        ServerSampler(server.url, "m").sample([Prompt(0, [3], 1)], Sampling(4, frozenset({12})))


def test_a_log_probability_that_a_server_lost_ends_no_training(server):
    for lost in (None, math.nan):
        server.other = {
            "logprobs": {"tokens": ["token_id:5", "token_id:6"], "token_logprobs": [-1.0, lost]}
        }
        sampling = Sampling(4, frozenset({12}))
        (drawn,) = ServerSampler(server.url, "m").sample([Prompt(0, [3], 1)], sampling)
        assert (drawn.ids, drawn.logprobs[0]) == ([5, 6], -1.0)
        assert math.isnan(drawn.logprobs[1])


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(TrainingError, match=r"no replies from http://127\.0\.0\.1:9/v1"):
        ServerSampler("http://127.0.0.1:9/v1", "m").sample(
            [Prompt(0, [3], 1)], Sampling(4, frozenset({12}))
        )
