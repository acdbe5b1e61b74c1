"""`rlver-gym sample`, `rate` and `sheets`: replies of a policy, and what a user or readers make of
them.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from rlver_gym.bench.folder import RESPONSE_CACHE_FILE
from rlver_gym.bench.rate import list_unrated_places, rate_places
from rlver_gym.bench.table import Table
from rlver_gym.cli.options import exit_if_any_skipped
from rlver_gym.cli.report import ask_all, print_table
from rlver_gym.cli.rescore import make_appraisers
from rlver_gym.cli.servers import UserOption, Yes, announce_cost, parse_user_options
from rlver_gym.cli.train import import_with_torch
from rlver_gym.corpora.corpus import ENV, Corpus, append_ratings
from rlver_gym.corpora.levels import Level, measure_levels
from rlver_gym.corpora.sheets import read_sheets, write_sheets
from rlver_gym.llm_client.response_cache import ResponseCache, Row
from rlver_gym.policy.models.precision import Dtype
from rlver_gym.util.groups import group
from rlver_gym.util.interval import format_estimate
from rlver_gym.util.progress import progress_bar
from rlver_gym.util.terminal import SafeConsole, format_count

app = typer.Typer(
    help="Blind rating sheets of replies, and readers' ratings back.", no_args_is_help=True
)
Replies = Annotated[Path, typer.Argument(help="A corpus (research/corpus.md), as sample writes.")]


def sample(
    model: Annotated[str, typer.Argument(help="A causal LM: a Hugging Face name or a folder.")],
    out: Annotated[Path, typer.Option(help="Folder for the replies.")],
    at: Annotated[Path, typer.Option(help="The corpus whose moments are replied to.")],
    replies: Annotated[int, typer.Option(min=1, help="Draws at each moment.")] = 6,
    moments: Annotated[int, typer.Option(min=1, help="At most so many, evenly from all.")] = 60,
    persona: Annotated[
        list[str] | None, typer.Option(help="Only with this person; repeat it for more.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the likeliest token.")] = 0.7,
    reply_tokens: Annotated[int, typer.Option(min=1, help="The longest reply.")] = 100,
    name: Annotated[str, typer.Option(help="The policy's name among the supporters.")] = "policy",
    system: Annotated[
        str | None,
        typer.Option(help="The prompt; without it what the model's folder says, or the package's."),
    ] = None,
    dtype: Annotated[
        Dtype, typer.Option(help="bfloat16 halves memory and time, also on a CPU with avx512_bf16.")
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Decides what is drawn.")] = 0,
) -> None:
    """Draw replies of a policy at moments of a corpus, and write them as a corpus to rate.

    Example: rlver-gym sample runs/sft --at recordings/en/samples/own --out drawn
    """
    drawing = import_with_torch("rlver_gym.policy.sample")
    corpus = Corpus(at)
    chosen = drawing.choose_moments(corpus, persona or (), moments)
    how = {"replies": replies, "temperature": temperature, "max_reply_tokens": reply_tokens}
    how |= {"system": system, "dtype": dtype, "name": name, "seed": seed}
    with progress_bar() as bar:
        task = bar.add_task("moments", total=len(chosen))
        for done in drawing.write_samples(model, corpus, chosen, out, **how):
            bar.update(task, completed=done)
    SafeConsole().print_line(f"{len(chosen)} moments, {replies} replies each: {out}")


def rate(
    corpus: Replies,
    user: Annotated[
        str,
        typer.Option(help="Who rates: openai:MODEL, reader, embedded, or MODULE:NAME of your own."),
    ],
    user_option: UserOption = None,
    yes: Yes = False,
) -> None:
    """Have a user in the person's place rate every reply of a corpus that nobody has rated, for
    rlver-gym train --from CORPUS to learn from.

    An LLM user reads the replies to one moment side by side, in one request, and a whole dialogue
    in one; --user-option concurrency=64 says how many requests are under way at once. Take a model
    that may pay a learner (rlver-gym calibrate).

    Ratings are written together, at the end; until then answers are kept in the corpus's
    response_cache.sqlite, so that the same command, killed, goes on and pays for nothing twice.

    Moments and dialogues that the user fails at are named, and the exit code is 4: the same command
    asks about these alone, and anew.

    Training takes the mean of a reply's ratings: to compare two users, rate two copies.

    Example: rlver-gym rate drawn --user openai:MODEL --user-option base_url=http://HOST:8000/v1
    """
    places, options = list_unrated_places(Corpus(corpus)), parse_user_options(user_option)
    # a request that failed before the command was stopped is made again
    _forget_answers(corpus / RESPONSE_CACHE_FILE, lambda row: row.answer is None)
    users = make_appraisers([user], options, corpus, RESPONSE_CACHE_FILE)
    sizes = [(len(place.replies), place.excerpt.replies is not None) for place in places]
    announce_cost(users, sizes, options, yes)
    rated = ask_all(rate_places(users[user], places), "rating", len(places))
    ratings = [rating for place in rated for rating in place.ratings]
    append_ratings(corpus, ratings)
    told = f"{format_count(len(ratings), 'new rating')} in {corpus}"
    SafeConsole().print_line(f"{told}, by {users[user].kind} {users[user].version}")
    _print_levels(corpus)
    failed = [(place.id, place.failure) for place in rated if place.failure]
    if failed:
        _forget_answers(corpus / RESPONSE_CACHE_FILE, lambda _: True)
    exit_if_any_skipped(failed)


def _forget_answers(cache: Path, is_forgotten: Callable[[Row], bool]) -> None:
    if cache.exists():
        with closing(ResponseCache(cache)) as answers:
            answers.delete([row.key for row in answers.rows() if is_forgotten(row)])


@app.command()
def write(
    corpus: Replies,
    out: Annotated[Path, typer.Option(help="Folder for the sheets.")],
    recorded: Annotated[
        Path,
        typer.Option(
            help="The rated corpus that the anchors are taken from: recordings/en/train of the"
            " clone, or another with rated replies of rogers and confused."
        ),
    ],
    size: Annotated[
        int,
        typer.Option(
            min=4,
            help="Replies of a sheet, at most; more where a person's dialogues are more, which are"
            " never split.",
        ),
    ] = 80,
    seed: Annotated[int, typer.Option(min=0, help="Decides the order.")] = 0,
) -> None:
    """Write the unrated replies of a corpus as blind sheets.

    Replies to a moment stand there shuffled; whole dialogues, as rlver-gym export RUN --to corpus
    makes them of a benchmark, those of a person beside each other, in an order drawn by lot.
    Nothing says who spoke. In each sheet stands one moment with replies of two recorded supporters
    whose ratings are known, which tells how strict a reader is.

    Give each reader research/rubric.md and a sheet, never key.json; what they write goes into
    ratings/READER.jsonl of the same folder.

    Example: rlver-gym sheets write drawn --recorded recordings/en/train --out sheets
    """
    count = write_sheets(Corpus(corpus), Corpus(recorded), out, most=size, seed=seed)
    SafeConsole().print_line(f"{count} sheets: {out}")


@app.command()
def read(
    sheets: Annotated[Path, typer.Argument(help="The folder of the sheets.")],
    corpus: Replies,
    env: Annotated[str, typer.Option(help="The env card of the dialogues: an id or a file.")] = ENV,
) -> None:
    """Read what readers wrote back into the corpus, and say how strict each of them was, and what
    they made of each supporter.

    By supporter, with 95 % intervals over people: the final emotion (from the start of the env
    card, with all changes, within 0 and 100, until the person would leave or be content) of the
    dialogues that are rated whole; the change a reply; how human it sounds, from 0 to 4. Below, how
    much more each gives than the first to the same people; the first is the first agent of the
    benchmark.

    Example: rlver-gym sheets read sheets drawn
    """
    reading = read_sheets(sheets, corpus)
    console = SafeConsole()
    console.print_line(f"{reading.added} new ratings in {corpus}")
    for reader, apart in sorted(reading.strictness.items()):
        console.print_line(f"{reader}: anchors {apart:+.1f} from their recorded change")
    _print_levels(corpus, env)


def _print_levels(folder: Path, env: str = ENV) -> None:
    """Of all that is rated there."""
    corpus, console = Corpus(folder), SafeConsole()
    levels = measure_levels(corpus, env)
    for first, rows in group((level.over, level) for level in levels).items():
        title = "by supporter" if first is None else f"more than {first}, to the same people"
        count = "dialogues" if first is None else "people"
        heading = ("supporter", count, "final", "change a reply", "human")
        print_table(console, Table(title, [heading, *map(_format_level, rows)]))
    whole = sum(level.dialogues for level in levels if level.over is None)
    if left := sum(bool(line.turns) for line in corpus.dialogues) - whole:
        verb = "is" if left == 1 else "are"
        console.print_line(f"{format_count(left, 'dialogue')} {verb} not rated whole: no final.")


def _format_level(level: Level) -> tuple[str, ...]:
    is_over = level.over is not None
    estimates = (
        format_estimate(level.final, signed=is_over),
        format_estimate(level.change, signed=True),
        format_estimate(level.human, signed=is_over),
    )
    return level.supporter, str(level.dialogues), *estimates
