"""`rlver-gym report`, `strategies` and `verify`: of runs that are held."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from rich.progress import track

from rlver_gym.bench.by_persona import tabulate_training_signal
from rlver_gym.bench.check import Problems
from rlver_gym.bench.compare import Comparison, read_comparisons
from rlver_gym.bench.flagged import format_alerts
from rlver_gym.bench.noise import (
    measure_noise,
    measure_spread_over_runs,
    tabulate_seed_noise,
    tabulate_shift,
)
from rlver_gym.bench.recompute import Sources
from rlver_gym.bench.rescore import Recorded, read_dialogues
from rlver_gym.bench.score import Score
from rlver_gym.bench.sections import PROTOCOLS_DIFFER, render_markdown, sections_to_json
from rlver_gym.bench.strategies import STRATEGIES, analyse_strategies, tabulate_strategies
from rlver_gym.bench.table import Columns, Table, build_score_rows, need_rows, shorten_agent_path
from rlver_gym.bench.verdict import Results, Verdict, skip_verification, verify_and_summarize
from rlver_gym.cli.options import AsJson, RunEnv, RunPersonas, ScoresAsJson, print_json
from rlver_gym.cli.servers import UserOption, parse_user_options
from rlver_gym.environment.alarms import check_episodes
from rlver_gym.policy.learning.metrics import read_metrics
from rlver_gym.studio.page import write_page
from rlver_gym.studio.runs import Runs
from rlver_gym.studio.trainings import is_training
from rlver_gym.util.errors import STOPPING, stop_run
from rlver_gym.util.terminal import SafeConsole, one_line, print_text

T = TypeVar("T")


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of runs, and of training runs. Several are compared; those of different"
            " protocols get a table each."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the page. Default, in the first run's folder: report.html, or"
            " compare.html for several."
        ),
    ] = None,
    recomputed: Annotated[
        bool,
        typer.Option(
            "--recompute/--no-recompute",
            help="Whether to recompute the runs first, as verify does, and say what it finds.",
        ),
    ] = True,
    by: Annotated[
        Literal["persona"] | None,
        typer.Option(
            help="Add what each agent's dialogues with each person could teach a learner."
        ),
    ] = None,
    as_json: ScoresAsJson = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print all of it as Markdown instead of tables.")
    ] = False,
) -> None:
    """Write report.html anew, and print the tables. The page is the studio's, to read and to send:
    one file that needs no network.

    What is missing, doubled, cut off or not as recorded is said, and for agents that are in all of
    several runs, how far level and order move between them.

    --json and --markdown add support strategies, and a judge's marks and second opinions where
    there are any.

    --by persona says whom to train on, of a run with eight seeds or more: mean and spread of the
    final emotion, the share of groups of 4 and 8 dialogues that all end alike, from which a
    group-relative learner (GRPO) learns nothing, and how far the best agent is ahead.
    """
    console = SafeConsole()
    benched = [folder for folder in runs if not is_training(folder)]
    for folder in runs:
        read_metrics(folder)  # an edited line is an error here
    verdicts = [
        verify_and_summarize(folder, watch=_show_recomputing)
        if recomputed
        else skip_verification(folder, "--no-recompute was asked for.")
        for folder in benched
    ]
    all_runs = Runs(benched, verdicts=verdicts)
    comparisons = all_runs.comparisons
    page = write_page(runs, out, all_runs)
    if as_json:
        scores = _scores_to_json(comparisons, by_persona=by == "persona") if benched else {}
        verified = (
            {"verified": {verdict.run: verdict.to_dict() for verdict in verdicts}}
            if verdicts
            else {}
        )
        print_json({"report": page, **scores, **verified})
        return
    if markdown:
        print_text(render_markdown(comparisons, verdicts, by_persona=by == "persona"))
        return
    if len(comparisons) > 1:
        console.print_line(PROTOCOLS_DIFFER, style="yellow")
    for comparison in comparisons:
        _print_comparison(console, comparison)
        for table in tabulate_training_signal(comparison.episodes) if by else ():
            print_table(console, table)
    if shift := measure_spread_over_runs(comparisons):
        print_table(console, tabulate_shift(shift))
    for verdict in verdicts:
        _print_verdict(console, verdict)
    console.print_line(("report", "bold"), f"  {page}")


def _print_verdict(console: SafeConsole, verdict: Verdict, style: str = "yellow") -> None:
    for text, is_alarm in verdict.describe(verdict.run):
        console.print_line(text, style=style if is_alarm else "")


def _print_problems(console: SafeConsole, problems: Iterable[Problems]) -> None:
    """A warning for everything in a run that is not as a run of its plan writes it."""
    for problem in problems:
        for line in problem.describe(str(problem.folder)):
            console.print_line(one_line(line), style="yellow")


def recorded_dialogues(run: Path, personas: str | None, env: str | None) -> list[Recorded]:
    """What can be appraised or judged again; what is wrong in the folder on standard error."""
    dialogues, problems = read_dialogues(run, Sources(personas=personas, env=env))
    _print_problems(SafeConsole(stderr=True), problems)
    return dialogues


def show_progress(work: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """The same, under a bar on standard error."""
    return track(work, what, total, console=SafeConsole(stderr=True), transient=True)


def ask_all(work: Iterable[T], what: str, total: int) -> list[T]:
    """All that servers say, under a bar. RunError when an outage or a budget stops it."""
    try:
        return list(show_progress(work, what, total))
    except STOPPING as error:
        raise stop_run(error, "What was answered is kept: the same command goes on.") from error


def _show_recomputing(results: Results) -> Results:
    return show_progress(results, "recomputing")


def _scores_to_json(comparisons: Sequence[Comparison], *, by_persona: bool) -> dict[str, Any]:
    """The scores; where they cannot be compared, those of each protocol."""
    sections = [sections_to_json(each, by_persona=by_persona) for each in comparisons]
    shift = measure_spread_over_runs(comparisons)
    between = {"between_runs": shift.to_dict()} if shift else {}
    if len(sections) == 1:
        return {**sections[0], **between}
    named = zip(comparisons, sections, strict=True)
    return {
        "protocols": [
            {"protocol": str(comparison.protocol), "runs": comparison.labels, **scored}
            for comparison, scored in named
        ],
        **between,
    }


def _print_comparison(console: SafeConsole, comparison: Comparison) -> None:
    ranked, runs = comparison.score(), " and ".join(comparison.labels)
    print_scores(console, ranked, f"{runs}: {comparison.protocol}")
    for line in format_alerts(check_episodes(comparison.episodes)):
        console.print_line(line)
    if noise := measure_noise(comparison):
        print_table(console, tabulate_seed_noise(noise, ranked))


def print_scores(
    console: SafeConsole,
    ranked: Sequence[Score],
    title: str,
    columns: Columns | None = None,
    notes: Iterable[str] = (),
) -> None:
    """The leaderboard, and the same by hidden need."""
    print_table(console, Table(title, build_score_rows(ranked, columns), list(notes)))
    if any(score.needs for score in ranked):
        print_table(console, Table("final emotion by hidden need", need_rows(ranked)))


def print_table(console: SafeConsole, table: Table) -> None:
    heading, *body = table.rows
    agents = [agent for agent, *_ in body]
    shown = [[shorten_agent_path(agent, agents), *values] for agent, *values in body]
    console.print_table([list(map(one_line, heading)), *shown], table.title, table.notes)


def strategies(
    run: Annotated[Path, typer.Argument(help="A run folder.")], as_json: AsJson = False
) -> None:
    """Say which support strategies the agents of a run use, how often one returns in the next turn,
    and how the emotion moves in turns with and without it.

    Question, restatement, reflection of feelings, affirmation, suggestion: labelled offline from
    the words of English turns. Intervals are over personas. --json has the shares by hidden need.
    """
    (comparison,) = read_comparisons([run])
    _print_problems(SafeConsole(stderr=True), [comparison.runs[0].problems])
    analysed = analyse_strategies(comparison.episodes)
    if as_json:
        print_json({"labels": STRATEGIES, "agents": analysed})
        return
    console = SafeConsole()
    console.print_line(f"{comparison.labels[0]}: {comparison.protocol}")
    for table in tabulate_strategies(analysed):
        print_table(console, table)


def verify(
    run: Annotated[Path, typer.Argument(help="A run folder, your own or anybody's.")],
    response_cache: Annotated[
        Path | None,
        typer.Option(
            help="The response cache of a run with an LLM user, when it is not"
            " response_cache.sqlite in the folder."
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(help="The user of the run when it is your own: MODULE:NAME, or reader:FILE."),
    ] = None,
    user_option: UserOption = None,
    personas: RunPersonas = None,
    env: RunEnv = None,
    rerun: Annotated[
        bool,
        typer.Option(
            help="Let the base of a run with the reader read again; it may differ by one point."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Recompute every appraisal, reward and answer of a run without servers (what they answered is
    in the run's response cache), and ask the agents again that come with the package.

    A run folder starts no code and opens no file outside of it: your own user, personas or
    response cache are used when you name them here.

    Exit code 0 when the run holds every dialogue of its plan, each ended and as recorded, 1 when
    one is not: the first episode and turn that differ are named, and how many episodes do. What
    failed is counted, by the agent and by the user.
    """
    sources = Sources(user, parse_user_options(user_option), personas, env)
    verdict = verify_and_summarize(
        run, response_cache, sources, rerun=rerun, watch=_show_recomputing
    )
    if as_json:
        print_json(verdict.to_dict())
    else:
        _print_verdict(SafeConsole(stderr=not verdict.is_sound), verdict, "red")
    if not verdict.is_sound:
        raise typer.Exit(2 if verdict.refused else 1)
