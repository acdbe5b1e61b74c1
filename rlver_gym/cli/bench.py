"""`rlver-gym bench`: agents against personas, with a table, a run folder and a report."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import TextColumn, TimeElapsedColumn
from rich.text import Text

from rlver_gym.agents import AGENT_NAMES, SHIPPED_AGENTS
from rlver_gym.bench.check import read_run
from rlver_gym.bench.compare import format_seeds
from rlver_gym.bench.costs import estimate_requests_and_tokens, read_response_cache_spending
from rlver_gym.bench.flagged import format_alerts
from rlver_gym.bench.folder import MANIFEST
from rlver_gym.bench.guard import AGENT_TIMEOUT_S
from rlver_gym.bench.noise import measure_spread_over_user_seeds
from rlver_gym.bench.opinions import Opinions, gather_opinions, write_opinions
from rlver_gym.bench.plan import MAX_SEEDS, MAX_USER_SEEDS, BenchPlan
from rlver_gym.bench.run import Run, open_run
from rlver_gym.bench.score import (
    Score,
    count_failed_by,
    count_failures,
    score_agents,
    score_to_json,
)
from rlver_gym.bench.sycophancy import SycophancyCounts, count_sycophantic_replies
from rlver_gym.cli.model_options import FieldOption, add_options, list_options, validate_options
from rlver_gym.cli.options import SOME_FAILED, Personas, ScoresAsJson, print_json
from rlver_gym.cli.report import print_noise, print_scores, recorded_dialogues
from rlver_gym.cli.rescore import appraise_by, make_appraisers, print_opinions
from rlver_gym.cli.servers import (
    AgentOption,
    UserOption,
    add_chat_options,
    confirm_cost,
    parse_seconds,
    parse_user_options,
)
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.alarms import check_episodes
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.people.pairing import draw_panel
from rlver_gym.studio.page import write_page
from rlver_gym.util.errors import (
    STOPPING,
    CacheError,
    CardError,
    RunError,
    RunStopped,
    ServerOutage,
    ServerUnreachable,
)
from rlver_gym.util.interval import Spread
from rlver_gym.util.progress import progress_bar
from rlver_gym.util.terminal import SafeConsole, format_count, one_line

_MOST_REASONS = 5


_PLAN = {
    "env": FieldOption(),
    "seeds": FieldOption(int, min=1, max=MAX_SEEDS),
    "user_seeds": FieldOption(int, min=1, max=MAX_USER_SEEDS),
    "split": FieldOption(),
    "persona_ids": FieldOption(list[str], flag="--persona"),
    "user": FieldOption(),
}


@add_chat_options()
@add_options("asked", list_options(BenchPlan, _PLAN), dict)
def bench(
    *,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                f"Who is tested; repeat it for more. One of: {', '.join(AGENT_NAMES)}. Default:"
                f" {', '.join(SHIPPED_AGENTS)}."
            )
        ),
    ] = None,
    asked: dict[str, Any],
    panel: Annotated[
        int | None,
        typer.Option(min=1, help="Only this many of the split, balanced and always the same ones."),
    ] = None,
    personas: Personas = None,
    agent_option: AgentOption = None,
    user_option: UserOption = None,
    chat: ChatSettings,
    agent_timeout: Annotated[
        str,
        typer.Option(
            metavar="SECONDS|none",
            help="How long a reply of an agent, or of a user, of your own (MODULE:NAME) may take.",
        ),
    ] = f"{AGENT_TIMEOUT_S:g}",
    reference: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "Another user who appraises the same dialogues, as rescore --user; repeat it for"
                " more."
            )
        ),
    ] = None,
    allow_failures: Annotated[
        bool, typer.Option("--allow-failures", help="Exit with 0 also when some dialogues failed.")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help=(
                "Do not ask before a benchmark that costs money; needed where there is no terminal"
                " to ask at."
            ),
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Run folder. Default: runs/ENV-FINGERPRINT, so that the same command goes on where"
                " it stopped."
            )
        ),
    ] = None,
    as_json: ScoresAsJson = False,
) -> None:
    """Let agents talk to personas and compare how those people feel in the end.

    Prints the mean final emotion of each agent with its 95 % interval, how many people were content
    or left, and the paired difference to the best agent. Interrupt it at any moment: the same
    command goes on where it stopped, holds again what failed, and what a server has answered is in
    the run's response cache (response_cache.sqlite) and not paid twice.

    Exit code 0: all dialogues are held. 2: not what could be done. 3: a server was out for too
    long; the same command goes on later. 4: some dialogues failed, and count as 0 in the score at
    worst.

    Example: rlver-gym bench --agent listener --agent openai:gpt-4o --seeds 1

    Example: rlver-gym bench --agent listener --agent oracle --user-seeds 5

    Example: rlver-gym bench --user openai:gpt-4o --agent adaptive --prices 2.50,10 --budget money=5
    """
    if twice := next((name for name in agent or () if (agent or []).count(name) > 1), None):
        raise CardError(
            f"--agent {twice} is named twice. Name each agent once; for more dialogues of each,"
            " raise --seeds."
        )
    asked |= {
        "agents": agent or SHIPPED_AGENTS,
        "user_options": parse_user_options(user_option),
        "personas": personas,
        "agent_options": parse_user_options(agent_option, "--agent-option"),
        "chat": chat,
    }
    plan = validate_options(BenchPlan, asked, {"split": "--split"})
    if panel and not plan.persona_ids:
        drawn = draw_panel(plan.library, plan.split or plan.card.split, panel)
        plan = plan.model_copy(update={"persona_ids": drawn})
    usual = Path("runs") / plan.folder_name  # made in any case: it names wrong options first
    folder = out or usual
    timeout_s = parse_seconds(agent_timeout, "--agent-timeout")
    with open_run(plan, folder, agent_timeout_s=timeout_s) as bench_run:
        _announce_cost_and_confirm(bench_run, yes)
        held = _run_missing_cases(bench_run)
        spent = _list_spending(bench_run)
        episodes, planned = read_run(folder).episodes, plan.planned
        report = write_page([folder])
    ranked, watched = score_agents(episodes, planned), check_episodes(episodes)
    failed, truth = count_failures(episodes), count_sycophantic_replies(episodes)
    noise = measure_spread_over_user_seeds(episodes, plan.seeds, plan.user_seeds)
    heard = _gather_opinions(folder, reference, personas, plan.env) if reference else None
    if as_json:
        found = {
            "run": folder,
            "report": report,
            "scores": [score_to_json(score) for score in ranked],
            **watched.to_dict(),
            **({"noise": noise.to_dict()} if noise else {}),
            **({"failures": failed, "failed": count_failed_by(episodes)} if failed else {}),
            **({"spent": spent} if spent else {}),
            **_results_beside_scores(heard, truth),
        }
        print_json(found)
        raise typer.Exit(_exit_code(failed, allow_failures))
    failed_before, dropped = len(bench_run.failed_before), bench_run.num_dropped
    again = f" ({failed_before} of them had failed)" if failed_before else ""
    again += f" ({dropped} had records that were edited or cut off)" if dropped else ""
    count = f"{format_count(held, 'dialogue')} held now{again}"
    where = {
        "run": f"{folder} ({count}, {bench_run.num_finished_before} from before; {MANIFEST} pins"
        " versions and hashes)",
        "report": str(report),
        "check it": f"rlver-gym verify {folder}",
        **({"spent": "; ".join(spent)} if spent else {}),
    }
    notes = [
        *_list_failures(failed),
        *format_alerts(watched),
        *map(SycophancyCounts.describe, truth),
    ]
    _print_results(plan, ranked, noise, notes, where)
    if heard:
        print_opinions(SafeConsole(), heard)
    raise typer.Exit(_exit_code(failed, allow_failures))


def _gather_opinions(
    folder: Path, references: Sequence[str], personas: str | None, env: str
) -> Opinions:
    """The opinions of other users, beside a judge's and people's; kept for the report."""
    dialogues = recorded_dialogues(folder, personas, env)
    users = make_appraisers(references, {}, folder)
    found = gather_opinions(folder, dialogues, appraise_by(users, dialogues))
    write_opinions(folder, found)
    return found


def _results_beside_scores(
    heard: Opinions | None, truth: Sequence[SycophancyCounts]
) -> dict[str, Any]:
    opinions = {"opinions": heard} if heard else {}
    return opinions | ({"truth": [one._asdict() for one in truth]} if truth else {})


def _exit_code(failed: Mapping[str, int], allow_failures: bool) -> int:
    return SOME_FAILED if failed and not allow_failures else 0


def _list_spending(bench_run: Run) -> list[str]:
    """What servers were asked for now, a line each, and what the response cache holds by now."""
    lines = [spending.summary() for spending in bench_run.spending]
    if not lines or not bench_run.has_earlier_answers:
        return lines
    paid = read_response_cache_spending(bench_run.chat.response_cache)
    calls, tokens = format_count(paid.calls, "call"), format_count(paid.tokens, "token")
    return [*lines, f"in the response cache {calls}, {tokens}"]


def _announce_cost_and_confirm(bench_run: Run, yes: bool) -> None:
    """What the rest of the run will cost, on standard error; where it costs money, a person at a
    terminal is asked. RunError where there is none to ask.
    """
    plan, rest = bench_run.plan, bench_run.missing_cases
    if not rest or not bench_run.spending:
        return
    dialogues = format_count(len(rest), "dialogue")
    SafeConsole(stderr=True).print_line(
        f"{dialogues}: {estimate_requests_and_tokens(plan, rest)}; what the response cache holds is"
        " free"
    )
    confirm_cost(plan.servers(plan.chat), yes)


def _run_missing_cases(bench_run: Run) -> int:
    """Hold the rest of a run under a progress bar on standard error; how many dialogues were held
    now. RunError when a server or budget stops it.
    """
    bar = progress_bar(TimeElapsedColumn(), TextColumn("{task.fields[spent]}", markup=False))
    bench_run.on_outage(lambda told: bar.console.print(Text(told, style="yellow"), soft_wrap=True))
    held = failed = 0
    total = len(bench_run.plan.cases())
    try:
        with bar:
            task = bar.add_task(
                "starting", total=total, completed=bench_run.num_finished_before, spent=""
            )
            for episode in bench_run.run_missing():
                held += 1
                failed += episode.outcome is Outcome.FAILED
                name = f"{episode.agent} · {episode.persona}"[:48].ljust(48)
                status = [one.summary() for one in bench_run.spending]
                status += [f"{failed} failed"] if failed else []
                bar.update(task, advance=1, description=name, spent="; ".join(status))
    except (*STOPPING, CacheError) as error:
        num_kept = held + bench_run.num_finished_before
        kept = (
            f"{num_kept} of {format_count(total, 'dialogue')} {'is' if num_kept == 1 else 'are'}"
            " kept: the same command goes on from there."
        )
        spent = "".join(f" Spent: {line}." for line in _list_spending(bench_run))
        is_outage = isinstance(error, ServerOutage | ServerUnreachable)
        raise (RunStopped if is_outage else RunError)(f"{error} {kept}{spent}") from error
    return held


def _list_failures(failed: dict[str, int]) -> Iterator[Text]:
    if not failed:
        return
    count, is_one = sum(failed.values()), sum(failed.values()) == 1
    yield Text(
        f"{format_count(count, 'dialogue')} failed and {'counts' if is_one else 'count'} in no"
        " mean, but with 0 in the score at worst, which ranks; the same command holds"
        f" {'it' if is_one else 'them'} again:",
        style="yellow",
    )
    for why, count in list(failed.items())[:_MOST_REASONS]:
        yield Text(f"{count:12d}  {one_line(why)}", style="dim")


def _print_results(
    plan: BenchPlan,
    ranked: Sequence[Score],
    noise: Spread | None,
    suspects: Sequence[Text],
    where: dict[str, str],
) -> None:
    console, seeds = SafeConsole(), format_seeds(plan.seeds, plan.user_seeds)
    people = format_count(len(plan.planned.personas), "persona")
    of = f" of {one_line(Path(plan.personas).name)}" if plan.personas else ""
    title = f"{plan.card.id}: {people}{of} x {seeds}, {plan.user} user"
    print_scores(console, ranked, title)
    print_noise(console, noise, ranked)
    for line in suspects:
        console.print_line(line)
    for name, text in where.items():
        console.print_line((f"{name:8s}", "bold"), " ", text)
