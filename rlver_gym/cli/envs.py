"""`rlver-gym envs`: the registered environments and their protocols."""

from typing import Annotated

import typer
import yaml

from rlver_gym.cli.options import AsJson, print_json
from rlver_gym.core.cards import env_card, shipped_env_ids
from rlver_gym.util.terminal import SafeConsole, print_text

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
    """One environment's card: every field and what it is set to.

    For a card of your own, write it to a file, give it another `id` and other numbers, and name the
    file where an id is asked for: --env FILE.
    """
    card = env_card(env)
    if as_json:
        print_json(card.model_dump(mode="json") | {"hash": card.hash})
        return
    shown = yaml.safe_dump(
        card.model_dump(mode="json"), allow_unicode=True, sort_keys=False, width=100
    )
    print_text(f"# hash {card.hash}\n{shown.rstrip()}")
