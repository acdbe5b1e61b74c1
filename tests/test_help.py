"""Help texts as a terminal shows them."""

import itertools
import re

import pytest
from typer.testing import CliRunner

from rlver_gym.cli.root import app

COMMANDS = [
    *(
        "talk",
        "bench",
        "report",
        "export",
        "verify",
        "appraise",
        "redteam",
        "fidelity",
        "calibrate",
        "sft",
        "train",
        "sb3",
    ),
    *("tape stats", "tape prune", "tape export", "personas list", "personas show", "personas check", "personas schema"),
    *("envs list", "envs show"),
]


def shown(command: str, columns: int) -> list[str]:
    """The lines of a command's help: first the prose, then the boxes of its arguments and options."""
    env = {"COLUMNS": str(columns), "TERM": "dumb", "NO_COLOR": "1"}
    return CliRunner().invoke(app, [*command.split(), "--help"], env=env).stdout.splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_paragraphs_are_broken_by_the_terminal_alone(command: str) -> None:
    """Where there is room for a whole paragraph, it is one line."""
    prose = list(itertools.takewhile(lambda line: not line.startswith("╭"), shown(command, 4000)))
    assert len([line for line in prose if line.strip()]) >= 2
    assert not [pair for pair in itertools.pairwise(prose) if all(line.strip() for line in pair)]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_is_cut_off_in_a_terminal_of_80_columns(command: str) -> None:
    lines = shown(command, 80)
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.startswith("│") and re.search(r"\w…", line)]
