"""Frozen models: their problems in words, their content's hash, and what is compiled."""

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property, wraps
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationError,
)

from rlver_gym.util.terminal import one_line

_PROBLEMS = {
    "missing": "add this field",
    "extra_forbidden": "remove this field, or correct its name",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a number",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must hold fields",
    "model_type": "must hold fields",
    "model_attributes_type": "must hold fields",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "too_short": "has too few entries (at least {min_length})",
    "too_long": "has too many entries (at most {max_length})",
    "string_too_short": "is too short (characters: at least {min_length})",
    "string_too_long": "is too long (characters: at most {max_length})",
}
"""What pydantic's types of errors mean to who wrote the value."""


def explain_problem(item: Mapping[str, Any]) -> str:
    """One of a ValidationError's `errors()` in words, without its place and the value."""
    if text := _PROBLEMS.get(item["type"]):
        return text.format(**item.get("ctx", {}))
    return item["msg"].removeprefix("Value error, ")


def list_problems(error: ValidationError) -> list[Any]:
    """Its `errors()`, without "too few entries" where one is wrong: that was not counted."""
    problems = error.errors()
    parents = {each["loc"][:depth] for each in problems for depth in range(len(each["loc"]))}
    return [x for x in problems if x["type"] != "too_short" or x["loc"] not in parents]


_MAX_PROBLEMS = 10


def explain_problems(error: ValidationError, whole: str = "") -> str:
    """What is wrong, field by field, without repeating a value, which may be a key."""
    problems = list_problems(error)[:_MAX_PROBLEMS]
    places = [".".join(map(str, problem["loc"]))[:80] or whole for problem in problems]
    told = zip(places, map(explain_problem, problems), strict=True)
    return "; ".join(": ".join(filter(None, each)) for each in told)


class Frozen(BaseModel):
    """A model that cannot change, takes no unknown fields, and copies without what it cached."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    help_command: ClassVar[str] = "envs show RLVER-Empathy-v0"
    """Of `rlver-gym`: what shows the fields."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Pydantic's copy, which by itself would keep what the original had cached."""
        copy = super().model_copy(update=update, deep=deep)
        for name in set(vars(copy)) - set(type(copy).model_fields):
            del vars(copy)[name]
        return copy


class HashedCard(Frozen):
    """A card with a content hash."""

    unhashed: ClassVar[frozenset[str]] = frozenset()
    """Fields that only explain."""

    @cached_property
    def hash(self) -> str:
        """16 hex digits of SHA-256 over every field that counts."""
        content = self.model_dump(mode="json", exclude=set(self.unhashed))
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


MAX_TEXT_CHARS = 32_000
"""Of one text: three times the longest that SAGE's agents said."""


class JsonObject(BaseModel):
    """A JSON object of a file from others; further fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)]
Name = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
    StringConstraints(min_length=1, max_length=200),
    AfterValidator(one_line),
]

Key = TypeVar("Key")
Value = TypeVar("Value")


class Memo(dict[Key, Value]):
    """What `compute` gives for each key, kept until there are `most`; then all is forgotten."""

    def __init__(self, compute: Callable[[Key], Value], most: int) -> None:
        self._compute, self._most = compute, most

    def __missing__(self, key: Key) -> Value:
        if len(self) >= self._most:
            self.clear()
        value = self[key] = self._compute(key)
        return value


Compiled = TypeVar("Compiled")

_MAX_ENTRIES = 512


def cache_by_identity(compile_: Callable[..., Compiled]) -> Callable[..., Compiled]:
    """`lru_cache` by identity of a card, which is slow to hash, and by value of the rest."""
    return cache_by_parts()(compile_)


def cache_by_parts(*parts: str) -> Callable[[Callable[..., Compiled]], Callable[..., Compiled]]:
    """The same by some `parts` (attributes): copies that share them share what was compiled."""

    def decorate(compile_: Callable[..., Compiled]) -> Callable[..., Compiled]:
        known: dict[tuple[Any, ...], tuple[Any, Compiled]] = {}

        @wraps(compile_)
        def look_up(card: Any, *more: Hashable) -> Compiled:
            sources = tuple([getattr(card, part) for part in parts]) or (card,)
            key = (*map(id, sources), *more)
            value = known.get(key)
            if value is None:
                if len(known) >= _MAX_ENTRIES:
                    known.clear()
                # the parts as well, so that their identity stays their own
                value = known[key] = sources, compile_(card, *more)
            return value[1]

        return look_up

    return decorate
