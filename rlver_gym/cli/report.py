"""`rlver-gym report`: the report of one run, or several compared."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from rlver_gym.alarm import watch
from rlver_gym.benchmark.report import load_runs, write_report
from rlver_gym.benchmark.score import plain, scores
from rlver_gym.benchmark.suspects import alarm_lines
from rlver_gym.benchmark.table import leaderboard, needs_table
from rlver_gym.policy.curves import write_curves
from rlver_gym.policy.log import METRICS
from rlver_gym.untrusted.terminal import SafeConsole


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders. Several are compared: paired differences over the personas they share."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the page. Default: report.html in the first run's folder, or compare.html for several."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON instead of tables.")] = False,
) -> None:
    """Write report.html anew, and print the tables. The page is one file that needs no network.

    Folders of training runs give learning curves instead, several on the same axes.
    """
    if all((folder / METRICS).exists() for folder in runs):
        typer.echo(f"curves  {write_curves(runs, out)}")
        return
    episodes = load_runs(runs)
    ranked, watched = scores(episodes), watch(episodes)
    page = write_report(runs, out)
    if as_json:
        found = {
            "report": str(page),
            "scores": [plain(score) for score in ranked],
            **watched.plain(),
        }
        typer.echo(json.dumps(found))
        return
    console = SafeConsole()
    console.print(leaderboard(ranked, " and ".join(folder.name for folder in runs)))
    console.print(needs_table(ranked))
    for line in alarm_lines(watched):
        console.print(line, soft_wrap=True)
    console.print(Text.assemble(("report", "bold"), f"  {page}"), soft_wrap=True)
