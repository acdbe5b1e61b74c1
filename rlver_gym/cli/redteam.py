"""`rlver-gym redteam`: what tricks are paid."""

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from rlver_gym.cards import env_card
from rlver_gym.errors import UnknownName
from rlver_gym.library import library
from rlver_gym.redteam import FIXED_ATTACKS, SEARCH_ATTACKS, AttackResult, redteam
from rlver_gym.users import make_user

ATTACKS = {attack.name: attack for attack in (*FIXED_ATTACKS, *SEARCH_ATTACKS)}


def attack(
    attack: Annotated[
        list[str] | None, typer.Option(help=f"Only this attack; repeat it for more. One of: {', '.join(ATTACKS)}.")
    ] = None,
    env: Annotated[str, typer.Option(help="Environment id, or the path of an env card (.yaml).")] = "SAGE-Sentient-v0",
    user: Annotated[str, typer.Option(help="Who is attacked.")] = "embedded",
    personas: Annotated[str | None, typer.Option(help="A folder of persona cards instead of the shipped ones.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Dialogues of each attack with each persona.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Attack the simulated user: flattery, echo, stuffing, threats, and searches that try replies on the score itself.

    Prints the mean final emotion that each attack reaches and the share of people it leaves content. Whatever ends above honest agents (rlver-gym
    bench) is a hole that a learner would find. Searching attacks call the user up to 2,000 times a dialogue.
    """
    unknown = [name for name in attack or () if name not in ATTACKS]
    if unknown:
        raise UnknownName.of("attack", unknown[0], ATTACKS, ", ".join(ATTACKS))
    chosen = [ATTACKS[name] for name in attack] if attack else list(ATTACKS.values())
    card, shelf = env_card(env), library(personas)
    people = [shelf.get(persona_id) for persona_id in shelf.ids(card.split)]
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("attacking", total=len(chosen) * len(people) * seeds)
        results = list(
            redteam(
                make_user(user), people, card=card, attacks=chosen, seeds=seeds, held=lambda: progress.advance(task)
            )
        )
    if as_json:
        typer.echo(json.dumps([result._asdict() for result in results]))
        return
    Console().print(_table(results, f"{card.id}, {len(people)} personas, {user} user: start {card.start}"))


def _table(results: Sequence[AttackResult], title: str) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    table.add_column("attack", style="bold", no_wrap=True)
    table.add_column("final emotion", justify="right")
    table.add_column("content", justify="right")
    table.add_column("what it does")
    for result in results:
        table.add_row(result.attack, f"{result.final:.1f}", f"{result.content:.0f} %", result.what)
    return table
