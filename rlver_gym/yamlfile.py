"""YAML into plain values, strictly: no aliases, no duplicate keys, no deep nesting, no large files. Knows no schema."""

from pathlib import Path
from typing import Any

import yaml

from rlver_gym.errors import CardError

MAX_BYTES = 256 * 1024
MAX_DEPTH = 20

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    """PyYAML's safe loader that refuses a key given twice, which YAML itself lets silently win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is not text. Put it in quotes.", key_node.start_mark
                )
            if key in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands here twice. Remove one of them.", key_node.start_mark
                )
            keys.add(key)
        return super().construct_mapping(node, deep=deep)


def parse_yaml(text: str, source: str) -> Any:
    """The plain value of one YAML document. `source` names the file in errors.

    Raises CardError for anything that is not small, flat, alias-free YAML: aliases are how a few
    lines of YAML grow into gigabytes ("billion laughs"), so they are refused, not expanded.
    """
    if len(text.encode("utf-8", errors="replace")) > MAX_BYTES:
        raise CardError(f"{source}: larger than {MAX_BYTES // 1024} KiB. Split it, or shorten its texts.")
    try:
        _refuse_aliases_and_depth(text, source)
        return yaml.load(text, Loader=_Loader)  # a safe loader: see _Loader
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        line = f" line {place.line + 1}:" if place else ""
        raise CardError(f"{source}:{line} {_explained(error)}") from error
    except ValueError as error:  # a date or number of YAML's own kinds that is none
        raise CardError(f"{source}: not valid YAML: {error}. Quote texts that look like dates or numbers.") from error


def _explained(error: yaml.YAMLError) -> str:
    """What is wrong, and the remedy for that."""
    problem = str(getattr(error, "problem", None) or error)
    if not isinstance(error, yaml.constructor.ConstructorError):
        return f"not valid YAML: {problem}. Quote texts that hold ': ' or begin with a sign."
    if "tag" in problem:
        return f"{problem}. YAML tags (!…) are not allowed in a card: remove the tag, or quote the text if it begins with '!'."
    return problem


def _refuse_aliases_and_depth(text: str, source: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise CardError(
                f"{source}: line {event.start_mark.line + 1}: YAML anchors and aliases (& and *) are not allowed. Write the value out."
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise CardError(f"{source}: nested deeper than {MAX_DEPTH} levels. Cards are flatter than that.")


def read_yaml(path: Path) -> Any:
    """`parse_yaml` of a file; a missing or unreadable file is a CardError that names it."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CardError(f"{path}: larger than {MAX_BYTES // 1024} KiB. Split it, or shorten its texts.")
        return parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise CardError(f"{path}: not UTF-8 text (byte {error.start}). Save it as UTF-8.") from error
    except OSError as error:
        raise CardError(f"{path}: cannot be read ({error.strerror}). Check the path.") from error
