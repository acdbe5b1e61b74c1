"""Every choice of a warm start, in one frozen value. Its options and checks come from it."""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from rlver_gym.policy.config import PromptOptions
from rlver_gym.policy.models.precision import Dtype
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.field_errors import explain_invalid

_TINY_LR, _LR = 3e-3, 5e-5
_SHORT = 64
"""Tokens of a reply of a model that learned from the benchmark's agents."""
_HELD_OUT = 0.1


class SftConfig(PromptOptions):
    """A warm start, completely described. Unknown fields are an error."""

    model: str = "tiny"
    """A causal LM: a Hugging Face name, a folder, tiny or smollm2."""
    agent: tuple[str, ...] = ()
    """Whom to learn from; repeat it for more, and for a larger share. None takes stock comfort,
    advice, and two who reflect what they heard."""
    data: tuple[Path, ...] = ()
    """Learn from demonstrations in this file instead (rlver-gym export … --to sft, or --to openai);
    repeat it for more."""
    dialogues: int = Field(default=768, ge=1)
    """How many dialogues of agents to learn from."""
    epochs: int = Field(default=4, ge=1)
    """Passes over them."""
    lr: float | None = Field(default=None, gt=0)
    """Learning rate at its highest; none takes 3e-3 for tiny, 5e-5 for a model that has learned
    before."""
    reply_tokens: int | None = Field(default=None, ge=1)
    """How long its replies may be later; none takes 64, or the longest demonstration in --data."""
    held_out: float | None = Field(default=None, ge=0, lt=1)
    """The share of people whose dialogues are not learned from, but show the loss; none takes a
    tenth of those in --data, and nobody where agents talk."""
    dtype: Dtype = "auto"
    """What is computed in; auto is bfloat16 on a GPU and float32 elsewhere."""
    lora_rank: int = Field(default=0, ge=0)
    """Rank of LoRA adapters, merged into the model at the end; 0 trains all weights."""
    save_every: int = Field(default=100, ge=1)
    """Steps between checkpoints."""
    seed: int = Field(default=0, ge=0)
    """Decides the dialogues, who is held out, and the order."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name in ("agent", "dialogues"):
            if self.data and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} would be ignored: data says what to learn. Leave it out.")
        return self

    @property
    def highest_lr(self) -> float:
        return self.lr or (_TINY_LR if self.model == "tiny" else _LR)

    @property
    def held_out_share(self) -> float:
        if self.held_out is None:
            return _HELD_OUT if self.data else 0.0
        return self.held_out

    def limit_replies(self, longest: int) -> int:
        """The tokens that a reply may have later, where the longest that it learned has so many."""
        return self.reply_tokens or (longest if self.data else _SHORT)


def make_sft_config(values: dict[str, Any], source: str) -> SftConfig:
    end = ". See: rlver-gym sft --help"
    with explain_invalid(TrainingError, f"{source}: ", "the combination", end):
        return SftConfig(**values)
