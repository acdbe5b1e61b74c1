"""`rlver-gym envs`: the registered environments and their protocols."""

import json
from typing import Annotated

import typer
from rich.text import Text

from rlver_gym.cli.options import AsJson
from rlver_gym.core.cards import EnvCard, env_card, shipped_env_ids
from rlver_gym.io.terminal import SafeConsole, make_table

app = typer.Typer(help="The environments: every number of their protocols.", no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """All environments that gym.make knows."""
    cards = [env_card(env_id) for env_id in shipped_env_ids()]
    if as_json:
        typer.echo(json.dumps([card.model_dump(mode="json") for card in cards]))
        return
    table = make_table()
    for heading in ("id", "start", "turns", "reward", "split", "what for"):
        table.add_column(heading, no_wrap=heading == "id")
    for card in cards:
        table.add_row(
            Text(card.id, style="bold"),
            str(card.start),
            str(card.turns),
            card.reward,
            card.split,
            Text(card.summary),
        )
    SafeConsole().print(table)
    strategy = (
        "the dialogues of any of these (card=ID) for reinforcement learning without text: twelve"
        " strategies to choose from, and a vector to see"
    )
    SafeConsole().print(Text.assemble(("RLVER-Strategy-v0", "bold"), f"  {strategy}"))


@app.command()
def show(
    env: Annotated[str, typer.Argument(help="Environment id, or the path of an env card.")],
    as_json: AsJson = False,
) -> None:
    """One environment's card, with what each field means."""
    card = env_card(env)
    if as_json:
        typer.echo(json.dumps(card.model_dump(mode="json") | {"hash": card.hash}))
        return
    console = SafeConsole()
    for name in EnvCard.model_fields:
        console.print(Text.assemble((f"{name:20s}", "bold"), str(getattr(card, name)).strip()))
    console.print(Text.assemble((f"{'hash':20s}", "bold"), card.hash))
