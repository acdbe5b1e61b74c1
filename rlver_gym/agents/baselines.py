"""Seven simple agents to compare with. None knows the person; most do not look at them."""

import random
import string
from collections.abc import Callable, Sequence

from rlver_gym.agents.quoting import rank_by_recency
from rlver_gym.agents.strategies import PHRASES, quote_sentence
from rlver_gym.core.agent import NonBlocking, turn_of, user_lines
from rlver_gym.core.dialogue import Message

_STOCK: dict[str, list[str]] = PHRASES["baselines"]


class _Phrasebook(NonBlocking):
    """Says one stock utterance after the other, whatever it hears."""

    def __init__(self, phrases: Sequence[str], seed: int = 0) -> None:
        self.phrases = phrases
        self.seed = seed

    def reply(self, messages: Sequence[Message]) -> str:
        return self.phrases[(turn_of(messages) + self.seed) % len(self.phrases)]


class Silent(NonBlocking):
    """Says nothing."""

    def reply(self, messages: Sequence[Message]) -> str:
        return ""


class _Echo(NonBlocking):
    """Gives the user's last words back, letter by letter."""

    def reply(self, messages: Sequence[Message]) -> str:
        return messages[-1].text


class _Gibberish(NonBlocking):
    """Types random letters."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def reply(self, messages: Sequence[Message]) -> str:
        rng = random.Random(f"{self.seed}/{turn_of(messages)}")
        return " ".join(
            "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 9))) for _ in range(12)
        )


class Listener(NonBlocking):
    """Quotes something short that was said, names a feeling, and asks; alike for everybody."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def reply(self, messages: Sequence[Message]) -> str:
        """A quotation when there is something short and new, a feeling, and an open question."""
        number, felt, asking = turn_of(messages) + self.seed, PHRASES["felt"], PHRASES["asking"]
        spoken = [message.text for message in messages if message.speaker == "agent"]
        parts = [
            quote_sentence(fact, number)
            for fact in rank_by_recency(user_lines(messages)[-2:], spoken)[:1]
        ]
        start = len(messages[0].text)  # so that people hear the phrases in other pairs
        parts += [felt[(3 * number + start) % len(felt)], asking[number % len(asking)]]
        return " ".join(parts)


BASELINES: dict[str, Callable[[int], object]] = {
    "silent": lambda seed: Silent(),
    "echo": lambda seed: _Echo(),
    "gibberish": _Gibberish,
    "advice": lambda seed: _Phrasebook(_STOCK["advice"], seed),
    "comfort": lambda seed: _Phrasebook(_STOCK["comfort"], seed),
    "praise": lambda seed: _Phrasebook(_STOCK["praise"], seed),
    "listener": Listener,
}
