"""Tables of what a benchmark has shown, and scores as their rows."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from rlver_gym.bench.score import Score
from rlver_gym.llm_client.settings import ADDRESS
from rlver_gym.util.interval import format_estimate, format_mean

MAX_AGENT_WIDTH = 15
"""What eighty columns leave for an agent's name, in characters."""
_LACKS: dict[str, Callable[[Score], int]] = {
    "failed by agent": lambda score: score.failed_by_agent,
    "failed by user": lambda score: score.failed_by_user,
    "missing": lambda score: score.missing,
}
"""Why a dialogue has no end."""
Columns = Mapping[str, Mapping[str, str]]
"""Cells by their heading and by agent."""


class Table(NamedTuple):
    """A table of agents, wherever it is shown."""

    title: str
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


def build_score_rows(ranked: Sequence[Score], columns: Columns | None = None) -> list[list[str]]:
    """A heading, and of each agent final emotion, rates, turns, further columns, and the paired
    difference to the best; where dialogues failed or are missing, the score at worst, which ranks,
    and how many they are.
    """
    lacks = {why: count for why, count in _LACKS.items() if any(map(count, ranked))}
    headings = ["agent", "final emotion [95 %]", "content", "left", "turns", *(columns or {})]
    return [[*headings, "to the best [95 %]", *(["at worst", *lacks] if lacks else [])]] + [
        [
            score.agent,
            format_estimate(score.final),
            *(_format_rates(score) if score.num_ended else ["–"] * 3),
            *(cells.get(score.agent, "–") for cells in (columns or {}).values()),
            _format_difference(score) if score.num_ended else "–",
            *([format_mean(score.at_worst)] if lacks else []),
            *(str(count(score)) for count in lacks.values()),
        ]
        for score in ranked
    ]


def _format_rates(score: Score) -> list[str]:
    return [f"{score.content:.0f} %", f"{score.left:.0f} %", f"{score.turns:.1f}"]


def _format_difference(score: Score) -> str:
    return format_estimate(score.to_best, signed=True) if score.to_best else "best"


def need_rows(ranked: Sequence[Score]) -> list[list[str]]:
    """A heading, and the mean final emotion of each agent by hidden need."""
    needs = sorted({need for score in ranked for need in score.needs})
    return [["agent", *(need.replace("_", " ") for need in needs)]] + [
        [
            score.agent,
            *(f"{score.needs[need]:.0f}" if need in score.needs else "" for need in needs),
        ]
        for score in ranked
    ]


def shorten_agent_path(agent: str, agents: Collection[str]) -> str:
    """A path too long for its column without the folders that all agents' paths begin with
    (alone, all but the last two): cut at the end, they would look the same. A model elsewhere
    without its address, where no other has its name.
    """
    model, at, _ = agent.partition(ADDRESS)
    if at:
        alike = [other for other in agents if other.partition(ADDRESS)[0] == model]
        return model if len(alike) < 2 else agent
    parts = agent.split("/")
    paths = [other.split("/") for other in agents if "/" in other and other != agent]
    pairs = (zip(parts, path, strict=False) for path in paths)
    shared = (len([*takewhile(lambda pair: pair[0] == pair[1], both)]) for both in pairs)
    known = [count for count in shared if count > 1]
    head = min(known, default=0 if paths else len(parts) - 2)
    if len(agent) <= MAX_AGENT_WIDTH or head <= 1:
        return agent
    kind = "hf:" if agent.startswith("hf:") else ""
    return f"{kind}…/{'/'.join(parts[head:] or parts[-1:])}"
