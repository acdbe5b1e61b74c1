"""The root of the command line: which commands there are."""

import ast
import inspect
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files
from itertools import pairwise
from typing import Any

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from rlver_gym.util import __version__
from rlver_gym.util.errors import RlverError, RunError, RunStopped
from rlver_gym.util.secret_words import find_secret
from rlver_gym.util.terminal import SafeConsole, one_line, prepare_terminal, print_text

STOPPED_BY_OUTAGE = 3

_MAX_VALUE_CHARS = 60
_TRY, _COMPARE, _TRUST, _TRAIN = "Try it", "Compare agents", "Check the score", "Train"
_HOMES: dict[str, tuple[str, str, str]] = {
    "talk": (_TRY, "talk", "talk"),
    "appraise": (_TRY, "talk", "appraise"),
    "personas": (_TRY, "personas", "app"),
    "envs": (_TRY, "envs", "app"),
    "serve": (_TRY, "serve", "serve"),
    "bench": (_COMPARE, "bench", "bench"),
    "report": (_COMPARE, "report", "report"),
    "verify": (_COMPARE, "report", "verify"),
    "studio": (_COMPARE, "studio", "studio"),
    "export": (_COMPARE, "export", "export"),
    "rescore": (_COMPARE, "rescore", "rescore"),
    "judge": (_COMPARE, "judge", "judge"),
    "strategies": (_COMPARE, "report", "strategies"),
    "cache": (_COMPARE, "cache", "app"),
    "calibrate": (_TRUST, "calibrate", "calibrate"),
    "redteam": (_TRUST, "redteam", "attack"),
    "sample": (_TRAIN, "ratings", "sample"),
    "rate": (_TRAIN, "ratings", "rate"),
    "sheets": (_TRAIN, "ratings", "app"),
    "sft": (_TRAIN, "train", "sft"),
    "train": (_TRAIN, "train", "train"),
}
"""Every command: its panel in the help, its module of `rlver_gym.cli`, and its function, or the
group's app, there. A module is loaded when a command of it is asked for.
"""


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


class _Loaded(Mapping[str, Any]):
    """The commands by name, each loaded when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


class _Commands(_Group):
    """All commands; the list of them shows their docstrings without loading them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Mapping[str, Any] = _Loaded()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_HOMES)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.commands = {name: _outline(name) for name in _HOMES}
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands = _Loaded()

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _explain_invalid_value(error)
            raise


def _explain_invalid_value(error: typer.BadParameter) -> str:
    from pydantic import ValidationError  # noqa: PLC0415  slow, and most commands need neither

    from rlver_gym.util.frozen import explain_problem  # noqa: PLC0415

    if not isinstance(error.__cause__, ValidationError):
        return error.message
    item = error.__cause__.errors(include_url=False)[0]
    problem = explain_problem(item)
    if item["type"] == "value_error":  # names the value itself
        return problem
    return f"{problem} (found {one_line(repr(item['input']), max_chars=_MAX_VALUE_CHARS)})"


@cache
def _load(name: str) -> Any:
    panel, module, home = _HOMES[name]  # KeyError for no command
    value = getattr(import_module(f"rlver_gym.cli.{module}"), home)
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    app.callback()(lambda: None)  # with it, a single command is a command of a group
    if isinstance(value, typer.Typer):
        groups = [value]
        app.add_typer(value, cls=_Group, name=name, rich_help_panel=panel)
    else:
        groups = [app]
        app.command(name, rich_help_panel=panel)(value)
    for command in groups[0].registered_commands:
        command.help = _unwrap(command.callback.__doc__ if command.callback else None)
        command.cls = _Command
    return typer.main.get_group(app).commands[name]


def _outline(name: str) -> TyperCommand:
    """What the list of commands shows of one: read from its module, which is not loaded."""
    panel, module, home = _HOMES[name]
    for part in _parse(module):
        if home == "app" and isinstance(part, ast.Assign) and isinstance(part.value, ast.Call):
            given = {word.arg: word.value for word in part.value.keywords}
            if "no_args_is_help" in given:
                about = ast.literal_eval(given["help"])
                return TyperCommand(name, help=about, rich_help_panel=panel)
        if isinstance(part, ast.FunctionDef) and part.name == home:
            return TyperCommand(name, help=_unwrap(ast.get_docstring(part)), rich_help_panel=panel)
    raise LookupError(f"rlver_gym.cli.{module} has no {home}")


@cache
def _parse(module: str) -> list[ast.stmt]:
    text = files("rlver_gym.cli").joinpath(f"{module}.py").read_text(encoding="utf-8")
    return ast.parse(text).body


def _unwrap(text: str | None) -> str:
    """A docstring with each paragraph on one line: the terminal breaks it."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


app = typer.Typer(
    name="rlver-gym",
    cls=_Commands,
    help="A sentient user to train and test empathetic agents on. Begin with: rlver-gym talk,"
    " rlver-gym bench.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
