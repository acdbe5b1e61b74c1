"""JSON that somebody else wrote, read in three ways, by who wrote it:

- The envelope of a chat server's answer (`parse_wire_json`): as lenient as the decoders of most
  clients. Of a key that stands twice the last counts; line feeds in texts, a mark of byte order,
  integers of any length, NaN and 1e999 are taken. A judgement is not in it.
- What a model judges, inside such an answer (`scan_objects`, `Pairs`): found in any prose, every
  value of a key kept, so that whoever reads it refuses two that differ. It decides a score.
- What this package wrote itself (`parse_json`): strict. Whatever is odd was edited or damaged.

All are small and flat, or refused.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from math import isfinite, isnan
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from pydantic import BaseModel

from rlver_gym.util.errors import RunError
from rlver_gym.util.files import MakeError
from rlver_gym.util.terminal import COMMANDS

MAX_DEPTH = 64
MAX_DIGITS = 18
"""Of an integer: what fits 64 bits. Longer ones slow down or break what computes with them."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str | bytes, *, allow_nan: bool = False) -> Any:
    """The value of a JSON text of our own.

    ValueError for what is no JSON, nested deeper than `MAX_DEPTH`, holds a key twice (the last
    would silently win), an integer of more than `MAX_DIGITS` digits, a float that is infinite, a
    lone surrogate, and unless they are allowed NaN and Infinity.
    """
    if isinstance(text, bytes):
        text = _decode(text, "utf-8")
    value = _load(
        text,
        object_pairs_hook=_unique,
        parse_int=_integer,
        parse_float=_finite,
        parse_constant=float if allow_nan else _refuse_constant,
    )
    if _SURROGATE.search(text):
        _refuse_surrogates(value)
    return value


def parse_object(
    text: str | bytes,
    where: object,
    error: MakeError = RunError,
    remedy: str = "Mend or remove the line.",
    *,
    allow_nan: bool = False,
) -> dict[str, Any]:
    """The object of a JSON text of our own; `error` says where it is none, and the remedy."""
    try:
        value = parse_json(text, allow_nan=allow_nan)
    except ValueError as problem:
        raise error(f"{where}: is no JSON ({problem}). {remedy}") from problem
    if not isinstance(value, dict):
        raise error(f"{where}: must be an object. {remedy}")
    return value


def parse_wire_json(content: bytes, max_values: int) -> Any:
    """The value of a JSON text of a server's; texts may hold halves of characters. ValueError for
    what is no JSON, nested deeper than `MAX_DEPTH`, or with more than `max_values`.
    """
    text = _decode(content, json.detect_encoding(content))
    if sum(map(text.count, ",[{")) > max_values:
        raise ValueError(f"more than {max_values:,} values")
    return _load(text, strict=False, parse_int=_any_integer)


def _decode(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"not {encoding.upper()} text (byte {error.start})") from None


def _load(text: str, **options: Any) -> Any:
    try:
        value = json.loads(text, **options)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("{") + text.count("[") > MAX_DEPTH and _is_deep(value):
        raise ValueError(_TOO_DEEP)
    return value


_TOO_DEEP = "nested too deeply"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:80]!r} stands twice")
    return plain


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"an integer of more than {MAX_DIGITS} digits")
    return int(digits)


def _any_integer(digits: str) -> int | float:
    """A long one as a float: Python refuses thousands of digits."""
    return int(digits) if len(digits) <= MAX_DIGITS else float(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise ValueError("a number too large for a float")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for container in level
            if isinstance(container, dict | list)
            for inner in (container.values() if isinstance(container, dict) else container)
        ]
    return any(isinstance(value, dict | list) for value in level)


def _refuse_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate, which is no text") from None


class Pairs(list[tuple[str, Any]]):
    """A JSON object as it was written, keys that stand twice included."""


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=Pairs)
_MAX_OBJECTS = 50


class FoundObject(NamedTuple):
    """An object in a text, from `start` to `end`."""

    value: Any
    """`Pairs`; None where what begins is none or has no end: `end` is behind its bracket then."""
    start: int
    end: int


def scan_objects(text: str) -> Iterator[FoundObject]:
    """The first outermost JSON objects of a text, and what begins as one."""
    at = text.find("{")
    for _ in range(_MAX_OBJECTS):
        if at < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            value, end = None, at + 1
        yield FoundObject(value, at, end)
        at = text.find("{", end)


def find_objects(text: str) -> Iterator[FoundObject]:
    return (part for part in scan_objects(text) if part.value is not None)


def to_plain(value: Any) -> Any:
    """Plain values for JSON: named tuples by name, models as they dump, None for nan."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(value, dict):
        return {name: to_plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(inner) for inner in value]
    return None if isinstance(value, float) and isnan(value) else value


def dump_line(value: dict[str, Any]) -> str:
    """JSON in one line, whatever the texts hold: also separators that some readers break at."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")


def dump_json(value: Any) -> str:
    """JSON for a terminal: escapes what it would obey. `parse_json` gives the same value."""
    return COMMANDS.sub(_escape, json.dumps(value, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]
