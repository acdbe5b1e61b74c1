"""`rlver-gym rescore`: recorded dialogues by another user's score."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlver_gym.bench.guard import AGENT_TIMEOUT_S, guard_user
from rlver_gym.bench.rescore import Rescore, ScoreComparison, compare_scores
from rlver_gym.bench.rescore import rescore as appraise_again
from rlver_gym.cli.options import AsJson, RunEnv, RunPersonas, exit_if_any_skipped, print_json
from rlver_gym.cli.report import recorded_dialogues, show_progress
from rlver_gym.cli.servers import UserOption, parse_user_options
from rlver_gym.users import make_user
from rlver_gym.util.terminal import SafeConsole, format_count
from rlver_gym.util.user_code import CodeRunner


def rescore(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run folder, or a folder of recorded dialogues (SIMULATOR__AGENT.jsonl files)."
        ),
    ],
    user: Annotated[
        str,
        typer.Option(
            help="Who appraises: embedded, reader, openai:MODEL, or MODULE:NAME of your own."
        ),
    ],
    user_option: UserOption = None,
    personas: RunPersonas = None,
    env: RunEnv = None,
    as_json: AsJson = False,
) -> None:
    """Appraise recorded dialogues by another user, without holding them again, and set its score
    beside the recorded one.

    The user hears the recorded words and keeps its own emotion. By agent: mean final emotion by
    both, correlation of changes within a dialogue, and overpayment: the share of replies that the
    record pays and this user does not, and what they are paid. An agent that ends above the start
    by the record alone is marked.

    Dialogues that this user fails at are left out and named, and the exit code is 4. A model behind
    a server is asked about every reply: --user-option base_url=URL says where.
    """
    options = parse_user_options(user_option)
    appraiser = guard_user(user, make_user(user, **options), CodeRunner(AGENT_TIMEOUT_S))
    dialogues = recorded_dialogues(run, personas, env)
    work = appraise_again(appraiser, dialogues)
    found = compare_scores(list(show_progress(work, "appraising", len(dialogues))))
    recorded = ", ".join(sorted({one.user for one in dialogues}))
    if as_json:
        names = {"recorded_user": recorded, "user": user, "user_version": appraiser.version}
        print_json(names | _to_dict(found))
    else:
        liked = "liked by" if any(one.only_recorded for one in found.agents) else ""
        heading = ("agent", "recorded", "other", "level", "within r", "overpaid", "by", liked)
        rows = [heading, *map(_format_score_row, (*found.agents, found.total))]
        title = f"{run}: recorded ({recorded}) and {user}"
        SafeConsole().print_table(rows, title, _describe_result(found))
    exit_if_any_skipped((one.recorded.key, one.failure) for one in found.failures)


def _to_dict(found: Rescore) -> dict[str, Any]:
    total = {name: value for name, value in found.total._asdict().items() if name != "agent"}
    failures = [{"dialogue": one.recorded.key, "why": one.failure} for one in found.failures]
    return {**total, "kendall_tau": found.kendall_tau, "agents": found.agents, "failures": failures}


def _format_score_row(one: ScoreComparison) -> tuple[str, ...]:
    r, by = one.within_dialogue_r, one.overpaid_by
    return (
        one.agent or "all",
        f"{one.recorded:.1f}",
        f"{one.other:.1f}",
        f"{one.level:+.1f}",
        "–" if r is None else f"{r:.2f}",
        f"{one.overpaid:.0f} %",
        "–" if by is None else f"{by:.1f}",
        "the record only" if one.agent and one.only_recorded else "",
    )


def _describe_result(found: Rescore) -> list[str]:
    all_, tau = found.total, found.kendall_tau
    order = "none to tell" if tau is None else f"Kendall tau {tau:.2f}"
    replies = format_count(all_.replies, "reply", "replies")
    by = "" if all_.overpaid_by is None else f", {all_.overpaid_by:.1f} points each"
    side = "lower" if all_.level < 0 else "higher"
    return [
        f"Level: the record is {abs(all_.level):.1f} points {side}. Order: {order}.",
        f"Overpaid: {all_.overpaid:.1f} % of {replies}{by}.",
    ]
