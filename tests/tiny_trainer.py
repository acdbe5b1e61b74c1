"""TRL's own trainer around a tiny model, for tests. Needs trl."""

import tempfile
from functools import lru_cache
from pathlib import Path

import pytest
import trl
from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportPrivateImportUsage] (loaded lazily)

from rlver_gym.integrations.trl import Rollout, final_emotion, prompt_rows
from rlver_gym.policy.models.model import load_model, load_tokenizer
from rlver_gym.policy.models.sampler import Completion
from rlver_gym.policy.models.tiny_model import build_tiny_model

TRL_MARKS = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # TRL and transformers warn of each other
    # Both doors are called experimental by TRL.
    pytest.mark.filterwarnings("ignore:You are using:UserWarning"),
]
TOOL_TEMPLATE = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text(
    encoding="utf-8"
)
"""A chat template that knows calls of tools."""
PEOPLE = ("noor-the-old-dog", "clara-silent-kitchen")


@lru_cache(maxsize=1)
def _model():
    kept = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    build_tiny_model(Path(kept.name), seed=3, vocab=600)
    return kept, kept.name


def tiny_model():
    """The folder of a tiny model; not to be written to."""
    return _model()[1]


def make_trainer(
    folder,
    rows=None,
    rewards=final_emotion,
    chat_template=None,
    factory=None,
    rollout=None,
    **settings,
):
    """Two prompts a step, two dialogues each, unless the settings say otherwise."""
    tokenizer = load_tokenizer(tiny_model())
    tokenizer.chat_template = chat_template or tokenizer.chat_template
    plain = {
        "per_device_train_batch_size": 4,
        "num_generations": 2,
        "max_completion_length": 4000,
        "max_steps": 1,
        "shuffle_dataset": False,
        "bf16": False,
        "use_cpu": True,
        "gradient_checkpointing": False,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 1,
    }
    return GRPOTrainer(
        load_model(tiny_model(), device="cpu"),
        rewards,
        GRPOConfig(str(folder), **{**plain, **settings}),
        prompt_rows(PEOPLE) if rows is None else rows,
        processing_class=tokenizer,
        rollout_func=None if factory else rollout or Rollout(max_reply_tokens=8),
        environment_factory=factory,
    )


def batch_of(trainer):
    """The rows that TRL hands over in its first step."""
    return next(iter(trainer.get_train_dataloader()))


class Reciting:
    """A sampler that says what it was given, turn by turn, in every dialogue."""

    at_once = None

    def __init__(self, utterances):
        tokenizer = load_tokenizer(tiny_model())
        self.turns = [tokenizer(f"{one}{tokenizer.eos_token}")["input_ids"] for one in utterances]

    def sample(self, prompts, sampling):
        ids = self.turns.pop(0)
        return [Completion(ids, [-1.0] * len(ids)) for _ in prompts]

    def forget(self):
        """There is nothing to forget."""
