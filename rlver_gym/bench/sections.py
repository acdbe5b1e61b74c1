"""What the report has beside the scores, as JSON and as Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlver_gym.bench.by_persona import measure_training_signal, tabulate_training_signal
from rlver_gym.bench.compare import Comparison
from rlver_gym.bench.flagged import format_alerts
from rlver_gym.bench.noise import (
    measure_noise,
    measure_spread_over_runs,
    tabulate_seed_noise,
    tabulate_shift,
)
from rlver_gym.bench.opinions import Opinions, read_capabilities, read_opinions, tabulate_opinions
from rlver_gym.bench.score import score_to_json
from rlver_gym.bench.strategies import analyse_strategies, tabulate_strategies
from rlver_gym.bench.sycophancy import count_sycophantic_replies
from rlver_gym.bench.table import Table, build_score_rows, need_rows
from rlver_gym.bench.verdict import Verdict
from rlver_gym.core.capabilities import AXES, DIMENSIONS, JUDGED, JUDGEMENTS
from rlver_gym.environment.alarms import check_episodes
from rlver_gym.util.groups import group, mean_by
from rlver_gym.util.interval import Interval, bootstrap, format_estimate
from rlver_gym.util.json_text import to_plain
from rlver_gym.util.terminal import escape_markdown

PROTOCOLS_DIFFER = (
    "Runs of different protocols (env card, user, people or seeds): one table each, since a rank"
    " across them would mean nothing."
)
Marks = dict[str, dict[str, Interval]]
_JUDGE_NOTE = (
    "From 1 to 5, with 95 % intervals over personas, by whoever judged (rlver-gym judge): an"
    " opinion, no part of the score. Of creativity and empathy orientation no end is better."
)


def sections_to_json(comparison: Comparison, *, by_persona: bool) -> dict[str, Any]:
    """Scores, alarms, and the sections that there are, by name; `personas` if `by_persona`."""
    noise = measure_noise(comparison)
    sections = {
        "noise": noise and noise.to_dict(),
        "strategies": {agent.agent: agent for agent in analyse_strategies(comparison.episodes)},
        "capabilities": collect_judge_scores(comparison),
        "opinions": dict(_read_run_opinions(comparison)),
        "truth": count_sycophantic_replies(comparison.episodes),
        "personas": measure_training_signal(comparison.episodes) if by_persona else None,
    }
    there = to_plain({name: value for name, value in sections.items() if value})
    scores = [score_to_json(score) for score in comparison.score()]
    return {"scores": scores, **check_episodes(comparison.episodes).to_dict(), **there}


def collect_judge_scores(comparison: Comparison) -> Marks:
    """By agent and by what was judged, the mean mark over personas."""
    scores: list[tuple[tuple[str, str], tuple[str, float]]] = []
    for run in comparison.runs:
        judged = read_capabilities(run.problems.folder / JUDGEMENTS)
        for episode in run.episodes:
            agent = run.shown_as[episode.agent]
            of_dialogue = judged.get(str(episode.key), {})
            scores += [((agent, name), (episode.persona, x)) for name, x in of_dialogue.items()]
    marks = {key: mean_by(by_persona) for key, by_persona in group(scores).items()}
    return {
        agent: {
            name: bootstrap(marks[agent, name].values())
            for name in JUDGED
            if (agent, name) in marks
        }
        for agent in dict.fromkeys(agent for agent, _ in marks)
    }


def _read_run_opinions(comparison: Comparison) -> Iterator[tuple[str, Opinions]]:
    for run in comparison.runs:
        if opinions := read_opinions(run.problems.folder):
            yield run.label, opinions


def render_markdown(
    comparisons: Sequence[Comparison], verdicts: Sequence[Verdict], *, by_persona: bool
) -> str:
    """The report as Markdown, what is known of the runs last."""
    lines = [PROTOCOLS_DIFFER, ""] if len(comparisons) > 1 else []
    for comparison in comparisons:
        lines += _render_comparison(comparison, by_persona)
    if shift := measure_spread_over_runs(comparisons):
        lines += _render_table(tabulate_shift(shift))
    lines += ["\n## What was recomputed\n"] if verdicts else []
    lines += [
        f"- {'**' if is_alarm else ''}{escape_markdown(text)}{'**' if is_alarm else ''}"
        for verdict in verdicts
        for text, is_alarm in verdict.describe(verdict.run)
    ]
    return "\n".join(lines)


def _render_comparison(comparison: Comparison, by_persona: bool) -> Iterator[str]:
    ranked, episodes = comparison.score(), comparison.episodes
    marks = collect_judge_scores(comparison)
    yield f"# {escape_markdown(' and '.join(comparison.labels))}\n"
    yield escape_markdown(str(comparison.protocol))
    alerts = [line.plain for line in format_alerts(check_episodes(episodes))]
    notes = [*alerts, *(counts.describe() for counts in count_sycophantic_replies(episodes))]
    tables = [
        Table("final emotion", build_score_rows(ranked), notes),
        Table("by hidden need", need_rows(ranked)),
        *tabulate_strategies(analyse_strategies(episodes)),
    ]
    if noise := measure_noise(comparison):
        tables.append(tabulate_seed_noise(noise, ranked))
    if marks:
        rows = _build_judge_score_rows(marks)
        tables.append(Table("capabilities, in a judge's opinion", rows, [_JUDGE_NOTE]))
    for run, opinions in _read_run_opinions(comparison):
        title = f"opinions beside the score: {run}"
        tables.append(tabulate_opinions(opinions)._replace(title=title))
    tables += tabulate_training_signal(episodes) if by_persona else []
    for table in tables:
        yield from _render_table(table)


def _render_table(table: Table) -> Iterator[str]:
    yield f"\n## {escape_markdown(table.title[:1].upper() + table.title[1:])}\n"
    heading, *body = (f"| {' | '.join(map(escape_markdown, row))} |" for row in table.rows)
    yield from (heading, f"|{'---|' * len(table.rows[0])}", *body)
    yield from (f"\n{escape_markdown(note)}" for note in table.notes)


def _build_judge_score_rows(marks: Mapping[str, Mapping[str, Interval]]) -> list[list[str]]:
    return [["agent", *(name.replace("_", " ") for name in (*DIMENSIONS, *AXES))]] + [
        [agent, *(format_estimate(by_name[name]) if name in by_name else "–" for name in JUDGED)]
        for agent, by_name in marks.items()
    ]
