"""`rlver-gym rescore`: recorded dialogues by other users, and every other opinion of them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rlver_gym.bench.folder import MANIFEST
from rlver_gym.bench.guard import AGENT_TIMEOUT_S, guard_user
from rlver_gym.bench.opinions import Opinions, gather_opinions, tabulate_opinions, write_opinions
from rlver_gym.bench.rescore import Recorded, Rescore, Rescored, ScoreComparison, compare_scores
from rlver_gym.bench.rescore import rescore as appraise_again
from rlver_gym.cli.options import (
    AsJson,
    RunEnv,
    RunOrRecordings,
    RunPersonas,
    exit_if_any_skipped,
    print_json,
)
from rlver_gym.cli.report import ask_all, print_table, recorded_dialogues
from rlver_gym.cli.servers import UserOption, Yes, announce_cost, parse_user_options
from rlver_gym.core.user import SentientUser
from rlver_gym.users import make_user
from rlver_gym.util.atomic import convert_write_errors
from rlver_gym.util.errors import CardError, RunError
from rlver_gym.util.files import path_inside
from rlver_gym.util.model_names import uses_server
from rlver_gym.util.terminal import SafeConsole, format_count
from rlver_gym.util.user_code import CodeRunner

_CACHE = "rescore_cache.sqlite"


def rescore(
    run: RunOrRecordings,
    user: Annotated[
        list[str] | None,
        typer.Option(
            help="Who appraises: embedded, reader, openai:MODEL, or MODULE:NAME of your own; repeat"
            " it for more."
        ),
    ] = None,
    user_option: UserOption = None,
    personas: RunPersonas = None,
    env: RunEnv = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where answers (rescore_cache.sqlite) and opinions.json go. Default: the"
            " run's folder."
        ),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Appraise recorded dialogues by other users, without holding them again, and set their scores,
    a judge's marks and people's ratings beside the recorded one.

    A user hears the recorded words and keeps its own emotion. By agent: mean final emotion by
    both, correlation of changes within a dialogue, and overpayment: the share of replies that the
    record pays and this user does not, and what they are paid.

    A last table has all opinions by agent: the score's, the users', and those in judgements.jsonl
    (of rlver-gym judge) and ratings.jsonl (of the studio), with Kendall's tau of each order and the
    score's. It is kept in a run's opinions.json, for rlver-gym report.

    Dialogues that a user fails at are left out and named, and the exit code is 4. A model behind
    a server reads each dialogue whole, in one request, many at once. --user-option base_url=URL
    says where it is; of several users, those behind a server are given the options. What it
    answered is kept: the same command goes on where it stopped, and pays for nothing twice.
    """
    folder, options = out or run, parse_user_options(user_option)
    dialogues = recorded_dialogues(run, personas, env)
    users = make_appraisers(user or (), options, folder)
    announce_cost(users, [(len(x.dialogue.turns), False) for x in dialogues], options, yes)
    rescored = appraise_by(users, dialogues)
    compared = {name: compare_scores(each) for name, each in rescored.items()}
    opinions = gather_opinions(run, dialogues, rescored)
    recorded = ", ".join(sorted({dialogue.user for dialogue in dialogues}))
    if as_json:
        told = [
            {"user": name, "user_version": users[name].version, **_to_dict(result)}
            for name, result in compared.items()
        ]
        print_json({"recorded_user": recorded, "users": told, "opinions": opinions})
    else:
        for name, result in compared.items():
            _print_comparison(f"{run}: recorded ({recorded}) and {name}", result)
        print_opinions(SafeConsole(), opinions)
    if (run / MANIFEST).exists():
        write_opinions(folder, opinions)
    exit_if_any_skipped(
        (failed.recorded.key + (f" by {name}" if len(users) > 1 else ""), failed.failure)
        for name, result in compared.items()
        for failed in result.failures
    )


def make_appraisers(
    names: Sequence[str], options: Mapping[str, Any], folder: Path, cache_name: str = _CACHE
) -> dict[str, SentientUser]:
    """Users by name, one's own guarded. `options`: of the only one, or of those behind a server,
    whose answers are kept in this file of `folder`; CardError where nobody takes them.
    """
    takers = names if len(names) == 1 else list(filter(uses_server, names))
    if options and not takers:
        raise CardError("--user-option is of one --user, or of those behind a server. Name them.")
    if asked := list(filter(uses_server, names)):
        with convert_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise RunError(
                f"{folder}: cannot be written to, and what {asked[0]} answers would be lost. Give"
                " another place (rescore: --out)."
            )
    cache = {"response_cache": path_inside(folder, cache_name)}
    made = {
        name: make_user(
            name, **(cache if uses_server(name) else {}), **(options if name in takers else {})
        )
        for name in names
    }
    runner = CodeRunner(AGENT_TIMEOUT_S)
    return {name: guard_user(name, user, runner) for name, user in made.items()}


def appraise_by(
    users: Mapping[str, SentientUser], dialogues: Sequence[Recorded]
) -> dict[str, list[Rescored]]:
    """All dialogues by each user, under a bar. RunError when a server or budget stops it."""
    return {
        name: ask_all(appraise_again(user, dialogues), f"appraising: {name}", len(dialogues))
        for name, user in users.items()
    }


def print_opinions(console: SafeConsole, opinions: Opinions) -> None:
    """A row an agent, a column an opinion."""
    print_table(console, tabulate_opinions(opinions))
    if len(opinions.columns) == 1:
        hint = "The score is alone: name another user, judge the run or rate it."
        console.print_line(hint, style="yellow")


def _print_comparison(title: str, compared: Rescore) -> None:
    heading = ("agent", "recorded", "other", "level", "within r", "overpaid", "by")
    rows = [heading, *map(_format_score_row, (*compared.agents, compared.total))]
    SafeConsole().print_table(rows, title, _describe_result(compared))


def _to_dict(compared: Rescore) -> dict[str, Any]:
    total = {name: value for name, value in compared.total._asdict().items() if name != "agent"}
    failures = [{"dialogue": x.recorded.key, "why": x.failure} for x in compared.failures]
    return {**total, "agents": compared.agents, "failures": failures}


def _format_score_row(score: ScoreComparison) -> tuple[str, ...]:
    r, by = score.within_dialogue_r, score.overpaid_by
    return (
        score.agent or "all",
        f"{score.recorded:.1f}",
        f"{score.other:.1f}",
        f"{score.level:+.1f}",
        "–" if r is None else f"{r:.2f}",
        f"{score.overpaid:.0f} %",
        "–" if by is None else f"{by:.1f}",
    )


def _describe_result(compared: Rescore) -> list[str]:
    all_ = compared.total
    replies = format_count(all_.replies, "reply", "replies")
    by = "" if all_.overpaid_by is None else f", {all_.overpaid_by:.1f} points each"
    side = "lower" if all_.level < 0 else "higher"
    return [
        f"Level: the record is {abs(all_.level):.1f} points {side}.",
        f"Overpaid: {all_.overpaid:.1f} % of {replies}{by}.",
    ]
