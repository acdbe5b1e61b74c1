"""Options that several commands share."""

from typing import Annotated

import typer

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
    str | None,
    typer.Option(help="The run's env card (.yaml); default: the card in its manifest."),
]
