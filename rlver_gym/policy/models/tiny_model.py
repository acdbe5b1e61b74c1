"""A tiny Qwen2 with a tokenizer of its own, for tests and for trying the learner out.

It knows nothing: give it a warm start.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from rlver_gym.agents import make_agent
from rlver_gym.core.cards import DEFAULT_ENV, env_card
from rlver_gym.environment.rollout import run_episode
from rlver_gym.environment.session import EmpathySession
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.model_cache import hide_progress_bars

VERSION = "v8"
"""Bumped when the same arguments would give another model."""
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] +"
    " '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%"
    " endif %}"
)
_HEADS = 4
_TEACHERS = ("comfort", "praise", "advice", "listener", "adaptive", "oracle")


def build_tiny_model(
    folder: Path,
    *,
    seed: int = 0,
    hidden: int = 128,
    layers: int = 2,
    vocab: int = 3000,
    max_tokens: int = 4096,
    rope_theta: float = 1e6,
) -> None:
    """Write model and tokenizer. `seed` decides the weights, the version the tokenizer."""
    tokenizer = build_tokenizer(list(generate_tokenizer_corpus()), vocab)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=hidden * 3,
        num_hidden_layers=layers,
        num_attention_heads=_HEADS,
        num_key_value_heads=_HEADS,
        head_dim=2 * hidden // _HEADS,  # pyright: ignore[reportCallIssue]  Qwen2's layers read it, its config only passes it on
        max_position_embeddings=max_tokens,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.vocab["<|im_end|>"],
        pad_token_id=tokenizer.vocab["<|endoftext|>"],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(config)
    with hide_progress_bars():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def build_tokenizer(lines: list[str], vocab: int) -> Qwen2Tokenizer:
    """A byte-level BPE of `vocab` pieces that comes back the same from disk: any other class saved
    beside a Qwen2 is reloaded with Qwen's own splitting.
    """
    from tokenizers import AddedToken, pre_tokenizers  # noqa: PLC0415

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bare = Qwen2Tokenizer(
        vocab={**{piece: i for i, piece in enumerate(alphabet)}, "<|endoftext|>": 256}, merges=[]
    )
    tokenizer = bare.train_new_from_iterator(lines, vocab)
    tokenizer.add_special_tokens(
        {"eos_token": "<|im_end|>", "extra_special_tokens": ["<|im_start|>"]}
    )
    tokenizer.add_tokens([AddedToken(tag, special=False) for tag in ("<think>", "</think>")])
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def generate_tokenizer_corpus(people: int = 40) -> Iterator[str]:
    """What is said in dialogues of the shipped agents with people of the training split."""
    card = env_card(DEFAULT_ENV).model_copy(update={"leave_below": 0, "content_at": 100})
    user, cards = EmbeddedUser(), library()
    for number, persona in enumerate(map(cards.get, cards.ids("train")[:people])):
        agent = make_agent(_TEACHERS[number % len(_TEACHERS)], persona, seed=number)
        session = EmpathySession(user, persona, card, seed=number)
        run_episode(session, agent)
        yield from (message.text for message in session.dialogue.messages())
