"""verl's own agent loop, worker, dataset, Ray actors and TransferQueue, with a tiny model in place
of a server of language models. No GPU: what trains is not started. This file is also what the last
test runs.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("verl")

import numpy as np
import torch
from integrations.drivers.verl import ModelServer, ScriptedServer, make_config, make_loop
from integrations.scripted import hold_episode
from omegaconf import OmegaConf

with warnings.catch_warnings():  # verl warns of engines that are not installed
    warnings.simplefilter("ignore")
    from verl import DataProto
    from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
    from verl.trainer.ppo.ray_trainer import compute_advantage
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

from rlver_gym.integrations.episodes import EpisodeSpec
from rlver_gym.integrations.verl import dataset_rows
from rlver_gym.library.personas import library
from rlver_gym.policy.models.model import load_tokenizer
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.util.errors import TrainingError, UserFailed

pytestmark = pytest.mark.filterwarnings("ignore")  # verl, Ray and Hydra warn of each other
SPEC = EpisodeSpec(library().ids("train")[3], 5)
(ROW,) = dataset_rows([SPEC], system="Be kind.")
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True}
SHORT = {"max_reply_tokens": 12}


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("tiny")


def run_loop(server, tokenizer, *overrides, row=ROW, **options):
    async def run():
        loop = make_loop(server, make_config(*overrides), tokenizer, **options)
        return await loop.run(SAMPLING, raw_prompt=row["prompt"], extra_info=row["extra_info"])

    return asyncio.run(run())


def runs_of_ones(mask):
    edges = np.flatnonzero(np.diff([0, *mask, 0]))
    return list(zip(edges[::2], edges[1::2], strict=True))


def reference(utterances):
    return hold_episode(SPEC.persona, SPEC.seed, utterances)


def test_a_reply_that_tokenizes_otherwise_is_kept_as_it_was_sampled(tokenizer):
    text = "I am listening."
    by_letters = [one for letter in text for one in tokenizer.encode(letter)]
    assert by_letters != tokenizer.encode(text)
    server = ScriptedServer([[*by_letters, tokenizer.eos_token_id]] * 8)
    output = run_loop(server, tokenizer)
    for prompt, (start, end) in zip(
        server.prompts, runs_of_ones(output.response_mask), strict=True
    ):
        assert output.response_ids[start:end] == [*by_letters, tokenizer.eos_token_id]
        assert prompt == output.prompt_ids + output.response_ids[:start]
    assert output.extra_fields["turn_scores"] == reference([text] * 8).rewards


def test_a_turns_reward_stands_at_the_last_token_of_its_reply(tokenizer):
    server = ModelServer()
    output = run_loop(server, tokenizer, **SHORT)
    renderer = Renderer(tokenizer, "Be kind.")
    rewards = reference([renderer.parse(ids).text for _, ids in server.calls]).rewards
    scores = output.as_dict()["rm_scores"]
    ends = [end - 1 for _, end in runs_of_ones(output.response_mask)]
    assert any(rewards)
    assert scores[ends].tolist() == rewards
    assert scores.sum() == sum(rewards) == output.reward_score


def test_the_reward_can_be_the_last_emotion_at_the_end(tokenizer):
    output = run_loop(ModelServer(), tokenizer, rewards="final", **SHORT)
    scores = output.as_dict()["rm_scores"]
    emotion = output.extra_fields["reward_extra_info"]["emotion"]
    assert emotion == 40 + sum(output.extra_fields["turn_scores"])
    assert scores[-1].item() == pytest.approx(emotion / 100)
    assert not scores[:-1].any()


@pytest.mark.parametrize("turn", [0, 2])
def test_a_dialogue_whose_user_failed_is_an_error_of_the_trainer_before_v1(tokenizer, turn):
    failing = {"user": "failing:FailsInTurn", "user_options": {"turn": turn}}
    with pytest.raises(UserFailed, match=r"trainer\.use_v1=True"):
        run_loop(ModelServer(), tokenizer, "trainer.use_v1=False", **SHORT, **failing)


def test_a_dialogue_in_which_the_server_sampled_nothing_is_no_output(tokenizer):
    assert run_loop(ScriptedServer([tokenizer.encode("Hello.")]), tokenizer) == []


def test_a_dialogue_ends_where_the_context_has_no_room_for_another_reply(tokenizer):
    room = "data.max_response_length=80"
    server = ModelServer()
    output = run_loop(server, tokenizer, room, **SHORT)
    assert len(output.response_ids) <= 80
    assert 1 < len(server.calls) < 4
    assert output.extra_fields["reward_extra_info"]["context_overflow"] == 1
    assert output.response_mask[-1] == 1
    whole = run_loop(ModelServer(), tokenizer, **SHORT)
    assert whole.extra_fields["reward_extra_info"]["context_overflow"] == 0


@pytest.mark.parametrize(
    ("overrides", "options", "message"),
    [
        (["data.max_prompt_length=8"], SHORT, r"Raise data\.max_prompt_length"),
        (["data.max_response_length=100"], {}, "256 tokens has no room.*4096"),
        ([], {"rewards": "mean"}, "turn or final"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_a_remedy(tokenizer, overrides, options, message):
    with pytest.raises(TrainingError, match=message):
        run_loop(ModelServer(), tokenizer, *overrides, **options)


def test_a_token_has_its_turns_return_against_those_of_the_group_at_the_same_turn():
    """Two dialogues of one group, a third of another; two turns of two tokens, a word between."""
    mask = torch.tensor([[1, 1, 0, 1, 1, 0]] * 3)
    rewards = torch.zeros(3, 6)
    rewards[:, 1] = torch.tensor([2.0, 0.0, 5.0])
    rewards[:, 4] = torch.tensor([1.0, 1.0, 9.0])
    data = DataProto.from_dict(
        {"response_mask": mask, "token_level_rewards": rewards},
        {"uid": np.array(["a", "a", "b"], dtype=object)},
    )
    found = compute_advantage(data, "rlver_turn", config=make_config().algorithm)
    expected = [[1, 1, 0, 0, 0, 0], [-1, -1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
    assert torch.allclose(found.batch["advantages"], torch.tensor(expected).float(), atol=1e-4)


def write_dataset(folder, specs, config):
    import pandas

    pandas.DataFrame(dataset_rows(specs)).to_parquet(folder / "train.parquet")
    return RLHFDataset(str(folder / "train.parquet"), load_tokenizer("tiny"), config.data)


def worker_config(folder, *overrides):
    loop = {
        "name": "rlver_empathy",
        "_target_": "rlver_gym.integrations.verl.EmpathyAgentLoop",
        **SHORT,
    }
    OmegaConf.save([loop], folder / "agent_loop.yaml")
    place = f"actor_rollout_ref.rollout.agent.agent_loop_config_path={folder / 'agent_loop.yaml'}"
    return make_config(
        place,
        "actor_rollout_ref.rollout.calculate_log_probs=True",
        "actor_rollout_ref.rollout.agent.num_workers=1",
        "data.max_response_length=1024",
        *overrides,
    )


def test_verls_worker_makes_the_loop_from_its_yaml_and_plays_a_batch(tmp_path):
    config = worker_config(tmp_path)
    dataset = write_dataset(tmp_path, [SPEC, SPEC], config)
    batch = DataProto.from_single_dict(collate_fn([dataset[0], dataset[1]]))

    async def play():
        return await AgentLoopWorker(config, ModelServer()).generate_sequences(batch)

    output = asyncio.run(play())
    assert output.batch["responses"].shape == (2, 1024)
    turn_scores = output.non_tensor_batch["turn_scores"]
    assert output.batch["rm_scores"].sum(1).tolist() == [sum(one) for one in turn_scores]
    turns = [1 + 2 * len(one) for one in turn_scores]
    assert output.non_tensor_batch["__num_turns__"].tolist() == turns
    prompts = output.batch["prompts"]
    assert torch.equal(prompts[0], prompts[1]), "the same person in the same mood"
    assert not torch.equal(output.batch["responses"][0], output.batch["responses"][1])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_verls_manager_puts_groups_into_its_queue_and_its_trainer_finds_their_advantages(tmp_path):
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", __file__, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert sorted(row["group"] for row in rows) == [0] * 3 + [1] * 3
    for row in rows:
        spans, scores = runs_of_ones(row["response_mask"]), np.array(row["rm_scores"])
        assert scores[[end - 1 for _, end in spans]].tolist() == row["turn_scores"]
        assert np.abs(scores).sum() == np.abs(row["turn_scores"]).sum()
        assert len(row["advantages"]) == len(row["response_mask"]) == len(row["rollout_log_probs"])
    assert any(any(row["advantages"]) for row in rows)
    for group in (0, 1):
        members = [row for row in rows if row["group"] == group]
        assert members[0]["prompts"] == members[1]["prompts"] == members[2]["prompts"]
        first = [row["advantages"][0] for row in members]
        assert sum(first) == pytest.approx(0, abs=1e-4)
    assert rows[0]["prompts"] != rows[-1]["prompts"]


def play_groups(folder):
    """Two prompts with three dialogues each, through verl's manager, queue and trainer."""
    import ray
    import transfer_queue
    from transfer_queue import KVBatchMeta
    from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer
    from verl.utils import tensordict_utils

    config = worker_config(
        folder,
        "actor_rollout_ref.rollout.n=3",
        "algorithm.adv_estimator=rlver_turn",
        "algorithm.rollout_correction.bypass_mode=True",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    )
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    transfer_queue.init(config.transfer_queue)
    specs = [EpisodeSpec(one, 5) for one in library().ids("train")[3:5]]
    dataset = write_dataset(folder, specs, config)
    samples = collate_fn([dataset[0], dataset[1]])
    batch = tensordict_utils.get_tensordict({**samples, "uid": np.array(["0", "1"], dtype=object)})
    tensordict_utils.assign_non_tensor_data(batch, "global_steps", 1)
    trainer = SimpleNamespace(
        config=config,
        global_steps=1,
        trainer_mode="sync",
        agent_loop_manager=AgentLoopManagerTQ.create(config=config, llm_client=ModelServer()),
    )
    PPOTrainer._submit_batch_to_rollout(trainer, batch)
    found = {}
    while sum(one.get("status") in ("finished", "failure") for one in found.values()) < 2:
        time.sleep(0.5)
        found = transfer_queue.kv_list("train")["train"]
    keys = sorted(key for key, tag in found.items() if tag.get("status") == "success")
    meta = KVBatchMeta(keys=keys, tags=[found[key] for key in keys], partition_id="train")
    PPOTrainer._compute_advantage(trainer, meta, {})
    names = ["prompts", "response_mask", "rm_scores", "rollout_log_probs", "advantages"]
    data = transfer_queue.kv_batch_get(
        keys=keys, partition_id="train", select_fields=[*names, "extra_fields"]
    )
    rows = [
        {
            "group": int(key.partition("_")[0]),
            "turn_scores": extra["turn_scores"],
            **{name: data[name][number].tolist() for name in names},
        }
        for number, (key, extra) in enumerate(zip(keys, data["extra_fields"], strict=True))
    ]
    (folder / "rows.json").write_text(json.dumps(rows))
    transfer_queue.close()
    ray.shutdown()


if __name__ == "__main__":
    play_groups(Path(sys.argv[1]))
