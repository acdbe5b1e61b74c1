"""`rlver-gym verify`: recompute a run and see that nothing was changed."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.text import Text

from rlver_gym.benchmark.verify import verify as recompute


def verify(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    tape: Annotated[
        Path | None,
        typer.Option(
            help="The tape of a run with an LLM user. Default: tape.sqlite in the folder, or where the run had it."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Recompute every appraisal, reward and answer of a run, without agents and servers: what a server answered is on the run's tape.

    Exit code 0 when all are as recorded, 1 when one is not: the first episode and turn that differ are named.
    """
    errors = Console(stderr=True)
    found = None
    checked = 0
    for result in track(recompute(run, tape), description="recomputing", console=errors, transient=True):
        checked += result is None
        if result is not None:
            found = result
            break
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "run": str(run),
                    "sound": found is None,
                    "checked": checked,
                    "divergence": found._asdict() if found else None,
                }
            )
        )
    elif found:
        errors.print(Text(f"{run}: {found}"), style="red", soft_wrap=True)
    else:
        Console().print(Text(f"{run}: {checked} episodes recomputed, all as recorded"), soft_wrap=True)
    if found:
        raise typer.Exit(1)
