"""`rlver-gym export`: the dialogues of a run as data to train on."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from rlver_gym.bench.export.export import MORE_PAIRS, ExportOptions, ExportResult, Format
from rlver_gym.bench.export.export import export as write
from rlver_gym.bench.export.select_dialogues import DialogueFilter
from rlver_gym.cli.model_options import FieldOption, add_model_options
from rlver_gym.cli.options import AsJson, print_json
from rlver_gym.core.persona import Split
from rlver_gym.util.terminal import SafeConsole, format_count, one_line

_ROWS = {
    "dialogues": "dialogue",
    "replies": "reply",
    "pairs": "pair",
    "turns": "turn",
    "ratings": "rating",
}
"""What one row of each kind is."""
_MANY_POINTS = 1000
_HELD_OUT: tuple[Split, ...] = ("validation", "test")
_LEAK = (
    "What learns from them cannot be tested on them; to hold dialogues to learn from: rlver-gym"
    " bench --split train"
)


_FILTER = {
    "agents": FieldOption(list[str], flag="--agent"),
    "outcomes": FieldOption(list[str], flag="--outcome"),
    "min_emotion": FieldOption(int, min=0, max=100),
    "max_reply": FieldOption(int, min=1),
    "split": FieldOption(),
}
_OPTIONS = {
    "min_change": FieldOption(int, min=-10, max=10),
    "roles": FieldOption(bool),
    "personas": FieldOption(),
    "env": FieldOption(),
    "system": FieldOption(),
    "min_margin": FieldOption(float, min=0.01),
    "bare": FieldOption(bool),
}


_ONLY_OF: dict[str, tuple[Format, ...]] = {
    "min_change": ("sft",),
    "env": ("user",),
    "min_margin": ("dpo", "hf"),
    "system": ("openai", "sharegpt", "sft", "dpo", "hf"),
    "bare": ("openai", "sharegpt", "sft", "dpo", "hf", "user"),
}
"""Which formats heed an option."""


@add_model_options(DialogueFilter, "wanted", _FILTER)
@add_model_options(ExportOptions, "options", _OPTIONS)
def export(
    *,
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Run folders, or a corpus of rated replies. Several are taken together."
        ),
    ],
    to: Annotated[Format, typer.Option(help="The format.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; for hf and corpus a folder. Default: in the first run's folder,"
            " named after the format; what is read from a corpus needs it."
        ),
    ] = None,
    wanted: DialogueFilter,
    options: ExportOptions,
    as_json: AsJson = False,
) -> None:
    """Write the dialogues of a benchmark run, or of the corpus of rated replies, as data to train
    on.

    openai: "messages", a row a dialogue. sharegpt: "conversations", likewise.

    sft: "prompt" and "completion", a row a reply.

    dpo: "prompt", "chosen" and "rejected": two replies to the same words of the same person; the
    chosen one was felt to be better.

    hf: a folder for datasets.load_dataset with all of these, and a card.

    table: a row a turn with everything that is known of it, capabilities and strategies too, for
    pandas: CSV, or Parquet for an --out that ends in .parquet.

    user: "messages", a row a reply: what the LLM user is asked of it, and the thought and change
    that were felt, for a model of yours that is to stand in the person's place.

    corpus: a folder with the dialogues of one run in the form of the corpus of rated replies, for
    readers (rlver-gym sheets) or a user (rlver-gym rate), with what people rated in the studio and
    said why.

    Beside the words, "metadata" tells agent, persona, need, seed, split, rewards, emotions and
    reasons.

    Example: rlver-gym export RUN --to sft --min-emotion 70

    Demonstrations, by readers' ratings: rlver-gym export recordings/en/train --to sft --roles
    --min-change 5 --split train --out good.jsonl
    """
    for name, formats in _ONLY_OF.items():
        is_asked = getattr(options, name) != ExportOptions.model_fields[name].default
        if is_asked and to not in formats:
            told = f"goes with --to {', '.join(formats)}, not with {to}"
            raise typer.BadParameter(told, param_hint=f"--{name.replace('_', '-')}")
    done = write(runs, to, out, wanted, options)
    if as_json:
        print_json(_result_to_json(done))
        return
    console = SafeConsole()
    for name, text in _summarise_export(done):
        console.print_line((f"{name:9s}", "bold"), " ", text)
    for problems in done.problems:
        for warning in problems.describe(str(problems.folder)):
            console.print_line(("caution  ", "bold"), " ", (one_line(warning), "yellow"))


def _result_to_json(done: ExportResult) -> dict[str, object]:
    return {
        "path": str(done.path),
        "rows": done.rows,
        "dialogues": len(done.chosen.records),
        "left_out": done.chosen.left_out,
        "held_out": dict(_count_held_out(done)),
        "points_by_turn": _count_pairs_by_turn(done),
        "problems": {str(run.folder): run.to_dict() for run in done.problems if run},
    }


def _count_pairs_by_turn(done: ExportResult) -> dict[int, int]:
    return dict(sorted(Counter(point.turn + 1 for point in done.points or ()).items()))


def _summarise_export(done: ExportResult) -> list[tuple[str, str]]:
    records = done.chosen.records
    rows = ", ".join(format_count(done.rows[name], _ROWS[name], name) for name in done.rows)
    source = "" if "dialogues" in done.rows else f", from {format_count(len(records), 'dialogue')}"
    lines = [("written", f"{done.path}: {rows}{source}")]
    if left_out := ", ".join(f"{count:,} {why}" for why, count in done.chosen.left_out.items()):
        lines.append(("left out", left_out))
    if done.points is not None:
        turns = [f"{count:,} at turn {turn}" for turn, count in _count_pairs_by_turn(done).items()]
        where = ", ".join(turns) or "none"
        few = f". {MORE_PAIRS}" if len(done.points) < _MANY_POINTS else ""
        lines.append(("pairs", f"points that agents have in common: {where}{few}"))
    for split, tested in _count_held_out(done):
        people = "all" if tested == len(records) else f"{tested:,} of {len(records):,}"
        lines.append(("mind", f"{people} dialogues are with {split} personas. {_LEAK}"))
    return lines


def _count_held_out(done: ExportResult) -> Iterator[tuple[Split, int]]:
    """How many dialogues are with people who are to be tested with; of a table nobody learns."""
    for split in () if "turns" in done.rows else _HELD_OUT:
        if tested := sum(record.split == split for record in done.chosen.records):
            yield split, tested
