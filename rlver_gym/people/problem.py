"""A problem of a card, fit to print."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from rlver_gym.util.errors import CardError
from rlver_gym.util.terminal import one_line, printable
from rlver_gym.util.yaml_file import find_line


class Problem(NamedTuple):
    """Something wrong with a card: where, and what to do."""

    file: str
    problem: str

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}"

    @classmethod
    def of(cls, file: Path, problem: str) -> Self:
        """A problem, fit to print: what it quotes is shown, not obeyed."""
        return cls(one_line(str(file)), printable(problem))


def make_problems_from_error(error: CardError, path: Path) -> Iterator[Problem]:
    file = one_line(str(path))
    for line in str(error).split("\n"):
        yield Problem.of(path, line.removeprefix(f"{path}: ").removeprefix(f"{file}: "))


def make_problem_with_line(path: Path, place: tuple[str | int, ...], problem: str) -> Problem:
    """A problem of a field, with the field's line in its file."""
    line = find_line(path, place)
    where = f"line {line}: " if line else ""
    return Problem.of(path, f"{where}{'.'.join(map(str, place))}: {problem}")
