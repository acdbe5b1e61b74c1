"""AgileRL: its harness plays dialogues as tokens. Its GRPO trains on them in the example."""

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("agilerl")

with warnings.catch_warnings():  # what AgileRL imports speaks of what will change
    warnings.simplefilter("ignore")
    from integrations.drivers.agilerl import complete, make_harness
from adapters.agilerl_env import EmpathyTextEnv
from integrations.scripted import UTTERANCES, hold_episode

from rlver_gym.library.personas import library
from rlver_gym.policy.models.model import load_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")
SEED = 5


def test_a_rollout_holds_the_dialogue_and_a_reward_for_each_turn():
    harness = make_harness(EmpathyTextEnv())
    prompt, _ = harness.reset(seed=SEED, row_index=0)
    for one in UTTERANCES:
        prompt, *_ = harness.step(complete(prompt, one))
    ids, action_mask, turn_ids, rewards, *_ = harness.get_episode_data()
    episode = hold_episode(library().ids("train")[0], SEED, UTTERANCES)
    assert rewards.tolist() == episode.rewards + [0.0] * 5
    decode = load_tokenizer("tiny").decode
    for turn, one in enumerate(UTTERANCES):
        assert decode(ids[0, 1:][turn_ids[0] == turn]) == f"{one}<|im_end|>"
    assert torch.equal(action_mask, turn_ids >= 0)
    text = decode(prompt["input_ids"][0])
    places = [text.index(one["content"]) for one in episode.messages]
    assert places == sorted(places)
