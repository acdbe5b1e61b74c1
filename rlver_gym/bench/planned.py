"""The dialogues of a plan, and where each stands. Counted, never listed: it may be a stranger's."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

Key = tuple[str, str, int]
"""Agent, persona and seed: what makes an episode unique within a run."""


@dataclass(frozen=True)
class Planned:
    """All dialogues of a plan: each agent with each persona, under each seed."""

    agents: tuple[str, ...]
    personas: tuple[str, ...]
    seeds: int
    """Of all replicates together."""

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.agents) * len(self.personas) * self.seeds

    def __contains__(self, key: Key) -> bool:
        """Whether the plan has this dialogue."""
        agent, persona, seed = key
        return agent in self._agents and persona in self._personas and 0 <= seed < self.seeds

    def place(self, key: Key) -> tuple[int, int, int]:
        """Where a dialogue of the plan stands in it: for sorting."""
        agent, persona, seed = key
        return self._agents[agent], seed, self._personas[persona]

    def __iter__(self) -> Iterator[Key]:
        """All of them, in the plan's order."""
        return (
            (agent, persona, seed)
            for agent in self.agents
            for seed in range(self.seeds)
            for persona in self.personas
        )

    @cached_property
    def _agents(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.agents)}

    @cached_property
    def _personas(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.personas)}
