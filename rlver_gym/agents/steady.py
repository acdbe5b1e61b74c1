"""An agent that does one thing in every turn: what a single strategy is worth."""

from collections.abc import Sequence

from rlver_gym.agents.quoting import rank_by_recency
from rlver_gym.agents.strategies import STRATEGIES, Strategy, said
from rlver_gym.core.agent import Quick, turn_of
from rlver_gym.core.dialogue import Message
from rlver_gym.io.errors import UnknownName

_KIND = "strategy"


class Steady(Quick):
    """Takes up what was said last, each time in the manner of the same strategy.

    The strategy view takes up the richest first. This does people as much good, and a small model can learn it.
    """

    def __init__(self, strategy: Strategy, seed: int = 0) -> None:
        """`seed` shifts the phrasing."""
        self.strategy, self.seed = strategy, seed

    def reply(self, messages: Sequence[Message]) -> str:
        """One utterance about what was said."""
        return said(self.strategy, messages, turn_of(messages) + self.seed, rank_by_recency)


def strategy_of(name: str) -> Strategy | None:
    """The strategy of "strategy:NAME", NAME in lower case; None for any other agent. UnknownName when there is no such strategy."""
    kind, _, which = name.partition(":")
    if kind != _KIND:
        return None
    known = {one.name.lower(): one for one in STRATEGIES}
    if which not in known:
        raise UnknownName.of("strategy", which, tuple(known), ", ".join(known))
    return known[which]
