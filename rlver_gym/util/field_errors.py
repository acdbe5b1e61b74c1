"""What is wrong with the fields of a card, a config or a line of a file, in words with remedies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from rlver_gym.util.errors import CardError
from rlver_gym.util.files import MakeError
from rlver_gym.util.frozen import Frozen, explain_problem
from rlver_gym.util.terminal import one_line

LineOf = Callable[[Sequence[str | int]], int | None]
Card = TypeVar("Card", bound=Frozen)
_MAX_ERRORS = 20
"""Of one card: whoever has mended these looks again."""
_QUOTED_CHARS = 60


def parse_card(kind: type[Card], value: Any, source: str, lines: LineOf | None = None) -> Card:
    """A plain value as a card; CardError names the file and every field that is wrong."""
    if not isinstance(value, dict):
        raise CardError(
            f"{source}: must be a mapping of fields, not {type(value).__name__}. See `rlver-gym"
            f" {kind.help_command}`."
        )
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise CardError(
            "\n".join(f"{source}: {line}" for line in field_errors(error, lines=lines, kind=kind))
        ) from error


def field_errors(
    error: ValidationError,
    whole: str = "the whole card",
    lines: LineOf | None = None,
    kind: type[BaseModel] | None = None,
) -> list[str]:
    """A line for each field that is wrong, with its remedy. `whole` names what holds the fields;
    `lines` gives the line of one; of the fields of `kind` the nearest is proposed.
    """
    items = error.errors(include_url=False)[:_MAX_ERRORS]
    problems = [
        f"line {number}: {told}" if lines and (number := lines(item["loc"])) else told
        for item in items
        for told in [_field_error(item, whole) + _propose(item, kind)]
    ]
    more = error.error_count() - len(problems)
    return (
        [*problems, f"{whole}: {more} more fields are wrong. Mend these first."]
        if more
        else problems
    )


@contextmanager
def explain_invalid(error: MakeError, begin: str, whole: str, end: str) -> Iterator[None]:
    """Convert a ValueError of the block into an `error` with the first problem, between `begin` and
    `end`; `whole` names what holds the fields.
    """
    try:
        yield
    except ValidationError as problem:
        raise error(f"{begin}{field_errors(problem, whole)[0].rstrip('.')}{end}") from problem
    except ValueError as problem:
        raise error(f"{begin}{str(problem).rstrip('.')}{end}") from problem


def _propose(item: Mapping[str, Any], kind: type[BaseModel] | None) -> str:
    *place, name = item["loc"] or [""]
    for part in place:
        if kind and isinstance(part, str):
            field = kind.model_fields.get(part)
            kind = field and _find_model(field.annotation)
    if item["type"] != "extra_forbidden" or kind is None:
        return ""
    near = get_close_matches(str(name)[:_QUOTED_CHARS], kind.model_fields, n=1)
    return f". Did you mean {near[0]!r}?" if near else ""


def _find_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_find_model, get_args(annotation))), None)


def _field_error(item: Mapping[str, Any], whole: str) -> str:
    place = ".".join(one_line(str(part), max_chars=_QUOTED_CHARS) for part in item["loc"]) or whole
    problem = f"{place}: {one_line(explain_problem(item), max_chars=4 * _QUOTED_CHARS)}"
    if item["type"] in ("missing", "extra_forbidden") or isinstance(item["input"], dict):
        return problem
    value = item["input"] if isinstance(item["input"], str) else repr(item["input"])
    return f"{problem} (found '{one_line(value, max_chars=_QUOTED_CHARS)}')"
