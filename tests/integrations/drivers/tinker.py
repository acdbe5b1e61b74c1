"""tinker-cookbook: a group rollout, its renderer for Qwen, a policy that recites in tokens."""

import asyncio
from functools import cache

from adapters.tinker_env import EmpathyGroupBuilder
from integrations.drivers import Played, find_words
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.tokenizer_utils import get_tokenizer, register_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rlver_gym.integrations.episodes import EpisodeSpec
from rlver_gym.util.errors import UserFailed

TOKENIZER = "rlver/bytes"


@cache
def _tokenize_bytes():
    """A token for each byte, and those of the chat format."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_only = Tokenizer(models.BPE({one: id for id, one in enumerate(alphabet)}, []))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    bytes_only.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return PreTrainedTokenizerFast(tokenizer_object=bytes_only, eos_token="<|im_end|>")


register_tokenizer(TOKENIZER, _tokenize_bytes)


def make_renderer():
    return get_renderer("qwen3_instruct", get_tokenizer(TOKENIZER), model_name=TOKENIZER)


class Script(TokenCompleter):
    """Says one utterance after the other in each of its dialogues, and "" when none is left."""

    def __init__(self, renderer, utterances):
        self.tokenizer = renderer.tokenizer
        self.utterances = utterances
        self.prompts = []

    async def __call__(self, model_input, stop, *, max_tokens=None):
        prompt = str(self.tokenizer.decode(model_input.to_ints()))
        self.prompts.append(prompt)
        turn = prompt.count("<|im_start|>assistant") - 1
        utterance = self.utterances[turn] if turn < len(self.utterances) else ""
        tokens = self.tokenizer.encode(f"{utterance}<|im_end|>", add_special_tokens=False)
        return TokensWithLogprobs(tokens=tokens, maybe_logprobs=[0.0] * len(tokens))


def play(persona, seed, utterances, user="embedded"):
    renderer = make_renderer()
    builder = EmpathyGroupBuilder(EpisodeSpec(persona, seed), renderer, group_size=1, user=user)
    policy = Script(renderer, utterances)
    try:
        group = asyncio.run(do_group_rollout(builder, policy))
    except UserFailed:
        return Played([], find_words(policy.prompts[-1]) if policy.prompts else [], failed=True)
    rewards = [one.reward for one in group.trajectories_G[0].transitions]
    texts = find_words(policy.prompts[-1])[: len(utterances)]
    return Played(rewards[: len(utterances)], texts)
