"""`rlver-gym envs`: the registered environments and their protocols."""

from typing import Annotated

import typer
from rich.text import Text

from rlver_gym.cli.options import AsJson, print_json
from rlver_gym.core.cards import EnvCard, env_card, shipped_env_ids
from rlver_gym.util.terminal import SafeConsole

app = typer.Typer(help="The environments: every number of their protocols.", no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """All environments that gym.make knows."""
    cards = [env_card(env_id) for env_id in shipped_env_ids()]
    if as_json:
        print_json(cards)
        return
    rows = [
        (card.id, str(card.start), str(card.turns), card.reward, card.split, card.summary)
        for card in cards
    ]
    strategy = (
        "RLVER-Strategy-v0: the dialogues of any of these (card=ID) for reinforcement learning"
        " without text: twelve strategies to choose from, and a vector to see"
    )
    heading = ("id", "start", "turns", "reward", "split", "what for")
    SafeConsole().print_table([heading, *rows], notes=[strategy])


@app.command()
def show(
    env: Annotated[str, typer.Argument(help="Environment id, or the path of an env card.")],
    as_json: AsJson = False,
) -> None:
    """One environment's card: every field and what it is set to."""
    card = env_card(env)
    if as_json:
        print_json(card.model_dump(mode="json") | {"hash": card.hash})
        return
    for name in (*EnvCard.model_fields, "hash"):
        value = str(getattr(card, name)).strip()
        SafeConsole().print(Text.assemble((f"{name:20s}", "bold"), value))
