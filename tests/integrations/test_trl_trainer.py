"""What a rollout_func reads of TRL's GRPOTrainer: groups, settings, and its vLLM. vLLM wants a GPU;
here an engine in this process does what is asked of it with the real model, behind TRL's own code.
This file is also what the last test runs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_trainer import PEOPLE, TRL_MARKS, make_trainer
from trl.generation import vllm_generation
from trl.generation.vllm_generation import VLLMGeneration

from rlver_gym.integrations.trl import Rollout, parse_prompt, prompt_rows
from rlver_gym.integrations.trl_trainer import (
    ColocatedSampler,
    check_groups,
    check_settings,
    make_sampler,
)
from rlver_gym.library.personas import library
from rlver_gym.policy.models.sampler import ModelSampler, Prompt, Sampling
from rlver_gym.policy.models.servers import ServerSampler
from rlver_gym.util.errors import TrainingError

pytestmark = TRL_MARKS


# Groups


@pytest.mark.parametrize("shuffle_dataset", [True, False])
def test_the_members_of_every_group_meet_one_person_in_one_mood_who_says_the_same(
    tmp_path, shuffle_dataset
):
    people = library().ids("train")[:4]
    trainer = make_trainer(
        tmp_path,
        prompt_rows(people, seeds=(3, 4, 5)),
        shuffle_dataset=shuffle_dataset,
        per_device_train_batch_size=4,
        steps_per_generation=2,
        num_generations=4,
    )
    trainer.model.train()
    batches = list(trainer.get_train_dataloader())
    order = [parse_prompt(row["prompt"]) for batch in batches for row in batch]
    groups = [set(order[start : start + 4]) for start in range(0, len(order), 4)]
    assert all(len(group) == 1 for group in groups)
    assert len(set(order)) == 12
    assert (list(dict.fromkeys(order)) != sorted(set(order))) == shuffle_dataset

    told = trainer.rollout_func([row["prompt"] for row in batches[0]], trainer)
    for start in (0, 4):
        members = slice(start, start + 4)
        for name in ("persona", "seed", "prompt_ids"):
            assert all(one == told[name][start] for one in told[name][members])
        assert len({one[0]["content"] for one in told["dialogue"][members]}) == 1
        assert len({str(one) for one in told["dialogue"][members]}) > 1
    met = list(zip(told["persona"], told["seed"], strict=True))
    assert met[0] != met[4]


def test_rows_that_are_shuffled_within_a_batch_are_refused(tmp_path, monkeypatch):
    """Each prompt still comes as often as it should; its neighbours are others."""
    trainer = make_trainer(tmp_path)
    sampler = trainer._get_train_sampler()
    in_turns = [index for pair in zip(*[iter(sampler)] * 4, strict=True) for index in pair[::2]] * 2
    assert in_turns[:4] == [0, 1, 0, 1]
    monkeypatch.setattr(trainer, "_get_train_sampler", lambda dataset=None: in_turns)
    with pytest.raises(TrainingError, match="2 times in a row"):
        trainer.train()


def test_a_group_may_be_spread_over_processes(monkeypatch):
    def two_processes(others):
        gather = lambda items: [*items, *others]  # noqa: E731
        monkeypatch.setattr("rlver_gym.integrations.trl_trainer.gather_object", gather)

    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(num_processes=2),
        model=SimpleNamespace(training=True),
        num_generations=4,
    )
    two_processes(["a", "a"])
    check_groups(["a", "a"], trainer)
    two_processes(["b", "b"])
    with pytest.raises(TrainingError, match="4 times in a row"):
        check_groups(["a", "a"], trainer)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_processes_share_a_group_and_learn_from_it(tmp_path):
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [*torchrun, __file__, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, done.stderr[-3000:]
    one, other = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert one["met"] == other["met"] == [[PEOPLE[0], 0]] * 2
    assert one["opening"] == other["opening"]
    assert one["dialogue"] != other["dialogue"]
    assert one["weights"] == other["weights"] != one["before"]


def train_in_two_processes(folder):
    """A step in which the four dialogues of a group are played by two processes."""
    rollout, seen = Rollout(max_reply_tokens=8), {}

    def remember(prompts, trainer):
        seen.update(rollout(prompts, trainer))
        return dict(seen)

    trainer = make_trainer(
        folder,
        rollout=remember,
        per_device_train_batch_size=2,
        num_generations=4,
        learning_rate=1e-2,
    )
    before = _sum_weights(trainer)
    trainer.train()
    rank = trainer.accelerator.process_index
    found = {
        "met": list(zip(seen["persona"], seen["seed"], strict=True)),
        "opening": seen["prompt_ids"],
        "dialogue": seen["dialogue"],
        "before": before,
        "weights": _sum_weights(trainer),
    }
    (folder / f"{rank}.json").write_text(json.dumps(found))


def _sum_weights(trainer):
    return sum(float(weight.double().abs().sum()) for weight in trainer.model.parameters())


# Settings


def make_settings(has_vllm=False, zero_stage=0, fsdp=False):
    plugin = SimpleNamespace(zero_stage=zero_stage) if zero_stage else None
    return SimpleNamespace(
        args=SimpleNamespace(min_p=None, repetition_penalty=1.0, generation_kwargs=None),
        accelerator=SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=plugin)),
        use_vllm=has_vllm,
        is_fsdp_enabled=fsdp,
        is_deepspeed_enabled=bool(zero_stage),
    )


@pytest.mark.parametrize("sharded", [{"zero_stage": 3}, {"fsdp": True}])
def test_shards_are_refused_only_where_the_trainers_own_model_samples(sharded):
    with pytest.raises(TrainingError, match="without use_vllm"):
        check_settings(make_settings(**sharded))
    check_settings(make_settings(**sharded, has_vllm=True))
    check_settings(make_settings(**sharded), has_sampler=True)
    check_settings(make_settings(zero_stage=2))


# vLLM


class Engine:
    """What TRL asks of vLLM's LLM, with the trainer's model."""

    def __init__(self, model):
        self.sampler = ModelSampler(model)
        self.calls = []

    def generate(self, prompts, sampling_params, use_tqdm):
        given = [one["prompt_token_ids"] for one in prompts]
        sampling = Sampling(
            sampling_params.max_tokens,
            frozenset(sampling_params.stop_token_ids),
            sampling_params.temperature,
        )
        asked = [Prompt(i, ids, len(self.calls) + i) for i, ids in enumerate(given)]
        drawn = self.sampler.sample(asked, sampling)
        self.sampler.forget()
        self.calls += [(ids, one.ids) for ids, one in zip(given, drawn, strict=True)]
        return [
            SimpleNamespace(prompt_token_ids=ids, outputs=[_Output(one)])
            for ids, one in zip(given, drawn, strict=True)
        ]


class _Output:
    def __init__(self, drawn):
        self.token_ids = drawn.ids
        self.logprobs = [
            {token: SimpleNamespace(logprob=logprob, rank=1)}
            for token, logprob in zip(drawn.ids, drawn.logprobs, strict=True)
        ]


def use_vllm(trainer, mode, vllm):
    """As TRL's constructor leaves it; gives the steps at which TRL handed the weights over."""
    synced = []
    vllm.sync_weights = lambda: synced.append(trainer.state.global_step)
    trainer.use_vllm, trainer.vllm_mode, trainer.vllm_generation = True, mode, vllm
    trainer._last_loaded_step = -1
    return synced


