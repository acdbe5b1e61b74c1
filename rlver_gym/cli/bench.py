"""`rlver-gym bench`: agents against personas, with a table, a run folder and a report."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import TextColumn, TimeElapsedColumn
from rich.text import Text

from rlver_gym.agents import AGENT_NAMES, SHIPPED_AGENTS
from rlver_gym.bench.compare import format_seeds
from rlver_gym.bench.costs import (
    estimate_reading,
    estimate_requests_and_tokens,
    read_response_cache_spending,
)
from rlver_gym.bench.draft import draft_suite
from rlver_gym.bench.flagged import format_alerts
from rlver_gym.bench.folder import MANIFEST
from rlver_gym.bench.gate import Evidence, Gate, decide
from rlver_gym.bench.guard import AGENT_TIMEOUT_S
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.noise import measure_spread_over_user_seeds, tabulate_seed_noise
from rlver_gym.bench.plan import MAX_SEEDS, MAX_USER_SEEDS, BenchPlan
from rlver_gym.bench.run import Run, open_run
from rlver_gym.bench.score import Score, count_failed_by, count_failures, score_to_json
from rlver_gym.bench.suite import Suite, check_against_runs, list_unsafe_names, read_suite
from rlver_gym.bench.sycophancy import count_sycophantic_replies
from rlver_gym.bench.table import Columns
from rlver_gym.cli.gate import (
    GATE_FAILED,
    describe_readers,
    guard_gate,
    make_readers,
    print_gate,
    rank_by_readers,
    read_again,
    write_gate,
)
from rlver_gym.cli.model_options import FieldOption, add_options, list_options, validate_options
from rlver_gym.cli.options import (
    SOME_FAILED,
    AgentTimeout,
    AllowCode,
    Personas,
    ScoresAsJson,
    print_json,
)
from rlver_gym.cli.report import print_scores, print_table
from rlver_gym.cli.rescore import print_opinions
from rlver_gym.cli.servers import (
    AgentOption,
    UserOption,
    Yes,
    add_chat_options,
    confirm_cost,
    parse_seconds,
    parse_user_options,
)
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.alarms import AnomalyReport, check_episodes
from rlver_gym.llm_client.connect import spending
from rlver_gym.llm_client.settings import ChatSettings, locate_server
from rlver_gym.studio.page import write_page
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import STOPPING, CacheError, CardError, RunError, stop_run
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
_FLAGS = {"split": "--split", "agents": "--agent", "env": "--env", "user": "--user"}


@add_chat_options()
@add_options("asked", list_options(BenchPlan, _PLAN), dict)
def bench(
    ctx: typer.Context,
    suite: Annotated[
        Path | None,
        typer.Argument(
            help="A suite's file (.yaml): agents, people, readers and thresholds, in place of the"
            " options that say so."
        ),
    ] = None,
    *,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Who is tested; repeat it for more. One of: {', '.join(AGENT_NAMES)}. Default:"
            f" {', '.join(SHIPPED_AGENTS)}."
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
    agent_timeout: AgentTimeout = f"{AGENT_TIMEOUT_S:g}",
    reference: Annotated[
        list[str] | None,
        typer.Option(
            help="Another user who reads each dialogue once more, as rescore --user, and ranks the"
            " agents; repeat it for more, of whom the first ranks."
        ),
    ] = None,
    allow_failures: Annotated[
        bool, typer.Option("--allow-failures", help="Exit with 0 also when some dialogues failed.")
    ] = False,
    yes: Yes = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Run folder. Default: runs/ENV-FINGERPRINT, so that the same command goes on where"
            " it stopped."
        ),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(help="Write a suite of what was run to this new file, to begin from."),
    ] = None,
    allow_code: AllowCode = False,
    as_json: ScoresAsJson = False,
) -> None:
    """Let agents talk to personas and compare how those people feel in the end.

    Prints the mean final emotion of each agent with its 95 % interval, how many people were content
    or left, and the paired difference to the best agent. Interrupt it at any moment: the same
    command goes on where it stopped, holds again what failed, and what a server has answered is in
    the run's response cache (response_cache.sqlite) and not paid twice.

    Exit code 0: all dialogues are held. 2: not what could be done. 3: a server was out for too
    long; the same command goes on later. 4: some dialogues failed, and count as 0 in the score at
    worst. 5: a threshold of the suite fails, whether dialogues failed too or not.

    A suite is a file that also says what must hold. Its gate, one line a threshold, is kept in the
    run's gate.xml (JUnit) and gate.md (for a pull request). What is undecided exits with 0: a bound
    on the measure lower fails there.

    Example: rlver-gym bench --agent listener --agent openai:gpt-4o --seeds 1 --init suite.yaml

    Example: rlver-gym bench suite.yaml --allow-code

    Example: rlver-gym bench --user openai:gpt-4o --agent adaptive --prices 2.50,10 --budget money=5
    """
    with guard_gate(out, suite):
        if suite is None:
            asked |= {
                "agents": agent or SHIPPED_AGENTS,
                "user_options": parse_user_options(user_option),
                "agent_options": parse_user_options(agent_option, "--agent-option"),
                "personas": personas,
                "panel": panel,
                "reference": reference or (),
                "budget": chat.budget,
                "prices": chat.prices,
            }
            meant = validate_options(Suite, asked, _FLAGS)
        else:
            _refuse_typed(ctx, suite)
            meant = read_suite(suite, allow_code=allow_code)
        plan = meant.make_plan(chat, suite)
        usual = Path("runs") / plan.folder_name  # made in any case: it names wrong options first
        if init and init.exists():
            raise RunError(f"{init} is there. Give --init the name of a new file.")
        timeout_s = parse_seconds(agent_timeout, "--agent-timeout")
    folder = out or usual
    with guard_gate(folder, suite), ExitStack() as opened:
        if suite:
            check_against_runs(meant, plan, suite, folder)
        bench_run = opened.enter_context(open_run(plan, folder, agent_timeout_s=timeout_s))
        users = make_readers(plan, folder, meant.reference)
        _announce_cost_and_confirm(bench_run, meant, yes)
        held = _run_missing_cases(bench_run)
        evidence = read_again(plan, folder, users, meant)
        spent = _list_spending(bench_run, meant.readers)
        report = write_page([folder])
    episodes, opinions = evidence.records.episodes, evidence.opinions
    failed = count_failures(episodes)
    ranked, columns = rank_by_readers(evidence)
    watched, truth = check_episodes(episodes), count_sycophantic_replies(episodes)
    noise = measure_spread_over_user_seeds(episodes, plan.seeds, plan.user_seeds)
    says = [*describe_readers(evidence)]
    gate = decide(meant, evidence) if meant.thresholds else None
    where = {"run": _describe_run(bench_run, held), "report": str(report)}
    where |= {"check it": f"rlver-gym verify {folder}", "spent": "; ".join(spent)}
    if gate and suite:
        where |= write_gate(folder, gate, suite, says[0] if says else "")
    if init:
        drafted, where["suite"] = _begin_suite(init, meant, ranked, watched)
        gate = decide(drafted, evidence)
    if as_json:
        some = {
            "noise": noise and noise.to_dict(),
            "failures": failed,
            "failed": count_failed_by(episodes),
            "unread": evidence.unread,
            "spent": spent,
            "opinions": opinions,
            "truth": [alert._asdict() for alert in truth],
            "gate": gate and gate.to_dict(),
        }
        scores = [score_to_json(score) for score in ranked]
        output = {"run": folder, "report": report, "scores": scores, **watched.to_dict()}
        print_json(output | {name: value for name, value in some.items() if value})
    else:
        again = "another --out" if suite else "the same command"
        notes = [*_list_failures(failed, again), *format_alerts(watched)]
        notes += [Text(alert.describe()) for alert in truth]
        _print_results(plan, ranked, columns, says, noise, notes, where)
        if opinions and opinions.capabilities:
            print_opinions(SafeConsole(), opinions)
        if gate:
            print_gate(SafeConsole(), gate)
    raise typer.Exit(_exit_code(evidence, gate if suite else None, meant, allow_failures))


def _begin_suite(
    path: Path, meant: Suite, ranked: Sequence[Score], watched: AnomalyReport
) -> tuple[Suite, str]:
    """Write the suite of what was run; it, and what is to be said of the file."""
    command = f"rlver-gym bench {path}" + " --allow-code" * bool(list_unsafe_names(meant))
    write_atomically(path, draft_suite(meant, command, ranked, watched), RunError)
    return read_suite(path, allow_code=True), f"{path} ({command}), where the run stands:"


_OWN = {*Suite.model_fields, "agent", "agent_option", "user_option", "init"} - {"budget", "prices"}


def _refuse_typed(ctx: typer.Context, suite: Path) -> None:
    """CardError for an option that decides what the suite's file decides."""
    for name in sorted(_OWN & ctx.params.keys()):
        if getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE":
            if name == "init":
                raise CardError(
                    f"--init goes with --agent, not with a suite. Copy {suite} instead."
                )
            option = {"persona_ids": "persona"}.get(name, name).replace("_", "-")
            raise CardError(f"--{option} is decided by {suite}. Change it there, or leave it out.")


