"""What one dialogue of the policy leaves behind: token ids that were really sampled, and rewards.
All frozen; nothing here acts, and nothing needs torch.

Axes: T tokens of a sequence, N turns of a dialogue.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

OnProgress = Callable[[str, int, int], None]
"""Told within an iteration: what is going on, and how much of how much of it is done."""


def ignore_progress(stage: str, done: int, total: int) -> None: ...


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A run of token ids to learn from. A policy that answers directly leaves one a dialogue; one
    that thinks leaves one a turn, since its earlier thoughts are not in its later prompts, and so
    does one that tries several replies.
    """

    id_T: NDArray[np.int64]
    action_mask_T: NDArray[np.bool_]
    """The policy chose this token; the end-of-turn token counts when it was sampled."""
    logprob_T: NDArray[np.float32]
    """The sampler's, at its temperature, in nats; 0 where nothing was sampled."""
    turn_T: NDArray[np.int32]
    """To which turn of the dialogue a sampled token belongs, from 0; -1 elsewhere."""


class TranscriptLine(NamedTuple):
    """One thing said, for people to read. `thought` is what the policy hid from the user."""

    speaker: str
    text: str
    thought: str = ""


class Alternative(NamedTuple):
    """A reply that was tried at a turn and not said."""

    turn: int
    sequence: TokenSequence
    """All that was said before, and the reply."""
    reward: float
    """What the environment would have given for it."""
    format_error: bool


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A dialogue that was played to its end."""

    group: int
    """Dialogues of one group had the same persona and seed."""
    seed: int
    reward_N: NDArray[np.float32]
    """What the environment gave for each turn."""
    format_error_N: NDArray[np.bool_]
    """The reply of this turn broke the format that was asked for."""
    sequences: tuple[TokenSequence, ...]
    lines: tuple[TranscriptLine, ...]
    info: dict[str, Any]
    """The environment's last info: emotion, outcome, persona, where it gives them."""
    valid: bool = True
    """False when the user failed: left out of learning and of averages."""
    context_overflow: bool = False
    """True when the context was full: it counts with what it earned until then."""
    logprob_missing: bool = False
    """True when it broke off because the sampler gave a token no log-probability."""
    cut_N: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """The reply of this turn was cut at the token limit."""
    paid_N: NDArray[np.float32] | None = None
    """`reward_N` without an own reward; None where it has none."""
    alternatives: tuple[Alternative, ...] = ()
    """Replies tried and not said, turn by turn; with any, each turn is a sequence of its own."""

    @property
    def total_reward(self) -> float:
        return float(self.reward_N.sum())
