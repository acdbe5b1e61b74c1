"""The root of the command line: which commands there are."""

import inspect
import os
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import typer
from pydantic import ValidationError
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from rlver_gym.cli import (
    audit,
    bench,
    cache,
    calibrate,
    envs,
    export,
    judge,
    personas,
    ratings,
    report,
    rescore,
    serve,
    studio,
    talk,
    train,
)
from rlver_gym.util import __version__
from rlver_gym.util.errors import RlverError, RunError, RunStopped
from rlver_gym.util.frozen import explain_problem
from rlver_gym.util.secret_words import find_secret
from rlver_gym.util.terminal import SafeConsole, one_line, prepare_terminal, print_text

STOPPED_BY_OUTAGE = 3
"""The exit code of a run that a server's outage stopped."""

_MAX_VALUE_CHARS = 60
_TRY, _COMPARE, _TRUST, _TRAIN = "Try it", "Compare agents", "Check the score", "Train"


class _PlainFlags:
    """A command or a group, whose flags are shown without a type."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # pyright: ignore[reportAttributeAccessIssue]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class _Command(_PlainFlags, TyperCommand):
    pass


class _Group(_PlainFlags, TyperGroup):
    pass


class _Commands(_Group):
    """All commands. A value that an option does not take is named in plain words."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if isinstance(error.__cause__, ValidationError):
                error.message = _explain_invalid_value(error.__cause__)
            raise


def _explain_invalid_value(error: ValidationError) -> str:
    item = error.errors(include_url=False)[0]
    problem = explain_problem(item)
    if item["type"] == "value_error":  # names the value itself
        return problem
    return f"{problem} (found {one_line(repr(item['input']), max_chars=_MAX_VALUE_CHARS)})"


app = typer.Typer(
    name="rlver-gym",
    cls=_Commands,
    help=(
        "A sentient user to train and test empathetic agents on. Begin with: rlver-gym talk,"
        " rlver-gym bench."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("talk", rich_help_panel=_TRY)(talk.talk)
app.command("appraise", rich_help_panel=_TRY)(talk.appraise)
app.add_typer(personas.app, cls=_Group, name="personas", rich_help_panel=_TRY)
app.add_typer(envs.app, cls=_Group, name="envs", rich_help_panel=_TRY)
app.command("serve", rich_help_panel=_TRY)(serve.serve)
app.command("bench", rich_help_panel=_COMPARE)(bench.bench)
app.command("report", rich_help_panel=_COMPARE)(report.report)
app.command("verify", rich_help_panel=_COMPARE)(report.verify)
app.command("studio", rich_help_panel=_COMPARE)(studio.studio)
app.command("export", rich_help_panel=_COMPARE)(export.export)
app.command("rescore", rich_help_panel=_COMPARE)(rescore.rescore)
app.command("judge", rich_help_panel=_COMPARE)(judge.judge)
app.command("strategies", rich_help_panel=_COMPARE)(report.strategies)
app.add_typer(cache.app, cls=_Group, name="cache", rich_help_panel=_COMPARE)
app.command("calibrate", rich_help_panel=_TRUST)(calibrate.calibrate)
app.command("redteam", rich_help_panel=_TRUST)(audit.attack)
app.command("sample", rich_help_panel=_TRAIN)(ratings.sample)
app.add_typer(ratings.app, cls=_Group, name="sheets", rich_help_panel=_TRAIN)
app.command("sft", rich_help_panel=_TRAIN)(train.sft)
app.command("train", rich_help_panel=_TRAIN)(train.train)


for _group in (app, personas.app, envs.app, cache.app, ratings.app):
    for _command in _group.registered_commands:
        # each paragraph on one line: the terminal breaks it
        paragraphs = inspect.cleandoc(_command.callback.__doc__ or "").split("\n\n")
        _command.help = "\n\n".join(one.replace("\n", " ") for one in paragraphs)
        _command.cls = _Command


def _print_version(show: bool) -> None:
    if show:
        print_text(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version and stop.",
    ),
) -> None:
    pass


def main() -> None:
    """Run a command; errors of the package become one message on standard error and exit code 2."""
    prepare_terminal()
    try:
        _refuse_what_is_no_text(sys.argv[1:])
        _refuse_what_is_secret(sys.argv[1:])
        app()
    except RunStopped as error:
        _exit_with_message(str(error), STOPPED_BY_OUTAGE)
    except RlverError as error:
        _exit_with_message(str(error))
    except OSError as error:
        if error.filename:
            _exit_with_message(
                f"{error.filename}: {error.strerror}. Give a place that can be read and written."
            )
        # What waits to be printed is given up, or it would fail at the end again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _exit_with_message(
            f"the output cannot be written ({error.strerror or error}). Send it to another place."
        )


def _refuse_what_is_no_text(words: Sequence[str]) -> None:
    """RunError for bytes that are no text here: no manifest or page could name such a path."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            shown = word.encode(errors="surrogateescape").decode(errors="backslashreplace")
            raise RunError(
                f"{shown}: not {sys.getfilesystemencoding().upper()} text. Give paths and words"
                " that are; a link leads to a folder of another name."
            ) from None


_ADDRESS_OF_SERVER = re.compile(r"--base-url[= ]|--(?:user|judge)-option[= ]base_url=")


def _refuse_what_is_secret(words: Sequence[str]) -> None:
    """RunError for a key or a password among the words of a command, most of which are written
    into files. An address of a server alone may hold one: it is written without.
    """
    for before, word in pairwise(["", *words]):
        if not any(map(_ADDRESS_OF_SERVER.match, (word, f"{before} {word}"))):
            option = before if before.startswith("-") else "a word"
            if find_secret({option: word}):
                raise RunError(
                    f"{option}: a key or a password would stand in what this command writes. Set"
                    " OPENAI_API_KEY and OPENAI_BASE_URL instead."
                )


def _exit_with_message(message: str, code: int = 2) -> None:
    SafeConsole(stderr=True).print(Text.assemble(("error: ", "bold red"), message))
    sys.exit(code)
