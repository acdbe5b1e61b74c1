"""`rlver-gym bench`: agents against personas, with a table, a run folder and a report."""

import json
from pathlib import Path
from typing import Annotated, cast, get_args

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from rlver_gym.agents import AGENT_NAMES, SHIPPED_AGENTS
from rlver_gym.benchmark.plan import BenchPlan, PlanSplit
from rlver_gym.benchmark.report import write_report
from rlver_gym.benchmark.run import MANIFEST, read_episodes, run
from rlver_gym.benchmark.score import scores
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
    seeds: Annotated[int, typer.Option(min=1, help="Dialogues of each agent with each persona.")] = 3,
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
    held = _hold(plan, folder)
    episodes = read_episodes(folder)
    ranked = scores(episodes)
    report = write_report([folder])
    if as_json:
        typer.echo(
            json.dumps(
                {"run": str(folder), "report": str(report), "scores": [score._asdict() for score in ranked]},
                default=list,
            )
        )
        return
    console = Console()
    console.print(
        leaderboard(ranked, f"{plan.card.id}: {len(plan.chosen_personas())} personas x {seeds} seeds, {plan.user} user")
    )
    console.print(needs_table(ranked))
    console.print(
        f"[bold]run[/]     {folder} ({held} dialogues held now, {len(episodes) - held} from before; {MANIFEST} pins versions and hashes)",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"[bold]report[/]  {report}", highlight=False, soft_wrap=True)
    console.print(f"[dim]check it:[/] rlver-gym verify {folder}", highlight=False, soft_wrap=True)


def _hold(plan: BenchPlan, folder: Path) -> int:
    """Run the plan under a progress bar on standard error; how many dialogues were held now."""
    cases = plan.cases()
    already = (
        len({episode.key for episode in read_episodes(folder)})
        if (folder / MANIFEST).exists() and (folder / "episodes.jsonl").exists()
        else 0
    )
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    held = 0
    with bar:
        task = bar.add_task("starting", total=len(cases), completed=already)
        for episode in run(plan, folder):
            held += 1
            bar.update(task, advance=1, description=f"{episode.agent} · {episode.persona}"[:48].ljust(48))
    return held
