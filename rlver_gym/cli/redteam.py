"""`rlver-gym redteam`: whether a simulated user can be trusted."""

from collections.abc import Sequence
from math import isnan
from typing import Annotated

import typer

from rlver_gym.bench.attacks.attacks import FIXED_ATTACKS, Attack
from rlver_gym.bench.attacks.red_team import AttackResult, run_attacks
from rlver_gym.bench.attacks.search import SEARCH_ATTACKS
from rlver_gym.cli.options import AsJson, Env, Personas, print_json
from rlver_gym.core.cards import env_card
from rlver_gym.library.personas import library
from rlver_gym.users import make_user
from rlver_gym.util.errors import check_known
from rlver_gym.util.progress import progress_bar
from rlver_gym.util.terminal import SafeConsole, format_count

ATTACKS = {attack.name: attack for attack in (*FIXED_ATTACKS, *SEARCH_ATTACKS)}


def attack(
    attack: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this attack; repeat it for more. One of: {', '.join(ATTACKS)}."),
    ] = None,
    env: Env = "SAGE-Sentient-v0",
    user: Annotated[str, typer.Option(help="Who is attacked.")] = "embedded",
    personas: Personas = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Dialogues of each attack with each persona.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Attack the simulated user: flattery, echo, stuffing, threats, and searches that try replies
    on the score itself.

    Prints the mean final emotion that each attack reaches and the share of people it leaves
    content. Whatever ends above honest agents (rlver-gym bench) is a hole that a learner would
    find. Dialogues in which the user failed are counted apart. Searching attacks call the user up
    to 2,000 times a dialogue.
    """
    card, shelf, attacked = env_card(env), library(personas), make_user(user)
    chosen = _select_attacks(attack)
    people = [shelf.get(persona_id) for persona_id in shelf.ids(card.split)]
    with progress_bar() as progress:
        task = progress.add_task("attacking", total=len(chosen) * len(people) * seeds)
        how = {"card": card, "attacks": chosen, "seeds": seeds}
        held = run_attacks(attacked, people, **how, on_progress=lambda: progress.advance(task))
        results = list(held)
    if as_json:
        print_json(results)
        return
    SafeConsole().print_table(
        [("attack", "final emotion", "content", "what it does"), *map(_format_attack_row, results)],
        f"{card.id}, {format_count(len(people), 'persona')}, {user} user: start {card.start}",
    )


def _select_attacks(names: Sequence[str] | None) -> list[Attack]:
    for name in names or ():
        check_known("attack", name, ATTACKS)
    return [ATTACKS[name] for name in names or ATTACKS]


def _format_attack_row(result: AttackResult) -> tuple[str, ...]:
    dialogues = format_count(result.dialogues, "dialogue")
    failed = f" ({result.failed} of {dialogues} failed)" if result.failed else ""
    final, content = (
        ("-", "-") if isnan(result.final) else (f"{result.final:.1f}", f"{result.content:.0f} %")
    )
    return result.attack, final, content, result.what + failed
