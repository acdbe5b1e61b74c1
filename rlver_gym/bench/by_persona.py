"""Which people teach: what a learner that compares dialogues with one person would see in a run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import comb
from statistics import fmean, pstdev
from typing import NamedTuple

from rlver_gym.bench.score import drop_failed
from rlver_gym.bench.table import Table
from rlver_gym.environment.episode import Episode
from rlver_gym.util.groups import group

GROUPS = (4, 8)
"""Dialogues with one person that a group-relative learner compares (GRPO)."""
_NOTE = (
    "Silent: the share of groups that all end alike, from which GRPO and its kin learn nothing (–:"
    " too few dialogues, bench with --seeds 8). Regret: how far the best agent is ahead."
)


class PersonaSignal(NamedTuple):
    """What one agent's dialogues with one person have to teach."""

    persona: str
    dialogues: int
    mean: float
    """Final emotion, 0 to 100."""
    spread: float
    """Standard deviation of the final emotion, in points."""
    silent: Mapping[int, float | None]
    """By size of the group, the share of groups that all end alike; None for too few dialogues."""
    regret: float
    """How far the mean lies below the best agent's with this person, in points; 0 for the best."""


def measure_training_signal(episodes: Sequence[Episode]) -> dict[str, list[PersonaSignal]]:
    """By agent every person, the widest spread first; without dialogues that failed."""
    finals = group(
        ((episode.persona, episode.agent), episode.final) for episode in drop_failed(episodes)
    )
    best: dict[str, float] = {}
    for (persona, _), values in finals.items():
        best[persona] = max(best.get(persona, 0), fmean(values))
    signals = group(
        (
            agent,
            PersonaSignal(
                *(persona, len(values), fmean(values), pstdev(values)),
                silent={size: _share_of_groups_without_signal(values, size) for size in GROUPS},
                regret=best[persona] - fmean(values),
            ),
        )
        for (persona, agent), values in finals.items()
    )
    return {
        agent: sorted(own, key=lambda row: (-row.spread, row.persona))
        for agent, own in signals.items()
    }


def _share_of_groups_without_signal(finals: Sequence[int], size: int) -> float | None:
    if len(finals) < size:
        return None
    return sum(comb(count, size) for count in Counter(finals).values()) / comb(len(finals), size)


def tabulate_training_signal(episodes: Sequence[Episode]) -> list[Table]:
    silent = [f"silent of {size}" for size in GROUPS]
    heading = ["person", "n", "mean", "spread", *silent, "regret"]
    tables = []
    for agent, own in measure_training_signal(episodes).items():
        rows = [_format_row(signal.persona, [signal]) for signal in own]
        rows = [heading, *rows, _format_row("all, mean", own)]
        tables.append(Table(f"by persona: {agent}", rows, [_NOTE]))
    return tables


def _format_row(name: str, of: Sequence[PersonaSignal]) -> list[str]:
    shares = [[share for row in of if (share := row.silent[size]) is not None] for size in GROUPS]
    return [
        *(name, f"{fmean(row.dialogues for row in of):g}"),
        *(f"{fmean(row.mean for row in of):.1f}", f"{fmean(row.spread for row in of):.1f}"),
        *(f"{100 * fmean(known):.0f} %" if known else "–" for known in shares),
        f"{fmean(row.regret for row in of):.1f}",
    ]
