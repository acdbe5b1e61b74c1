"""What several commands share: options, and how they print and end."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from rlver_gym.util.json_text import dump_json, to_plain
from rlver_gym.util.terminal import SafeConsole, one_line, print_text

SOME_FAILED = 4

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ScoresAsJson = Annotated[
    bool, typer.Option("--json", help="Print the scores as JSON instead of tables.")
]
Env = Annotated[str, typer.Option(help="Environment id, or the path of an env card (.yaml).")]
Personas = Annotated[
    str | None,
    typer.Option(
        "--personas",
        help="A folder of persona cards, a lean card's file or profiles of SAGE or RLVER (.jsonl)"
        " instead of the default people, or 'library': the shipped library of stories.",
    ),
]
RunPersonas = Annotated[
    str | None,
    typer.Option(help="The folder of the run's persona cards, when they are not the shipped ones."),
]
RunEnv = Annotated[
    str | None, typer.Option(help="The run's env card (.yaml); default: the card in its manifest.")
]

RunOrRecordings = Annotated[
    Path,
    typer.Argument(
        help="A run folder, or a folder of recorded dialogues (SIMULATOR__AGENT.jsonl files)."
    ),
]
AllowCode = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="Let a suite start code (MODULE:NAME) and send words to addresses that it names.",
    ),
]
AgentTimeout = Annotated[
    str,
    typer.Option(
        metavar="SECONDS|none",
        help="How long a reply of an agent, or of a user, of your own (MODULE:NAME) may take.",
    ),
]


def print_json(value: Any) -> None:
    print_text(dump_json(to_plain(value)), is_json=True)


def exit_if_any_skipped(failures: Iterable[tuple[str, str]]) -> None:
    """Name what was left out and why on standard error, and exit with 4 if there was anything."""
    console, failed = SafeConsole(stderr=True), False
    for name, why in failures:
        failed = True
        console.print_line(one_line(f"left out: {name}: {why}", max_chars=400), style="yellow")
    if failed:
        raise typer.Exit(SOME_FAILED)
