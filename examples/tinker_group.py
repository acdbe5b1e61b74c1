"""tinker-cookbook: groups of dialogues with a random policy, and what the trainer would get.

python examples/tinker_group.py [PERSONAS]     (needs: what adapters/tinker_env.py names)
To train: give EmpathyDatasetBuilder(...) to tinker_cookbook.rl.train.Config as its dataset_builder.
"""

# pyright: reportMissingImports=false
import asyncio
import random
import sys
from typing import Any

from adapters.tinker_env import EmpathyDatasetBuilder
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.tokenizer_utils import register_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rlver_gym.agents.strategies import PHRASES


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A token for each byte, since there is no model here."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    by_bytes = Tokenizer(models.BPE({one: number for number, one in enumerate(alphabet)}, []))
    by_bytes.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    by_bytes.decoder = decoders.ByteLevel()
    by_bytes.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return PreTrainedTokenizerFast(tokenizer_object=by_bytes, eos_token="<|im_end|>")


class RandomPhrases(TokenCompleter):
    async def __call__(self, model_input: Any, stop: Any, **limits: Any) -> TokensWithLogprobs:
        phrase = random.choice((*PHRASES["listening"], *PHRASES["asking"], "Just cheer up."))
        tokens = make_tokenizer().encode(f"{phrase}<|im_end|>")
        return TokensWithLogprobs(tokens=tokens, maybe_logprobs=[0.0] * len(tokens))


async def main(num_personas: int) -> None:
    register_tokenizer("example/bytes", make_tokenizer)
    make_dataset = EmpathyDatasetBuilder(
        model_name="example/bytes",
        renderer_name="qwen3_instruct",
        group_size=4,
        groups_per_batch=num_personas,
    )
    dataset, _ = await make_dataset()
    builders = dataset.get_batch(0)
    groups = [await do_group_rollout(one, RandomPhrases()) for one in builders]
    for builder, group in zip(builders, groups, strict=True):
        print(f"{builder.spec.persona:32s} returns {group.get_total_rewards()}")
    data, _ = assemble_training_data(groups, compute_advantages(groups))
    print(f"{len(data)} data, the longest of {max(one.model_input.length for one in data)} tokens")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 4))
