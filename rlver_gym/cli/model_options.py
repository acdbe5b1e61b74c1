"""Options of a command that are fields of a model, and are declared and checked there."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Annotated, Any, NamedTuple, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from rlver_gym.util.errors import CardError
from rlver_gym.util.frozen import explain_problem, list_problems

Model = TypeVar("Model", bound=BaseModel)
Command = Callable[..., None]


class FieldOption(NamedTuple):
    """How a field is typed on the command line."""

    kind: Any = str
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    flag: str | None = None
    """None: the field's name, without the unit of seconds."""


def add_model_options(
    model: type[BaseModel], param: str, fields: Mapping[str, FieldOption]
) -> Callable[[Command], Command]:
    """Give a command an option for each of these fields of a model, in the place of `param`, which
    gets the model. Their help is the fields' description.
    """
    flags = {name: _format_flag(name, fields) for name in fields}
    return add_options(
        param, list_options(model, fields), lambda values: validate_options(model, values, flags)
    )


def list_options(
    model: type[BaseModel], fields: Mapping[str, FieldOption]
) -> list[inspect.Parameter]:
    return [
        _make_option(model, name, field, _format_flag(name, fields))
        for name, field in fields.items()
    ]


def add_options(
    param: str, options: Iterable[inspect.Parameter], make: Callable[[dict[str, Any]], Any]
) -> Callable[[Command], Command]:
    """Give a command options in the place of `param`, which gets what `make` makes of them."""
    added = list(options)

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run_command(**given: Any) -> None:
            chosen = {option.name: given.pop(option.name) for option in added}
            values = {name: value for name, value in chosen.items() if value is not None}
            command(**given, **{param: make(values)})

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            parameters += added if parameter.name == param else [parameter]
        run_command.__signature__ = inspect.Signature(  # pyright: ignore[reportAttributeAccessIssue]
            [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        )
        return run_command

    return decorate


def validate_options(
    model: type[Model], values: Mapping[str, Any], flags: Mapping[str, str]
) -> Model:
    """The model with these values. CardError names the option, by `flags` or its field."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise CardError(
            "; ".join(_explain_invalid_option(problem, flags) for problem in list_problems(error))
        ) from None


def _explain_invalid_option(item: Mapping[str, Any], flags: Mapping[str, str]) -> str:
    problem = explain_problem(item)
    if not item["loc"]:
        return problem
    field, *inner = item["loc"]
    words = [flags.get(field, field), *(str(part) for part in inner if isinstance(part, str))]
    if item["type"] in ("literal_error", "enum"):
        words.append(repr(item["input"])[:80])
    return f"{' '.join(words)}: {problem}"


def _format_flag(name: str, fields: Mapping[str, FieldOption]) -> str:
    return fields[name].flag or f"--{name.removesuffix('_s').replace('_', '-')}"


def _make_option(
    model: type[BaseModel], name: str, typed: FieldOption, flag: str
) -> inspect.Parameter:
    field = model.model_fields[name]
    default = field.get_default(call_default_factory=True)
    is_shown = isinstance(default, str | int | float)
    option = typer.Option(
        flag,
        metavar=typed.metavar,
        min=typed.min,
        max=typed.max,
        help=" ".join((field.description or "").split()),
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default if is_shown else None,
        annotation=Annotated[typed.kind if is_shown else typed.kind | None, option],
    )
