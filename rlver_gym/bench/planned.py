"""The dialogues of a plan, and where each stands. Counted, never listed: it may be a stranger's."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Case(NamedTuple):
    """One dialogue to hold: what makes an episode unique within a run."""

    agent: str
    persona: str
    seed: int
    """The user's."""


@dataclass(frozen=True)
class Planned:
    """All dialogues of a plan: each agent with each persona, under each seed."""

    agents: tuple[str, ...]
    personas: tuple[str, ...]
    seeds: int
    """Of all replicates together."""

    @property
    def count(self) -> int:
        return len(self.agents) * len(self.personas) * self.seeds

    def __contains__(self, case: tuple[str, str, int]) -> bool:
        agent, persona, seed = case
        return agent in self._agents and persona in self._personas and 0 <= seed < self.seeds

    def place(self, case: tuple[str, str, int]) -> tuple[int, int, int]:
        """Where a dialogue of the plan stands in it: for sorting."""
        agent, persona, seed = case
        return self._agents[agent], seed, self._personas[persona]

    def __iter__(self) -> Iterator[Case]:
        """All of them, in the plan's order."""
        return (
            Case(agent, persona, seed)
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
