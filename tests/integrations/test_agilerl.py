"""AgileRL: its harness and collector play dialogues as tokens, its GRPO trains on them, and its PPO
takes the strategy view.
"""

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("agilerl")

with warnings.catch_warnings():  # what AgileRL imports speaks of what will change
    warnings.simplefilter("ignore")
    from agilerl.algorithms import GRPO
    from agilerl.llm_envs import RolloutCollector
    from agilerl.training.llm.rollout import train_llm_rollout
    from integrations.drivers.agilerl import complete, make_harness
    from peft import LoraConfig
    from transformers import GPT2Config, GPT2LMHeadModel
from adapters.agilerl_env import EmpathyTextEnv
from integrations.scripted import UTTERANCES, hold_episode

from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.library import library
from rlver_gym.policy.models.model import load_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")
PEOPLE = library().ids("train")[:3]
SEED = 5


def reference(utterances, persona=PEOPLE[0]):
    return hold_episode(persona, SEED, utterances)


def test_a_rollout_holds_the_dialogue_and_a_reward_for_each_turn():
    harness = make_harness(EmpathyTextEnv())
    prompt, _ = harness.reset(seed=SEED, row_index=0)
    for one in UTTERANCES:
        prompt, *_ = harness.step(complete(prompt, one))
    ids, action_mask, turn_ids, rewards, *_ = harness.get_episode_data()
    episode = reference(UTTERANCES)
    assert rewards.tolist() == episode.rewards + [0.0] * 5
    decode = load_tokenizer("tiny").decode
    for turn, one in enumerate(UTTERANCES):
        assert decode(ids[0, 1:][turn_ids[0] == turn]) == f"{one}<|im_end|>"
    assert torch.equal(action_mask, turn_ids >= 0)
    text = decode(prompt["input_ids"][0])
    places = [text.index(one["content"]) for one in episode.messages]
    assert places == sorted(places)
    assert episode.messages[0]["content"] == agent_prompt()


def test_all_of_a_group_meet_the_same_person_in_the_same_mood():
    collector = RolloutCollector(lambda: make_harness(EmpathyTextEnv()), 3, 2)
    prompts = collector.reset(seed=SEED)
    first = [prompt["input_ids"][0].tolist() for prompt in prompts]
    assert first[::2] == first[1::2]
    assert len({tuple(one) for one in first}) == 3
    for one in UTTERANCES:
        prompts = collector.step([complete(prompt, one) for prompt in prompts])
    rewards = [env.turn_rewards for env in collector.envs]
    assert rewards[::2] == rewards[1::2]
    assert len({tuple(one) for one in rewards}) > 1
    collector.close()


def make_agent() -> GRPO:
    """GRPO on a small model, of a kind for which AgileRL has no kernels that need a GPU."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokenizer = load_tokenizer("tiny")
    size = {"n_positions": 1024, "n_embd": 32, "n_layer": 1, "n_head": 2}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    return GRPO(
        pad_token_id=tokenizer.pad_token_id,
        pad_token=tokenizer.pad_token,
        actor_network=GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **size, **ends)),
        batch_size=1,
        group_size=3,
        lr=1e-2,
        micro_batch_size_per_gpu=3,
        max_model_len=1024,
        max_output_tokens=8,
        lora_config=LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM"),
        use_liger_loss=False,
        gradient_checkpointing=False,
        device="cpu",
    )


@pytest.mark.slow
def test_a_language_model_is_trained_by_their_grpo_on_dialogues():
    agent = make_agent()
    before = {name: weight.clone() for name, weight in agent.actor.named_parameters()}
    harnesses = []

    def make_env():
        harnesses.append(make_harness(EmpathyTextEnv(), max_model_len=1024))
        return harnesses[-1]

    train_llm_rollout([agent], max_turns=8, env_factory=make_env, max_steps=3, verbose=False)
    returns = [sum(one.turn_rewards) for one in harnesses[:3]]
    assert all(one.done for one in harnesses[:3])
    assert len(set(returns)) > 1
    after = dict(agent.actor.named_parameters())
    assert all(torch.isfinite(weight).all() for weight in after.values())
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all("lora" in name for name in changed)
