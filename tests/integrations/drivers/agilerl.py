"""AgileRL: the utterances as tokens through its harness of rollouts."""

import warnings

import torch

with warnings.catch_warnings():  # what AgileRL imports speaks of what will change
    warnings.simplefilter("ignore")
    from agilerl.llm_envs import RolloutHarness

from adapters.agilerl_env import EmpathyTextEnv
from integrations.drivers import Played, find_words

from rlver_gym.integrations.episodes import list_specs
from rlver_gym.policy.models.model import load_tokenizer
from rlver_gym.util.errors import UserFailed


def make_harness(env, **options):
    """AgileRL's harness of an environment, with the tokenizer of the smallest model."""
    return RolloutHarness.local(env, load_tokenizer("tiny"), max_turns=env.max_turns, **options)


def complete(prompt, text):
    """The tokens of a prompt and of what is said then, as a policy gives them."""
    tokens = load_tokenizer("tiny").encode(f"{text}<|im_end|>", add_special_tokens=False)
    return torch.cat([prompt["input_ids"], torch.tensor([tokens])], dim=1)


def play(persona, seed, utterances, user="embedded"):
    env = EmpathyTextEnv(user=user)
    harness = make_harness(env)
    row = [spec.persona for spec in list_specs()].index(persona)
    rewards = []
    try:
        prompt, _ = harness.reset(seed=seed, row_index=row)
        for utterance in utterances:
            after, reward, terminated, truncated, _ = harness.step(complete(prompt, utterance))
            rewards.append(reward)
            if terminated or truncated:  # nobody reads the person's last words
                break
            prompt = after
    except UserFailed:
        return Played(rewards, None, failed=True)
    words = find_words(load_tokenizer("tiny").decode(prompt["input_ids"][0]))
    return Played(rewards, [one.removesuffix(f"\n{env.system_prompt}") for one in words])
