"""The root of the command line: which commands there are."""

import inspect
import os
import sys
from collections.abc import Callable

import typer
from rich.text import Text

from rlver_gym.cli import audit, bench, calibrate, envs, export, personas, report, sb3, talk, tape, train
from rlver_gym.io.errors import RlverError, RunStopped
from rlver_gym.io.terminal import SafeConsole
from rlver_gym.io.version import __version__

STOPPED_BY_OUTAGE = 3
"""The exit code of a run that a server's outage stopped."""

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
app.command("export")(export.export)
app.command("verify")(report.verify)
app.command("conversation")(audit.conversation)
app.command("appraise")(talk.appraise)
app.command("redteam")(audit.attack)
app.command("sft")(train.sft)
app.command("train")(train.train)
app.command("fidelity")(audit.fidelity)
app.command("calibrate")(calibrate.calibrate)
app.command("train-reader")(calibrate.train_reader)
app.command("sb3")(sb3.sb3)
app.add_typer(personas.app, name="personas")
app.add_typer(envs.app, name="envs")
app.add_typer(tape.app, name="tape")


def _help_of(command: Callable[..., object]) -> str:
    """A command's docstring with each paragraph on one line: the terminal breaks it, wherever the source does."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


for _group in (app, personas.app, envs.app, tape.app):
    for _command in _group.registered_commands:
        if _command.callback:
            _command.help = _help_of(_command.callback)


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
    """Run a command; errors of the package become one message on standard error and exit code 2."""
    try:
        app()
    except RunStopped as error:
        _fail(str(error), STOPPED_BY_OUTAGE)
    except RlverError as error:
        _fail(str(error))
    except OSError as error:
        if error.filename:
            _fail(f"{error.filename}: {error.strerror}. Give a place that can be read and written.")
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), 1
        )  # what waits to be printed is given up, or it would fail at the end again
        _fail(f"the output cannot be written ({error.strerror or error}). Send it to another place.")


def _fail(message: str, code: int = 2) -> None:
    SafeConsole(stderr=True).print(Text.assemble(("error: ", "bold red"), message))
    sys.exit(code)
