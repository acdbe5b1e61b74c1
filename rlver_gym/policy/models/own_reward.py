"""A reward of one's own, MODULE:NAME: what it gets, and its value in words that can be mended."""

import hashlib
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rlver_gym.util.errors import TrainingError
from rlver_gym.util.user_code import describe_error, import_own

_HINT = "Write it as: def NAME(reply: RewardedReply) -> float (docs/training.md)."


class RewardedReply(NamedTuple):
    """A reply of the policy and what the environment gave for it."""

    text: str
    """What was said, without thoughts."""
    thought: str
    """What a policy that thinks hid from the person; else empty."""
    users: tuple[str, ...]
    """What the person had said, from their first words to those that the reply answers."""
    replies: tuple[str, ...]
    """What the policy had said before."""
    change: float
    """What the environment gave: of the shipped ones the change of emotion, in points."""
    tokens: int
    """How long it is, thoughts and the token that ends it included."""
    persona: str
    """With whom, where the environment says so; else empty."""


class OwnReward:
    """A function of somebody's own that adds to the rewards. Workers call it at the same time."""

    def __init__(self, name: str) -> None:
        """TrainingError when there is no such function, or it cannot be called with a reply."""
        self.name, module = name, import_own("reward", name, TrainingError)
        function: Any = getattr(module, name.partition(":")[2], None)
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise TrainingError(
                f"the reward {name} is not there: {module.__file__} has no plain function of that"
                f" name. {_HINT}"
            )
        try:
            inspect.signature(function).bind(None)
        except TypeError as error:
            raise TrainingError(
                f"the reward {name} cannot be called with the reply alone ({error}). {_HINT}"
            ) from None
        self._function: Callable[[RewardedReply], object] = function
        self.hash = hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()[:16]
        """Of its file, what that imports not looked at."""

    def __call__(self, reply: RewardedReply) -> float:
        """The reply's change and the function's value. TrainingError for no finite number."""
        try:
            value = self._function(reply)
            number = float(value) if isinstance(value, int | float) else math.nan
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # anybody's code: an exit must not end a thread unheard
            raise TrainingError(
                f"the reward {self.name} failed ({describe_error(error)}). Mend it and begin with"
                " another --out; --model RUN/checkpoints/N/model keeps what was learned."
            ) from error
        if not math.isfinite(number):
            raise TrainingError(
                f"the reward {self.name} must give a finite number, not {type(value).__name__}"
                f" {value!r:.80}. {_HINT}"
            )
        return reply.change + number
