"""Scores as rows of tables."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile

from rlver_gym.bench.score import Score
from rlver_gym.bench.strategies import AgentStrategies
from rlver_gym.llm_client.settings import ADDRESS
from rlver_gym.util.interval import Spread, format_estimate, format_interval, format_mean

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
            f"{score.content:.0f} %",
            f"{score.left:.0f} %",
            f"{score.turns:.1f}",
            *(cells.get(score.agent, "–") for cells in (columns or {}).values()),
            format_estimate(score.to_best, signed=True) if score.to_best else "best",
            *([format_mean(score.at_worst)] if lacks else []),
            *(str(count(score)) for count in lacks.values()),
        ]
        for score in ranked
    ]


def need_rows(ranked: Sequence[Score]) -> list[list[str]]:
    """A heading, and the mean final emotion of each agent by hidden need."""
    needs = sorted({need for score in ranked for need in score.needs})
    return [["agent", *(need.replace("_", " ") for need in needs)]] + [
        [one.agent, *(f"{one.needs[need]:.0f}" if need in one.needs else "" for need in needs)]
        for one in ranked
    ]


def build_seed_noise_rows(spread: Spread, ranked: Sequence[Score]) -> list[list[str]]:
    """A heading, and how far the score of each agent moves between seeds of the user; beside it how
    far it would move with other personas.
    """
    final = {score.agent: score.final for score in ranked}
    heading = ["agent", "final emotion [95 %]", "SD", "range", "lowest", "highest"]
    return [heading] + [
        [
            one.agent,
            f"{format_mean(final[one.agent])} [{format_interval(final[one.agent])}]",
            *(f"{value:.1f}" for value in (one.sd, one.range, min(one.means), max(one.means))),
        ]
        for one in spread.agents
    ]


def build_user_shift_rows(spread: Spread) -> list[list[str]]:
    """A heading, and the score of each agent in each run."""
    return [["agent", *spread.replicates, "range"]] + [
        [one.agent, *(f"{mean:.1f}" for mean in one.means), f"{one.range:.1f}"]
        for one in spread.agents
    ]


def build_strategy_variety_rows(found: Sequence[AgentStrategies]) -> list[list[str]]:
    """A heading, and how many strategies the turns of each agent use, and how often they return."""
    heading = ["agent", "turns", "strategies a turn [95 %]", "stickiness [95 %]"]
    return [heading] + [
        [one.agent, f"{one.turns:,}"]
        + [format_estimate(value, digits=2) for value in (one.per_turn, one.stickiness)]
        for one in found
    ]


def build_strategy_rows(found: Sequence[AgentStrategies]) -> list[list[str]]:
    """A heading, and for each agent and strategy that it uses the share of turns and the change in
    them.
    """
    heading = ["agent", "strategy", "% of turns", "change", "without", "difference [95 %]"]
    return [heading] + [
        [
            one.agent,
            strategy,
            format_mean(use.share),
            *(format_mean(value, signed=True) for value in (use.change_with, use.change_without)),
            format_estimate(use.difference, signed=True),
        ]
        for one in found
        for strategy, use in one.uses.items()
        if use.share.mean
    ]


def shorten_agent_path(agent: str, agents: Collection[str]) -> str:
    """A path too long for its column without the folders that another agent's begins with too
    (alone, all but the last two): cut at the end, they would look the same. A model elsewhere
    without its address, where no other has its name.
    """
    model, at, _ = agent.partition(ADDRESS)
    if at:
        alike = [other for other in agents if other.partition(ADDRESS)[0] == model]
        return model if len(alike) < 2 else agent
    parts = agent.split("/")
    paths = [other.split("/") for other in agents if "/" in other and other != agent]
    head = max((_count_shared_folders(parts, path) for path in paths), default=len(parts) - 2)
    if len(agent) <= MAX_AGENT_WIDTH or head <= 1:
        return agent
    kind = "hf:" if agent.startswith("hf:") else ""
    return f"{kind}…/{'/'.join(parts[head:] or parts[-1:])}"


def _count_shared_folders(parts: list[str], path: list[str]) -> int:
    both = zip(parts, path, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))
