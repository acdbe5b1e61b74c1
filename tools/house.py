"""The structure of the package: rooms, floors, arrows and their limits.

python tools/house.py [FOLDER] [--limits]      (FOLDER: a package, default rlver_gym; with --limits
    it fails when one is crossed)

A room is a folder of the package with all that is in it, or a module at the top. An arrow goes from
one room to another whose modules it imports, also inside of functions, for type checking, or by
name ("package.module" or "package.module:Name" in a string). A room stands one floor above the
highest that it imports. Neither rooms nor files import each other in a circle; a file that names
the folder it lies in, as where its data are, does not import it.
"""

import argparse
import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

FLOORS, LONG = 9, 70
"""At most so many floors, and so many lines in a function."""


class Module(NamedTuple):
    """A file of the package."""

    path: Path
    room: str
    tree: ast.Module
    lines: int


def read_modules(package: Path) -> dict[str, Module]:
    """Every module by its dotted name."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        room = ".".join(parts[:2]) if len(parts) > 2 else name
        text = path.read_text(encoding="utf-8")
        modules[name] = Module(path, room, ast.parse(text), text.count("\n"))
    return modules


def imports_of(name: str, modules: Mapping[str, Module]) -> Iterator[str]:
    """The other modules that this one imports or names."""
    known = modules.keys() - {name}
    for node in ast.walk(modules[name].tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in known or node.module in known:
                    yield whole if whole in known else node.module
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = node.value.partition(":")[0]
            if "." in named and named in known and not name.startswith(f"{named}."):
                yield named


def draw_file_arrows(modules: Mapping[str, Module]) -> set[tuple[str, str]]:
    """Which module imports which."""
    return {(name, imported) for name in modules for imported in imports_of(name, modules)}


def draw_arrows(
    modules: Mapping[str, Module], files: Set[tuple[str, str]]
) -> Counter[tuple[str, str]]:
    """How many imports go from one room to another."""
    rooms = ((modules[name].room, modules[imported].room) for name, imported in files)
    return Counter((room, below) for room, below in rooms if room != below)


def long_functions(modules: Mapping[str, Module]) -> Iterator[tuple[str, str, int]]:
    """Module, name and lines of functions above the limit.

    Their bodies count: a signature can be the table of a command's options.
    """
    for name, module in modules.items():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                if lines > LONG:
                    yield name, node.name, lines


def find_circle(arrows: Set[tuple[str, str]]) -> list[str] | None:
    """Rooms or files that import each other in a circle."""
    try:
        TopologicalSorter(_group(arrows)).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def place_on_floors(arrows: Set[tuple[str, str]]) -> dict[str, int]:
    """The floor of each room, from 1. The rooms must not import each other in a circle."""
    below = _group(arrows)
    floor: dict[str, int] = {}
    for room in TopologicalSorter(below).static_order():
        floor[room] = 1 + max((floor[other] for other in below[room]), default=0)
    return floor


def _group(arrows: Set[tuple[str, str]]) -> dict[str, set[str]]:
    below: dict[str, set[str]] = defaultdict(set)
    for start, end in arrows:
        below[start].add(end)
    return below


def crossed_limits(
    modules: Mapping[str, Module], circles: Iterable[list[str]], floor: Mapping[str, int]
) -> Iterator[str]:
    """What is too much, in words."""
    yield from (f"a circle: {' -> '.join(circle)}" for circle in circles)
    if max(floor.values(), default=0) > FLOORS:
        yield f"{max(floor.values())} floors, at most {FLOORS}"
    yield from (
        f"{name}.{function}: {lines} lines, at most {LONG}"
        for name, function, lines in long_functions(modules)
    )


def main() -> None:
    """Print the rooms with their arrows, and what crosses a limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "package", nargs="?", type=Path, default=Path(__file__).parent.parent / "rlver_gym"
    )
    parser.add_argument("--limits", action="store_true", help="exit with 1 when a limit is crossed")
    asked = parser.parse_args()
    modules = read_modules(asked.package)
    files = draw_file_arrows(modules)
    arrows = draw_arrows(modules, files)
    between_rooms, between_files = find_circle(arrows.keys()), find_circle(files)
    floor = {} if between_rooms else place_on_floors(arrows.keys())
    rooms = {module.room for module in modules.values()}
    for room in sorted(rooms, key=lambda room: (-floor.get(room, 0), room)):
        inside = [module for module in modules.values() if module.room == room]
        below = " ".join(end.partition(".")[2] for start, end in sorted(arrows) if start == room)
        print(
            f"{floor.get(room, 0)}  {room:24} {len(inside):3} modules"
            f" {sum(module.lines for module in inside):6,} lines  -> {below}"
        )
    lines = sum(module.lines for module in modules.values())
    print(f"{len(rooms)} rooms, {len(arrows)} arrows, {lines:,} lines")
    circles = [circle for circle in (between_rooms, between_files) if circle]
    problems = list(crossed_limits(modules, circles, floor))
    print("\n".join(problems))
    sys.exit(bool(problems) and asked.limits)


if __name__ == "__main__":
    main()
