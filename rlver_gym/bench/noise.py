"""The noise floor: how far scores and the order of agents move when the user changes."""

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean

from rlver_gym.bench.compare import Comparison
from rlver_gym.bench.score import Score, compute_persona_finals
from rlver_gym.bench.table import Table
from rlver_gym.environment.episode import Episode
from rlver_gym.util.groups import group
from rlver_gym.util.interval import REPEATABILITY, AgentSpread, Spread, format_interval, format_mean


def measure_spread_over_user_seeds(
    episodes: Sequence[Episode], seeds: int, user_seeds: int
) -> Spread | None:
    """The spread over a run's replicates of `seeds` dialogues a persona; None for one."""
    by_number = group((episode.seed // seeds, episode) for episode in episodes)
    names = {f"user seed {number}": by_number.get(number, []) for number in range(user_seeds)}
    return _measure_spread(names)


def measure_noise(comparison: Comparison) -> Spread | None:
    """The same of the runs of one protocol."""
    protocol = comparison.protocol
    return measure_spread_over_user_seeds(comparison.episodes, protocol.seeds, protocol.user_seeds)


def measure_spread_over_runs(comparisons: Sequence[Comparison]) -> Spread | None:
    """The spread over run folders; None for one folder, or when they share no agent and persona."""
    return _measure_spread(
        {run.label: run.episodes for comparison in comparisons for run in comparison.runs}
    )


def _measure_spread(replicates: Mapping[str, Sequence[Episode]]) -> Spread | None:
    """The spread of the agents, and over the people, that all have; None without any."""
    spreads: list[AgentSpread] = []
    agents = {episode.agent for episodes in replicates.values() for episode in episodes}
    for agent in sorted(agents) if len(replicates) > 1 else ():
        finals = [compute_persona_finals(episodes, agent) for episodes in replicates.values()]
        if shared := [persona for persona in finals[0] if all(persona in by for by in finals)]:
            means = tuple(fmean(by[persona] for persona in shared) for by in finals)
            spreads.append(AgentSpread(agent, means))
    spreads.sort(key=lambda agent: -agent.mean)
    return Spread(tuple(replicates), tuple(spreads)) if spreads else None


def tabulate_seed_noise(spread: Spread, ranked: Sequence[Score]) -> Table:
    """How far agents' scores move with the user's seed; beside it, with other personas."""
    final = {score.agent: score.final for score in ranked}
    heading = ["agent", "final emotion [95 %]", "SD", "range", "lowest", "highest"]
    rows = [
        [
            each.agent,
            f"{format_mean(final[each.agent])} [{format_interval(final[each.agent])}]",
            *(f"{value:.1f}" for value in (each.sd, each.range, min(each.means), max(each.means))),
        ]
        for each in spread.agents
    ]
    title = "noise floor: other seeds of the user"
    return Table(title, [heading, *rows], describe_seed_noise(spread))


def tabulate_shift(spread: Spread) -> Table:
    rows = [
        [each.agent, *(f"{mean:.1f}" for mean in each.means), f"{each.range:.1f}"]
        for each in spread.agents
    ]
    title = "between the runs: agents in all of them"
    heading = ["agent", *spread.replicates, "range"]
    return Table(title, [heading, *rows], describe_shift_between_users(spread))


def describe_seed_noise(spread: Spread) -> list[str]:
    count, floor = len(spread.replicates), spread.noise_floor
    most = max(spread.agents, key=lambda agent: agent.sd)
    level = (
        f"Differences below {floor:.1f} points are noise of the user (95 %, pooled over agents;"
        f" {REPEATABILITY * most.sd:.1f} for {most.agent}, which moves most); of means over all"
        f" {count} user seeds, below {floor / sqrt(count):.1f}."
    )
    return [level, *_describe_ranking_stability(spread)]


def describe_shift_between_users(spread: Spread) -> list[str]:
    most = max(spread.agents, key=lambda agent: agent.range)
    level = (
        f"Level: scores differ by {fmean(agent.range for agent in spread.agents):.1f} points on"
        f" average, by {most.range:.1f} at most ({most.agent})."
    )
    return [level, *_describe_ranking_stability(spread)]


def _describe_ranking_stability(spread: Spread) -> list[str]:
    """Nothing where there is no order, such as with a single agent."""
    taus = spread.rank_correlations
    if len(taus) > 1:
        return [f"Order: Kendall tau {fmean(taus):.2f} on average, {min(taus):.2f} at least."]
    return [f"Order: Kendall tau {taus[0]:.2f}."] if taus else []
