"""Help texts as a terminal shows them."""

import itertools
import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from rlver_gym.cli.root import app

COMMANDS = [
    *"talk bench report export verify rescore judge appraise redteam".split(),
    *"sft train strategies serve".split(),
    *("cache stats", "cache prune", "cache export", "personas list", "personas show"),
    *("personas check", "personas schema", "envs list", "envs show"),
]


def shown(command, columns):
    """The lines of a command's help: first the prose, then the boxes of its arguments and
    options.
    """
    env = {"COLUMNS": str(columns), "TERM": "dumb", "NO_COLOR": "1"}
    return CliRunner().invoke(app, [*command.split(), "--help"], env=env).stdout.splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_paragraphs_are_broken_by_the_terminal_alone(command):
    """Where there is room for a whole paragraph, it is one line."""
    prose = list(itertools.takewhile(lambda line: not line.startswith("╭"), shown(command, 4000)))
    assert len([line for line in prose if line.strip()]) >= 2
    assert not [pair for pair in itertools.pairwise(prose) if all(line.strip() for line in pair)]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_is_cut_off_in_a_terminal_of_80_columns(command):
    lines = shown(command, 80)
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.startswith("│") and re.search(r"\w…", line)]
    assert "bool" not in " ".join(lines), "flags are shown without a type"


def test_the_short_option_shows_the_same_help():
    for command in ("", "bench", "personas show"):
        long, short = (
            CliRunner().invoke(app, [*command.split(), option]).stdout
            for option in ("--help", "-h")
        )
        assert long == short != ""


def test_every_command_stands_in_a_group_of_its_own_kind():
    panels = [line for line in shown("", 80) if line.startswith("╭")]
    assert [line.strip("╭─╮ ") for line in panels] == [
        "Options",
        "Try it",
        "Compare agents",
        "Check the score",
        "Train",
    ]


def test_a_shell_can_complete_commands():
    env = {"_RLVER_GYM_COMPLETE": "complete_bash", "COMP_WORDS": "rlver-gym per", "COMP_CWORD": "1"}
    done = CliRunner().invoke(app, [], env=env, prog_name="rlver-gym")
    assert "personas" in done.output


def test_the_list_of_commands_shows_what_each_says_of_itself():
    root = typer.main.get_command(app)
    listed = " ".join("\n".join(shown("", 4000)).split())
    for name, command in root.commands.items():
        first = " ".join(command.help.split("\n\n")[0].split())
        assert f"│ {name} {first} │" in re.sub(r" +", " ", listed), name


def test_the_list_of_commands_loads_none_of_them():
    block = (
        "import sys\nfrom rlver_gym.cli import root\n"
        "try:\n    root.app(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'openai', 'torch', 'yaml', 'rlver_gym.users', 'rlver_gym.cli.bench'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"
