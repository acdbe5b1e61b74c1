"""`rlver-gym redteam`: what tricks are paid."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from rlver_gym.audit.attacks import FIXED_ATTACKS, Attack
from rlver_gym.audit.recorded_attacks import one_each, recorded_agents, recorded_attacks, redteam_recorded
from rlver_gym.audit.red_team import AttackResult, redteam
from rlver_gym.audit.search_attacks import SEARCH_ATTACKS, SearchAttack
from rlver_gym.cli.progress import progress_bar
from rlver_gym.core.cards import env_card
from rlver_gym.core.library import library
from rlver_gym.data.recordings import read_recordings
from rlver_gym.io.errors import UnknownName
from rlver_gym.io.terminal import SafeConsole
from rlver_gym.users import make_user

ATTACKS = {attack.name: attack for attack in (*FIXED_ATTACKS, *SEARCH_ATTACKS)}
RECORDED_PEOPLE = 50
"""Personas of recorded dialogues that are attacked."""


def attack(
    attack: Annotated[
        list[str] | None, typer.Option(help=f"Only this attack; repeat it for more. One of: {', '.join(ATTACKS)}.")
    ] = None,
    env: Annotated[str, typer.Option(help="Environment id, or the path of an env card (.yaml).")] = "SAGE-Sentient-v0",
    user: Annotated[str, typer.Option(help="Who is attacked.")] = "embedded",
    personas: Annotated[str | None, typer.Option(help="A folder of persona cards instead of the shipped ones.")] = None,
    recordings: Annotated[
        Path | None,
        typer.Option(help="A folder of recorded Chinese dialogues: attack on these instead of the shipped personas."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Dialogues of each attack with each persona.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Attack the simulated user: flattery, echo, stuffing, threats, and searches that try replies on the score itself.

    Prints the mean final emotion that each attack reaches and the share of people it leaves content. Whatever ends above honest agents (rlver-gym
    bench) is a hole that a learner would find. Dialogues in which the user failed are counted apart. Searching attacks call the user up to 2,000 times a dialogue. With --recordings, attackers answer what the
    recorded people said, and the recorded agents' own replies stand beside them.
    """
    card, known = env_card(env), read_recordings(recordings) if recordings else []
    chosen = _chosen(attack, recorded_attacks(known) if recordings else (*FIXED_ATTACKS, *SEARCH_ATTACKS))
    attacked = make_user(user)
    if recordings:
        people = [one.persona for one in one_each(known, RECORDED_PEOPLE)]
        held = partial(
            redteam_recorded, attacked, known, attacks=chosen, people=RECORDED_PEOPLE, card=card, seeds=seeds
        )
    else:
        shelf = library(personas)
        people = [shelf.get(persona_id) for persona_id in shelf.ids(card.split)]
        held = partial(redteam, attacked, people, card=card, attacks=chosen, seeds=seeds)
    results = _with_progress(held, len(chosen) * len(people) * seeds)
    if recordings:
        results += recorded_agents(attacked, known, people=RECORDED_PEOPLE)
    if as_json:
        typer.echo(json.dumps([_plain(result) for result in results]))
        return
    SafeConsole().print(_table(results, f"{card.id}, {len(people)} personas, {user} user: start {card.start}"))


def _chosen(names: Sequence[str] | None, attacks: Sequence[Attack | SearchAttack]) -> list[Attack | SearchAttack]:
    """The attacks of those names, or all; UnknownName says which there are."""
    known = {attack.name: attack for attack in attacks}
    for name in names or ():
        if name not in known:
            raise UnknownName.of("attack", name, known, ", ".join(known))
    return [known[name] for name in names or known]


def _with_progress(held: Callable[..., Iterator[AttackResult]], dialogues: int) -> list[AttackResult]:
    with progress_bar() as progress:
        task = progress.add_task("attacking", total=dialogues)
        return list(held(held=lambda: progress.advance(task)))


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
        failed = f" ({result.failed} of {result.dialogues} dialogues failed)" if result.failed else ""
        paid = ("-", "-") if isnan(result.final) else (f"{result.final:.1f}", f"{result.content:.0f} %")
        table.add_row(result.attack, *paid, result.what + failed)
    return table


def _plain(result: AttackResult) -> dict[str, Any]:
    """Values for JSON, which knows no nan: None stands for it."""
    known = result._asdict()
    return known if not isnan(result.final) else known | {"final": None, "content": None}
