"""TRL's GRPOTrainer with our rollout_func: dialogues, tokens, masks, rewards as our learner's."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from failing import FailsInTurn
from tiny_trainer import PEOPLE, TRL_MARKS, Reciting, batch_of, make_trainer

from rlver_gym.integrations.trl import Rollout, final_emotion, prompt_rows
from rlver_gym.policy.learning.algorithms import group_relative
from rlver_gym.policy.learning.rollouts import pack_rollouts
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.models.rollout import ResetSpec, collect_rollouts
from rlver_gym.policy.models.sampler import Completion, ModelSampler, Sampling
from rlver_gym.util.errors import TrainingError

pytestmark = TRL_MARKS


def test_trl_and_our_own_learner_have_the_same_tokens_masks_and_rewards(tmp_path):
    trainer = make_trainer(tmp_path, scale_rewards="none", num_iterations=2, temperature=1.3)
    rows = batch_of(trainer)
    torch.manual_seed(7)
    theirs = trainer._generate_and_score_completions(rows)

    torch.manual_seed(7)
    tokenizer = trainer.processing_class
    renderer = Renderer(tokenizer, rows[0]["prompt"][0]["content"])
    rollouts = pack_rollouts(
        collect_rollouts(
            ModelSampler(trainer.model),
            renderer,
            Sampling(8, renderer.stop_ids, 1.3),
            [gym.make("rlver_gym:RLVER-Empathy-v0") for _ in range(4)],
            [
                ResetSpec(number, 0, number // 2, {"persona": PEOPLE[number // 2]})
                for number in range(4)
            ],
            draw_seed=int(torch.randint(2**31, ())),
            max_tokens=4000,
        )
    )
    ours = rollouts.tokens
    assert len(rollouts.group_D) == 4
    for number, length in enumerate(ours.length_B):
        prompt, said = (theirs[f"{part}_mask"][number].bool() for part in ("prompt", "completion"))
        prompt_ids = theirs["prompt_ids"][number][prompt]
        completion_ids = theirs["completion_ids"][number][said]
        mask, logprobs = (
            theirs[name][number][said] for name in ("tool_mask", "old_per_token_logps")
        )
        assert (
            torch.cat([prompt_ids, completion_ids]).tolist() == ours.id_BT[number, :length].tolist()
        )
        assert [*[0] * len(prompt_ids), *mask.tolist()] == ours.action_mask_BT[
            number, :length
        ].int().tolist()
        sampled = ours.sampled_BT[number, len(prompt_ids) : length][mask.bool()]
        assert torch.allclose(logprobs[mask.bool()], sampled, atol=1e-3), (
            "TRL's own log-probabilities"
        )
        reward_N = rollouts.reward_R[rollouts.dialogue_R == number]
        assert rows[number]["turn_rewards"] == reward_N.tolist()
        assert rows[number]["emotion"] == 40 + reward_N.sum()
    advantages = group_relative(
        np.bincount(rollouts.dialogue_R, rollouts.reward_R) / 100, rollouts.group_D, scale=False
    )
    assert np.ptp(advantages) > 0, "dialogues that earn the same would not show a difference"
    assert theirs["advantages"].tolist() == pytest.approx(advantages.tolist(), abs=1e-5)


def test_the_columns_reach_the_reward_functions_and_the_weights_move(tmp_path):
    seen = {}

    def first_turn(turn_rewards, **columns):
        seen.update(columns)
        return [rewards[0] for rewards in turn_rewards]

    trainer = make_trainer(tmp_path, rewards=[final_emotion, first_turn], learning_rate=1e-2)
    before = [weight.clone() for weight in trainer.model.parameters()]
    trainer.train()
    assert {"emotion", "dialogue", "persona", "seed", "outcome", "context_overflow"} <= set(seen)
    assert set(seen["outcome"]) <= {"content", "left", "out_of_turns"}
    (logged,) = [line for line in trainer.state.log_history if "reward" in line]
    assert logged["emotion"] == pytest.approx(sum(seen["emotion"]) / 4)
    assert logged["context_overflow"] == 0
    assert any(
        (old != new).any() for old, new in zip(before, trainer.model.parameters(), strict=True)
    )


def test_a_dialogue_that_broke_off_is_nothing_to_learn_from(tmp_path):
    trainer = make_trainer(
        tmp_path, rollout=Rollout(max_reply_tokens=8, user=FailsInTurn(1, personas=PEOPLE[1:]))
    )
    rows = batch_of(trainer)
    scored = trainer._generate_and_score_completions(rows)
    assert [row["emotion"] is None for row in rows] == [False, False, True, True]
    assert [row["outcome"] for row in rows[2:]] == ["failed", "failed"]
    learned_B = scored["tool_mask"].mul(scored["completion_mask"]).sum(1).ne(0)
    assert learned_B.tolist() == [True, True, False, False]
    assert scored["advantages"][2:].tolist() == [0, 0]


def test_where_a_server_gave_no_log_probabilities_there_is_nothing_to_learn_from(tmp_path):
    class WithoutLogprobs(Reciting):
        def sample(self, prompts, sampling):
            drawn = super().sample(prompts, sampling)
            return [Completion(one.ids, [float("nan")] * len(one.ids)) for one in drawn]

    trainer = make_trainer(tmp_path, rollout=Rollout(sampler=WithoutLogprobs(["Hello."])))
    columns = trainer.rollout_func([row["prompt"] for row in batch_of(trainer)[:2]], trainer)
    assert columns["env_mask"] == [[0], [0]]
    assert columns["emotion"] == [None, None]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_p": 0.1}, "knows no min_p.*Leave that out"),
        ({"repetition_penalty": 1.2}, "repetition_penalty"),
        ({"max_completion_length": 60}, "max_completion_length is 60.*4096"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_a_remedy(tmp_path, settings, message):
    with pytest.raises(TrainingError, match=message):
        make_trainer(tmp_path, **settings).train()


def test_prompts_that_say_too_little_are_refused_with_a_remedy(tmp_path):
    trainer = make_trainer(tmp_path)
    good = prompt_rows(PEOPLE[:1])[0]["prompt"]
    other = prompt_rows(PEOPLE[:1], system="Be kind.")[0]["prompt"]
    for prompts, message in (
        (["Hello."] * 2, "whom to meet.*prompt_rows"),
        ([[{"role": "user", "content": "Hello."}]] * 2, "whom to meet.*prompt_rows"),
        ([good[1:]] * 2, "same system message.*prompt_rows"),
        ([good, good, other, other], "same system message"),
        ([good] * 3, "did not hand each prompt over 2 times"),
    ):
        with pytest.raises(TrainingError, match=message):
            trainer.rollout_func(prompts, trainer)
