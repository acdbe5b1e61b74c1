"""The command line: one file a command. Exit codes: 0 fine, 1 found something wrong, 2 could not do what was asked, 130 interrupted."""

import sys

import typer
from rich.console import Console
from rich.text import Text

from rlver_gym._version import __version__
from rlver_gym.cli import bench, envs, personas, redteam, report, talk, verify
from rlver_gym.errors import RlverError

app = typer.Typer(
    name="rlver-gym",
    help="A sentient user to train and test empathetic agents on. Begin with: rlver-gym talk, rlver-gym bench.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("talk")(talk.talk)
app.command("bench")(bench.bench)
app.command("report")(report.report)
app.command("verify")(verify.verify)
app.command("redteam")(redteam.attack)
app.add_typer(personas.app, name="personas")
app.add_typer(envs.app, name="envs")


def _version(show: bool) -> None:
    if show:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line; errors of the package become one message on standard error and exit code 2."""
    try:
        app()
    except RlverError as error:
        Console(stderr=True).print(Text.assemble(("error: ", "bold red"), str(error)))
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("\nstopped.")
        sys.exit(130)