def _describe_run(bench_run: Run, held: int) -> str:
    failed_before, dropped = len(bench_run.failed_before), bench_run.num_dropped
    again = f" ({failed_before} of them had failed)" if failed_before else ""
    again += f" ({dropped} had records that were edited or cut off)" if dropped else ""
    count = f"{format_count(held, 'dialogue')} held now{again}"
    return (
        f"{bench_run.folder} ({count}, {bench_run.num_finished_before} from before; {MANIFEST} pins"
        " versions and hashes)"
    )


def _exit_code(evidence: Evidence, gate: Gate | None, suite: Suite, allow_failures: bool) -> int:
    """A failing gate goes before failed dialogues and readings; a threshold on an agent's failures
    stands in their place.
    """
    if gate and gate.decision == "fail":
        return GATE_FAILED
    bound = {each.agent for each in suite.thresholds if each.measure == "failed"}
    failed = count_failed_by(evidence.records.episodes).keys() - bound
    is_loose = evidence.unread or (failed and None not in bound)
    return SOME_FAILED if is_loose and not allow_failures else 0


def _list_spending(bench_run: Run, readers: Sequence[str] = ()) -> list[str]:
    """What servers were asked for now, a line each, those of who read again too, and what the
    response cache holds by now.
    """
    read = [spending(locate_server(name, bench_run.plan.chat)) for name in readers]
    servers = {id(server): server for server in (*bench_run.spending, *read)}
    lines = [server.summary() for server in servers.values()]
    if not lines or not bench_run.has_earlier_answers:
        return lines
    paid = read_response_cache_spending(bench_run.chat.response_cache)
    calls, tokens = format_count(paid.calls, "call"), format_count(paid.tokens, "token")
    return [*lines, f"in the response cache {calls}, {tokens}"]


