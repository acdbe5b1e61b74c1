"""YAML into plain values, strictly: small, flat, no aliases, tags or doubled keys."""

import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from math import isfinite
from pathlib import Path
from string import Template
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from rlver_gym.util.errors import CardError
from rlver_gym.util.files import MakeError, read_text
from rlver_gym.util.json_text import MAX_DIGITS
from rlver_gym.util.terminal import one_line

MAX_BYTES = 256 * 1024
MAX_DEPTH = 20
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels. Such files are flatter than that."
MAX_NODES = 30_000
"""Texts, numbers, lists and mappings, keys included: an index of the largest size needs fewer."""
_QUOTED_CHARS = 80
_ALIAS = "YAML anchors and aliases (& and *) are not allowed. Write the value out."
_TAG = "YAML tags (!…) are not allowed: remove the tag, or quote the text if it begins with '!'."
_TOO_MANY = f"more than {MAX_NODES:,} values. Split the file."
_SECOND = "a second document begins here (---). Give each a file of its own."
_OCTAL = re.compile(r"([-+]?)0[0_]*([0-9_]+)")
_KINDS = ("map", "seq", "str", "int", "float", "bool", "null")

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Refused(yaml.YAMLError):
    """Valid YAML that is not allowed: the line, from 0, and what is wrong with its remedy."""


class _Scalars(SafeConstructor, Resolver):
    """What plain words stand for: texts, dates among them, numbers, true, false and null."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (declared so by PyYAML)
        first: [pair for pair in pairs if pair[0].rpartition(":")[2] in _KINDS]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self) -> None:
        SafeConstructor.__init__(self)
        Resolver.__init__(self)

    def read(self, event: yaml.ScalarEvent) -> Any:
        if not event.implicit[0] or event.value[:1] not in self.yaml_implicit_resolvers:
            return event.value
        tag = self.resolve(yaml.ScalarNode, event.value, event.implicit)
        node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
        return self.yaml_constructors[tag](self, node)

    def construct_number(self, node: yaml.ScalarNode) -> float:
        is_int = node.tag.endswith(":int")
        construct = self.construct_yaml_int if is_int else self.construct_yaml_float
        long = len(node.value) > (MAX_DIGITS if is_int else _QUOTED_CHARS)
        value = float("inf") if long else construct(node)
        if not isfinite(value):
            why = "no number that can be used. Correct it, or quote it if it is text."
        elif ":" in node.value:
            why = "a number in base 60 here. Quote it if it is text."
        elif is_int and (octal := _OCTAL.fullmatch(node.value)):
            decimal = "".join(octal.groups()).replace("_", "") or "0"
            why = f"a number in base 8 here. Write {decimal}, or quote it if it is text."
        else:
            return value
        raise _Refused(node.start_mark.line, f"{_quote(node.value)} is {why}")

    yaml_constructors = {  # noqa: RUF012 (declared so by PyYAML)
        **SafeConstructor.yaml_constructors,
        "tag:yaml.org,2002:int": construct_number,
        "tag:yaml.org,2002:float": construct_number,
    }


_SCALARS = _Scalars()


class _Document:
    """A value, made as the parser says what comes: once through the text, and no nodes."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=_Base)
        self._nodes = 0

    def read(self) -> Any:
        values = []
        for event in self._events:
            if values and isinstance(event, yaml.DocumentStartEvent):
                raise _Refused(event.start_mark.line, _SECOND)
            if isinstance(event, yaml.NodeEvent):
                values.append(self._read_node(event, 1))
        return values[0] if values else None

    def _read_node(self, event: Any, depth: int) -> Any:
        self._nodes += 1
        if event.anchor or isinstance(event, yaml.AliasEvent):
            raise _Refused(event.start_mark.line, _ALIAS)
        if event.tag:
            raise _Refused(event.start_mark.line, _TAG)
        if self._nodes > MAX_NODES:
            raise _Refused(event.start_mark.line, _TOO_MANY)
        if isinstance(event, yaml.ScalarEvent):
            return _SCALARS.read(event)
        if depth > MAX_DEPTH:
            raise _Refused(event.start_mark.line, _TOO_DEEP)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        return self._read_mapping(depth) if is_mapping else self._read_sequence(depth)

    def _read_sequence(self, depth: int) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self._read_node(event, depth + 1))
        return values

    def _read_mapping(self, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, line = self._read_node(event, depth + 1), event.start_mark.line
            if not isinstance(key, str):
                text = event.value if isinstance(event, yaml.ScalarEvent) else repr(key)
                raise _Refused(line, f"the key {_quote(text)} is not text. Put it in quotes.")
            if key in values:
                raise _Refused(
                    line, f"the key {_quote(key)} stands here twice. Remove one of them."
                )
            values[key] = self._read_node(next(self._events), depth + 1)
        return values


def parse_yaml(text: str, source: str, error: MakeError = CardError) -> Any:
    """The plain value of one YAML document; `source` names it in errors. `error` for anything that
    is not small, flat, plain YAML: no aliases ("billion laughs"), no tags, only texts, numbers,
    lists and mappings.
    """
    if len(text) > MAX_BYTES or len(text.encode("utf-8", errors="replace")) > MAX_BYTES:
        raise error(
            f"{source}: larger than {MAX_BYTES // 1024} KiB. Split it, or shorten its texts."
        )
    try:
        return _Document(text).read()
    except _Refused as problem:
        line, reason = problem.args
        raise error(f"{source}: line {line + 1}: {reason}") from None
    except (yaml.YAMLError, ValueError) as problem:  # ValueError: 0x_, a lone surrogate
        place = getattr(problem, "problem_mark", None)
        line = f" line {place.line + 1}:" if place else ""
        what = one_line(
            str(getattr(problem, "problem", None) or problem), max_chars=2 * _QUOTED_CHARS
        )
        if "maximum nesting depth" in what:  # libyaml, from PyYAML 6.0.4 on, while it reads ahead
            raise error(f"{source}:{line} {_TOO_DEEP}") from problem
        raise error(
            f"{source}:{line} not valid YAML: {what}. Quote texts that hold ': ' or begin with a"
            " sign."
        ) from problem


def _quote(value: Any) -> str:
    return one_line(
        repr(value) if not isinstance(value, str) else f"'{value[:_QUOTED_CHARS]}'",
        max_chars=_QUOTED_CHARS,
    )


def read_yaml(path: Path, error: MakeError = CardError, hint: str = "Check the path.") -> Any:
    """`parse_yaml` of a regular file; `hint` says what to do when it cannot be read."""
    return parse_yaml(
        read_text(path, max_bytes=MAX_BYTES, error=error, hint=hint), str(path), error
    )


def load_yaml(package: str, name: str) -> Any:
    return parse_yaml((files(package) / name).read_text(encoding="utf-8"), name)


class Prompts(dict[str, Any]):
    """Texts by name, with places to fill."""

    def fill(self, name: str, **values: str) -> str:
        return Template(self[name]).substitute(values).strip()


def find_line(path: Path, place: Sequence[str | int]) -> int | None:
    """The line, from 1, of a place in a YAML file, or of the nearest that holds it."""
    text = read_text(path, max_bytes=MAX_BYTES, error=CardError)
    node, line = yaml.compose(text, Loader=_Base), None
    for part in place:
        if isinstance(node, yaml.MappingNode):
            pairs = [pair for pair in node.value if pair[0].value == part]
            if not pairs:
                break
            line, node = pairs[0][0].start_mark.line + 1, pairs[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            if part >= len(node.value):
                break
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
