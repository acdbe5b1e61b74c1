"""What `--help` shows: flags without a type, and of a long command the usual options first."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> Any:
        """Its parameters, as they are parsed and shown."""
        return _without_types_of_flags(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> Any:
        """Its parameters, as they are parsed and shown."""
        return _without_types_of_flags(super().get_params(ctx))


def _without_types_of_flags(params: Any) -> Any:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


def show_everything(ctx: typer.Context, asked: bool) -> None:
    """The callback of `--help-all`: the help with the options that `--help` leaves out."""
    if not asked:
        return
    for param in ctx.command.params:
        param.hidden = False  # pyright: ignore[reportAttributeAccessIssue]
    typer.echo(ctx.get_help())
    raise typer.Exit
