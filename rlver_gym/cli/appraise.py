"""`rlver-gym appraise`: what one reply does to one person, and why."""

import json
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from rlver_gym.core.cards import env_card
from rlver_gym.core.library import library
from rlver_gym.environment.render import bar
from rlver_gym.environment.session import EmpathySession
from rlver_gym.io.terminal import SafeConsole
from rlver_gym.users import make_user


def appraise(
    text: Annotated[
        list[str], typer.Argument(help="What the agent says; give several for several turns: the last is explained.")
    ],
    persona: Annotated[str, typer.Option(help="Whom it is said to: an id of rlver-gym personas list.")],
    user: Annotated[
        str, typer.Option(help="Who appraises: embedded, embedded:WEIGHTS.json, or MODULE:NAME of your own user.")
    ] = "embedded",
    env: Annotated[str, typer.Option(help="Environment id, or the path of an env card (.yaml).")] = "SAGE-Sentient-v0",
    personas: Annotated[str | None, typer.Option(help="A folder of persona cards instead of the shipped ones.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the dialogue.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say something to a person and see every point of what it does to them.

    Example: rlver-gym appraise --persona theo-the-burst-pipe "You carried the buckets alone, all night."
    """
    who = library(personas).get(persona)
    session = EmpathySession(make_user(user), who, env_card(env), seed)
    opening = session.start()
    for said in text[:-1]:
        session.reply(said)
    before = session.emotion
    turn = session.reply(text[-1])
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "before": before,
                    "after": turn.emotion,
                    **turn.appraisal._asdict(),
                    "reasons": [reason._asdict() for reason in turn.appraisal.reasons],
                }
            )
        )
        return
    console = SafeConsole()
    heard = session.dialogue.user_lines[-2] if len(text) > 1 else opening
    console.print(Text.assemble((f"{who.person.name}: ", "bold"), heard))
    console.print(Text.assemble(("agent: ", "bold"), text[-1]))
    console.print(Text(f"{bar(before)} → {bar(turn.emotion)}   {turn.appraisal.change:+d}"))
    console.print(Text(f"“{turn.appraisal.thought}”", style="italic"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("points", justify="right")
    table.add_column("because")
    table.add_column("reason", style="dim")
    for reason in sorted(turn.appraisal.reasons, key=lambda one: -abs(one.points)):
        table.add_row(f"{reason.points:+g}", Text(reason.note), Text(reason.code))
    table.add_row("", "")
    table.add_row(f"{turn.appraisal.change:+d}", "in all")
    console.print(table)
