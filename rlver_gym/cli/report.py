"""`rlver-gym report`: the report of one run, or several compared."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from rlver_gym.anomaly import watch
from rlver_gym.bench.compare import Comparison, read_comparisons
from rlver_gym.bench.flagged import alarm_lines
from rlver_gym.bench.report import APART, write_report
from rlver_gym.bench.score import plain, scores
from rlver_gym.bench.table import leaderboard, needs_table
from rlver_gym.io.terminal import SafeConsole
from rlver_gym.policy.metrics import METRICS
from rlver_gym.policy.runs.curves import write_curves


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders. Several are compared; those of different protocols get a table each."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the page. Default, in the first run's folder: report.html, or compare.html for several."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON instead of tables.")] = False,
) -> None:
    """Write report.html anew, and print the tables. The page is one file that needs no network.

    Folders of training runs give learning curves instead, several on the same axes.
    """
    console = SafeConsole()
    if all((folder / METRICS).exists() for folder in runs):
        console.print(Text(f"curves  {write_curves(runs, out)}"), soft_wrap=True)
        return
    comparisons = read_comparisons(runs)
    page = write_report(runs, out)
    if as_json:
        typer.echo(json.dumps({"report": str(page), **_plain(comparisons)}))
        return
    if len(comparisons) > 1:
        console.print(Text(APART, style="yellow"), soft_wrap=True)
    for comparison in comparisons:
        _print(console, comparison, len(comparisons) > 1)
    console.print(Text.assemble(("report", "bold"), f"  {page}"), soft_wrap=True)


def _plain(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The scores; where they cannot be compared, those of each protocol."""
    found = [
        {"scores": [plain(score) for score in scores(one.episodes)], **watch(one.episodes).plain()}
        for one in comparisons
    ]
    if len(found) == 1:
        return found[0]
    named = zip(comparisons, found, strict=True)
    return {"protocols": [{"protocol": str(one.protocol), "runs": one.runs, **scored} for one, scored in named]}


def _print(console: SafeConsole, comparison: Comparison, several: bool) -> None:
    ranked, runs = scores(comparison.episodes), " and ".join(comparison.runs)
    console.print(leaderboard(ranked, f"{runs}: {comparison.protocol}" if several else runs))
    console.print(needs_table(ranked))
    for line in alarm_lines(watch(comparison.episodes)):
        console.print(line, soft_wrap=True)
