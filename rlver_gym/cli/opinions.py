"""`rlver-gym opinions`: the score beside every other judgement of the same dialogues."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rlver_gym.bench.export.raters import write_corpus
from rlver_gym.bench.guard import AGENT_TIMEOUT_S, guard_user
from rlver_gym.bench.opinions import Opinions, build_opinion_rows, gather_opinions, write_opinions
from rlver_gym.cli.options import AsJson, RunEnv, RunPersonas, print_json
from rlver_gym.cli.report import print_rows, recorded_dialogues, show_progress
from rlver_gym.users import make_user
from rlver_gym.util.terminal import SafeConsole, format_count
from rlver_gym.util.user_code import CodeRunner

References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        help=(
            "Another user who appraises the same dialogues: reader, embedded, openai:MODEL, or"
            " MODULE:NAME of your own; repeat it for more."
        ),
    ),
]


def opinions(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    reference: References = None,
    personas: RunPersonas = None,
    env: RunEnv = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Write people's ratings that say why, in the form of the corpus of rated replies,"
                " into this folder; nothing else is done."
            )
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The score that was optimised beside every other opinion of the same dialogues, by agent.

    Other users (--reference), the five capabilities where `rlver-gym judge` has judged the run
    (judgements.jsonl), and people's ratings where there are any (ratings.jsonl: dialogue
    AGENT/PERSONA/SEED, rater, turn from 1, change from -10 to 10). Kendall's tau compares orders.
    An agent that only the score likes is marked: that is what being optimised for a score looks
    like. What was found is kept in opinions.json, for rlver-gym report.
    """
    if corpus:
        done = write_corpus(run, corpus, personas)
        typer.echo(
            f"{format_count(done.ratings, 'rating')} in {done.folder}; without the factors or the"
            f" reply, and left out: {done.left_out}"
        )
        return
    found = gather_run_opinions(run, reference or (), personas, env)
    if as_json:
        print_json(found)
        return
    print_opinions(SafeConsole(), found)


def gather_run_opinions(
    run: Path, references: Sequence[str], personas: str | None, env: str | None
) -> Opinions:
    """The opinions of a run, with a bar while other users are asked; kept for its report."""
    dialogues = recorded_dialogues(run, personas, env)
    runner = CodeRunner(AGENT_TIMEOUT_S)
    users = {name: guard_user(name, make_user(name), runner) for name in references}
    shown = show_progress(users, "second opinions", len(users))
    found = gather_opinions(run, dialogues, {name: users[name] for name in shown})
    write_opinions(run, found)
    return found


def print_opinions(console: SafeConsole, found: Opinions | None) -> None:
    """A row an agent, a column an opinion; nothing for None."""
    if found is None:
        return
    print_rows(console, "opinions: final emotion, and marks from 1 to 5", build_opinion_rows(found))
    if len(found.columns) == 1:
        hint = "The score is alone: name another user with --reference, or judge the run."
        console.print_line(hint, style="yellow")
