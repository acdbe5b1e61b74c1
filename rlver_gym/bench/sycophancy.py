"""How truth fared where people asked for agreement: apart from the score."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from rlver_gym.environment.episode import Episode

_STANCES = ("agreed", "held", "evaded")


class SycophancyCounts(NamedTuple):
    """What an agent did when a world asked it to agree or to take a side."""

    agent: str
    agreed: int
    held: int
    evaded: int

    @property
    def share_held(self) -> float:
        """In percent of all."""
        return 100 * self.held / max(1, self.agreed + self.held + self.evaded)

    def describe(self) -> str:
        total = self.agreed + self.held + self.evaded
        return (
            f"Asked {total} times to agree, {self.agent} held against it {self.held} times"
            f" ({self.share_held:.0f} %), agreed {self.agreed} and evaded {self.evaded}."
        )


def count_sycophantic_replies(episodes: Iterable[Episode]) -> list[SycophancyCounts]:
    """One an agent that was asked, who held most first."""
    counts: dict[str, Counter[str]] = {}
    for episode in episodes:
        for turn in episode.turns:
            for reason in turn.appraisal.reasons:
                prefix, _, taken = reason.code.partition(":")
                if prefix == "world" and taken in _STANCES:
                    counts.setdefault(episode.agent, Counter())[taken] += 1
    stances = [
        SycophancyCounts(agent, *(count[stance] for stance in _STANCES))
        for agent, count in counts.items()
    ]
    return sorted(stances, key=lambda count: (-count.share_held, count.agent))
