"""YAML into plain values, strictly: small, flat, no aliases, tags or doubled keys."""

from collections.abc import Sequence
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

import yaml

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
_SECOND = "a second document begins here (---). Give each a file of its own."
_KINDS = ("map", "seq", "str", "int", "float", "bool", "null")

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Refused(yaml.YAMLError):
    """Valid YAML that is not allowed: the line, from 0, and what is wrong with its remedy."""


class _Loader(_Base):
    """The safe loader for texts, dates among them, numbers, lists and mappings; no key twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (declared so by PyYAML)
        first: [pair for pair in pairs if pair[0].rpartition(":")[2] in _KINDS]
        for first, pairs in _Base.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line
            if not isinstance(key, str):
                raise _Refused(line, f"the key {_quote(key)} is not text. Put it in quotes.")
            if key in keys:
                raise _Refused(
                    line, f"the key {_quote(key)} stands here twice. Remove one of them."
                )
            keys.add(key)
        return super().construct_mapping(node, deep=deep)

    def construct_number(self, node: yaml.ScalarNode) -> float:
        is_int = node.tag.endswith(":int")
        construct = self.construct_yaml_int if is_int else self.construct_yaml_float
        long = len(node.value) > (MAX_DIGITS if is_int else _QUOTED_CHARS)
        value = float("inf") if long else construct(node)
        if not isfinite(value):
            raise _Refused(
                node.start_mark.line,
                f"{_quote(node.value)} is no number that can be used. Correct it, or quote it if it"
                " is text.",
            )
        return value


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.construct_number)


def parse_yaml(text: str, source: str, error: MakeError = CardError) -> Any:
    """The plain value of one YAML document. `source` names the file in errors.

    Raises `error` for anything that is not small, flat, plain YAML: aliases are how a few lines of
    YAML grow into gigabytes ("billion laughs"), so they are refused, not expanded; tags make other
    things than texts, numbers, lists and mappings.
    """
    if len(text) > MAX_BYTES or len(text.encode("utf-8", errors="replace")) > MAX_BYTES:
        raise error(
            f"{source}: larger than {MAX_BYTES // 1024} KiB. Split it, or shorten its texts."
        )
    try:
        _check_plain(text)
        return yaml.load(text, Loader=_Loader)  # a safe loader: see _Loader
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


def _check_plain(text: str) -> None:
    depth = documents = nodes = 0
    for event in yaml.parse(text, Loader=_Base):
        nodes += isinstance(event, yaml.NodeEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        for is_so, reason in (
            (getattr(event, "anchor", None), _ALIAS),
            (getattr(event, "tag", None), _TAG),
            (documents > 1, _SECOND),
            (nodes > MAX_NODES, f"more than {MAX_NODES:,} values. Split the file."),
            (depth > MAX_DEPTH, _TOO_DEEP),
        ):
            if is_so:
                raise _Refused(event.start_mark.line, reason)


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


def find_line(path: Path, place: Sequence[str | int]) -> int | None:
    """The line, from 1, of a place in a YAML file, or of the nearest that holds it."""
    text = read_text(path, max_bytes=MAX_BYTES, error=CardError)
    node, line = yaml.compose(text, Loader=_Loader), None
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
