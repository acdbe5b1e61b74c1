"""tinker-cookbook's rollouts, renderers and data, with a policy that needs no service."""

import asyncio
import pickle

import pytest

pytest.importorskip("tinker_cookbook")

from adapters.tinker_env import EmpathyDatasetBuilder, EmpathyGroupBuilder
from failing import FailsInTurn
from integrations.drivers.tinker import TOKENIZER, Script, make_renderer
from integrations.scripted import LONG, hold_episode
from tinker_cookbook.rl.rollout_presets import agentic
from tinker_cookbook.rl.rollout_strategy import RetryOnFailure
from tinker_cookbook.rl.rollouts import do_group_rollout

from rlver_gym import Appraisal, Reason
from rlver_gym.core.dialogue import ReasonCode
from rlver_gym.integrations.episodes import EpisodeSpec, list_specs
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser

pytestmark = pytest.mark.usefixtures("close_shared_clients")
SPEC = EpisodeSpec(library().ids("train")[3], 5)


class Grateful(EmbeddedUser):
    """Feels a point better with everything that is said."""

    def appraise(self, scene, emotion, dialogue):
        return Appraisal(1, "", (Reason(ReasonCode.WHOLE, 1, ""),))


def make_group(**arguments):
    return EmpathyGroupBuilder(SPEC, make_renderer(), **{"group_size": 2, **arguments})


def roll_out(group, utterances=LONG, strategy=None):
    policy = Script(group.renderer, utterances)
    return asyncio.run(do_group_rollout(group, policy, strategy)), policy


def reference(utterances=LONG):
    return hold_episode(SPEC.persona, SPEC.seed, utterances)


def test_a_dialogue_of_all_turns_keeps_its_reward_where_limits_take_it():
    group = pickle.loads(pickle.dumps(make_group(user=Grateful())))
    group = asyncio.run(
        do_group_rollout(
            group, Script(group.renderer, LONG), RetryOnFailure(), termination=agentic().termination
        )
    )
    assert group.get_total_rewards() == [8.0, 8.0]
    assert [one.stop_reason for one in group.trajectories_G] == ["completed"] * 2


def test_a_failed_rollout_is_tried_again_and_does_not_count():
    group, _ = roll_out(make_group(user=FailsInTurn(2, times=1)), strategy=RetryOnFailure())
    assert group.get_total_rewards() == [sum(reference().rewards)] * 2
    assert [one.error_type for one in group.rollout_errors] == ["UserFailed"]


def test_a_reply_that_did_not_end_costs_as_much_as_the_worst_dialogue():
    group = make_group(group_size=1, max_trajectory_tokens=10)
    overflow, _ = roll_out(group)
    assert overflow.get_total_rewards() == [-40.0]
    assert min(sum(reference(["You are pathetic."] * 8).rewards), 0) >= -40.0
    sparse = EmpathyGroupBuilder(
        SPEC._replace(env="RLVER-Sparse-v0"), make_renderer(), 1, max_trajectory_tokens=10
    )
    assert roll_out(sparse)[0].get_total_rewards() == [0.0]


def make_dataset(**arguments):
    names = {"model_name": TOKENIZER, "renderer_name": "qwen3_instruct"}
    builder = EmpathyDatasetBuilder(**names, group_size=4, groups_per_batch=16, **arguments)
    return asyncio.run(builder())


def test_dialogues_that_go_on_at_once_are_each_rendered_as_alone():
    groups = [make_group(group_size=4) for _ in range(4)]
    policies = [Script(one.renderer, LONG) for one in groups]

    async def roll_out_all():
        pairs = zip(groups, policies, strict=True)
        return await asyncio.gather(*[do_group_rollout(*pair) for pair in pairs])

    alone = set(roll_out(make_group(group_size=1))[1].prompts)
    asyncio.run(roll_out_all())
    assert [set(policy.prompts) for policy in policies] == [alone] * 4


def test_a_dataset_has_every_persona_with_every_seed_in_another_order():
    train, test = make_dataset(num_seeds=2)
    batches = [train.get_batch(index) for index in range(len(train))]
    specs = [one.spec for batch in batches for one in batch]
    every = list_specs(seeds=range(2))
    assert len(specs) == len(set(specs)) == len(every) // 16 * 16
    assert set(specs) <= set(every)
    assert specs != every[: len(specs)]
    assert {one.group_size for batch in batches for one in batch} == {4}
    assert [one.spec for one in test.get_batch(0)] == list_specs(split="validation")
    assert {one.group_size for one in test.get_batch(0)} == {1}
    with pytest.raises(IndexError, match="no batch"):
        train.get_batch(len(train))
