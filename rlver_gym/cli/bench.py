"""`rlver-gym bench`: agents against personas, with a table, a run folder and a report."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast, get_args

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from rlver_gym.agents import AGENT_NAMES, SHIPPED_AGENTS
from rlver_gym.alarm import watch
from rlver_gym.benchmark.folder import MANIFEST, read_episodes
from rlver_gym.benchmark.plan import MAX_SEEDS, BenchPlan, PlanSplit
from rlver_gym.benchmark.report import write_report
from rlver_gym.benchmark.run import Run, begun
from rlver_gym.benchmark.score import Score, scores
from rlver_gym.benchmark.suspects import alarm_lines
from rlver_gym.benchmark.table import leaderboard, needs_table
from rlver_gym.errors import CardError


def bench(
    env: Annotated[str, typer.Option(help="Environment id, or the path of an env card (.yaml).")] = "SAGE-Sentient-v0",
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Who is tested; repeat it for more. One of: {', '.join(AGENT_NAMES)}. Default: {', '.join(SHIPPED_AGENTS)}."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=MAX_SEEDS, help="Dialogues of each agent with each persona.")] = 3,
    split: Annotated[str | None, typer.Option(help="train, test, demo or all; default: the card's.")] = None,
    persona: Annotated[list[str] | None, typer.Option(help="Only this persona; repeat it for more.")] = None,
    personas: Annotated[str | None, typer.Option(help="A folder of persona cards instead of the shipped ones.")] = None,
    user: Annotated[str, typer.Option(help="Who is talked to.")] = "embedded",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Run folder. Default: runs/ENV-FINGERPRINT, so that the same command goes on where it stopped."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON instead of tables.")] = False,
) -> None:
    """Let agents talk to personas and compare how those people feel in the end.

    Prints the mean final emotion of each agent with its 95 % interval, how many people were content or left, and the paired difference to
    the best agent. Interrupt it at any moment: the same command goes on where it stopped.

    Example: rlver-gym bench --agent listener --agent openai:gpt-4o --seeds 1
    """
    if split not in (None, *get_args(PlanSplit)):
        raise CardError(f"--split {split!r} is not one of: {', '.join(get_args(PlanSplit))}.")
    plan = BenchPlan(
        env=env,
        agents=tuple(agent or SHIPPED_AGENTS),
        seeds=seeds,
        user=user,
        split=cast(PlanSplit | None, split),
        persona_ids=tuple(persona or ()),
        personas=personas,
    )
    folder = out or Path("runs") / plan.folder_name
    with begun(plan, folder) as under_way:
        held = _hold(under_way)
        episodes = read_episodes(folder)
        report = write_report([folder])
    ranked, watched = scores(episodes), watch(episodes)
    if as_json:
        plain = {
            "run": str(folder),
            "report": str(report),
            "scores": [score._asdict() for score in ranked],
            **watched.plain(),
        }
        typer.echo(json.dumps(plain, default=list))
        return
    count = f"{held} dialogues held now, {under_way.already} from before"
    where = {
        "run": f"{folder} ({count}; {MANIFEST} pins versions and hashes)",
        "report": str(report),
        "check it": f"rlver-gym verify {folder}",
    }
    _print(plan, ranked, alarm_lines(watched), where)


def _hold(under_way: Run) -> int:
    """Hold the rest of a run under a progress bar on standard error; how many dialogues were held now."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    held = 0
    with bar:
        task = bar.add_task("starting", total=len(under_way.plan.cases()), completed=under_way.already)
        for episode in under_way.hold_rest():
            held += 1
            bar.update(task, advance=1, description=f"{episode.agent} · {episode.persona}"[:48].ljust(48))
    return held


def _print(plan: BenchPlan, ranked: Sequence[Score], suspects: Sequence[Text], where: dict[str, str]) -> None:
    console = Console()
    people = len(plan.chosen_personas())
    console.print(leaderboard(ranked, f"{plan.card.id}: {people} personas x {plan.seeds} seeds, {plan.user} user"))
    console.print(needs_table(ranked))
    for line in suspects:
        console.print(line, soft_wrap=True)
    for name, text in where.items():
        console.print(Text.assemble((f"{name:8s}", "bold"), " ", text), soft_wrap=True)