def check_tokens(trainer, calls):
    """What is learned is what vLLM sampled, token by token, and its log-probabilities are kept."""
    rows = next(iter(trainer.get_train_dataloader()))
    scored = trainer._generate_and_score_completions(rows)
    found = []
    for number in range(len(rows)):
        prompt, said = (scored[f"{part}_mask"][number].bool() for part in ("prompt", "completion"))
        opening = scored["prompt_ids"][number][prompt].tolist()
        ids, mask, logprobs = (
            scored[name][number][said].tolist()
            for name in ("completion_ids", "tool_mask", "sampling_per_token_logps")
        )
        edges = np.flatnonzero(np.diff([0, *mask, 0]))
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            found.append((opening + ids[:start], ids[start:end]))
            assert all(one < 0 for one in logprobs[start:end])
    assert sorted(found) == sorted(calls)


@pytest.mark.parametrize("base_url", [None, "http://127.0.0.1:1/"])
def test_a_vllm_server_is_asked_where_trl_asks_it(base_url):
    vllm = SimpleNamespace(
        server_base_url=base_url,
        server_host="127.0.0.1",
        server_port=1,
        vllm_client=SimpleNamespace(model="tiny"),
    )
    accelerator = SimpleNamespace(is_main_process=True)
    trainer = SimpleNamespace(
        use_vllm=True, vllm_mode="server", vllm_generation=vllm, accelerator=accelerator
    )
    sampler = make_sampler(trainer)
    assert isinstance(sampler, ServerSampler)
    assert (sampler.base_url, sampler.model) == ("http://127.0.0.1:1/v1", "tiny")


def make_colocated(trainer, monkeypatch, **options):
    """TRL's own object around an engine that is not vLLM."""
    monkeypatch.setattr(VLLMGeneration, "_init_vllm", lambda self: None)
    monkeypatch.setattr(vllm_generation, "SamplingParams", SimpleNamespace, raising=False)
    vllm = VLLMGeneration(
        trainer.model,
        trainer.accelerator,
        trainer.processing_class,
        max_completion_length=trainer.max_completion_length,
        **options,
    )
    vllm.llm = Engine(trainer.model)
    return vllm


def test_with_colocated_vllm_the_replies_are_the_engines_token_by_token(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path)
    vllm = make_colocated(trainer, monkeypatch)
    synced = use_vllm(trainer, "colocate", vllm)
    check_tokens(trainer, vllm.llm.calls)
    assert synced == [0]
    assert max(len(ids) for _, ids in vllm.llm.calls) == 8
    assert (vllm.max_completion_length, vllm.generation_kwargs) == (4000, {})


def test_a_colocated_vllm_that_needs_processes_to_keep_step_is_refused(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path)
    asleep = make_colocated(trainer, monkeypatch, enable_sleep_mode=True)
    ColocatedSampler(asleep, num_processes=1)
    for vllm in (asleep, make_colocated(trainer, monkeypatch, tensor_parallel_size=2)):
        with pytest.raises(TrainingError, match="vllm_mode='server'"):
            ColocatedSampler(vllm, num_processes=2)


if __name__ == "__main__":
    train_in_two_processes(Path(sys.argv[1]))