def _announce_cost_and_confirm(bench_run: Run, suite: Suite, yes: bool) -> None:
    """What the rest of the run will cost, and those who read it again, on standard error; where it
    costs money, a person at a terminal is asked. RunError where there is none to ask.
    """
    plan, rest, told = bench_run.plan, bench_run.missing_cases, []
    if rest and bench_run.spending:
        dialogues = format_count(len(rest), "dialogue")
        told = [f"{dialogues}: {estimate_requests_and_tokens(plan, rest)}"]
    count = plan.planned.count
    if suite.reads_baseline:
        count += Manifest.read(Path(str(suite.baseline))).planned.count
    reading = estimate_reading(count, count * plan.card.turns, plan.chat)
    told += [f"{name} reads each dialogue once: {reading}" for name in suite.readers]
    for line in told:
        SafeConsole(stderr=True).print_line(f"{line}; what the response cache holds is free")
    if told:
        readers = [locate_server(name, plan.chat) for name in suite.readers]
        confirm_cost([*plan.servers(plan.chat), *readers], yes)


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
                status = [spent.summary() for spent in bench_run.spending]
                status += [f"{failed} failed"] if failed else []
                bar.update(task, advance=1, description=name, spent="; ".join(status))
    except (*STOPPING, CacheError) as error:
        num_kept = held + bench_run.num_finished_before
        kept = (
            f"{num_kept} of {format_count(total, 'dialogue')} {'is' if num_kept == 1 else 'are'}"
            " kept: the same command goes on from there."
        )
        spent = "".join(f" Spent: {line}." for line in _list_spending(bench_run))
        raise stop_run(error, kept + spent) from error
    return held


def _list_failures(failed: dict[str, int], again: str) -> Iterator[Text]:
    if not failed:
        return
    count, is_one = sum(failed.values()), sum(failed.values()) == 1
    yield Text(
        f"{format_count(count, 'dialogue')} failed and {'counts' if is_one else 'count'} in no"
        f" mean, but with 0 in the score at worst, which ranks; {again} holds"
        f" {'it' if is_one else 'them'} again:",
        style="yellow",
    )
    for why, count in list(failed.items())[:_MOST_REASONS]:
        yield Text(f"{count:12d}  {one_line(why)}", style="dim")


def _print_results(
    plan: BenchPlan,
    ranked: Sequence[Score],
    columns: Columns,
    says: Iterable[str],
    noise: Spread | None,
    suspects: Sequence[Text],
    where: dict[str, str],
) -> None:
    console, seeds = SafeConsole(), format_seeds(plan.seeds, plan.user_seeds)
    people = format_count(len(plan.planned.personas), "persona")
    of = f" of {one_line(Path(plan.personas).name)}" if plan.personas else ""
    title = f"{plan.card.id}: {people}{of} x {seeds}, {plan.user} user"
    print_scores(console, ranked, title, columns, says)
    if noise:
        print_table(console, tabulate_seed_noise(noise, ranked))
    for line in suspects:
        console.print_line(line)
    for name, text in where.items():
        if text:
            console.print_line((f"{name:8s}", "bold"), " ", text)
