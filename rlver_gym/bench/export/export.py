"""From run folders, or the corpus of rated replies, to a file or folder of one format."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ConfigDict, Field

from rlver_gym.bench.check import Problems
from rlver_gym.bench.compare import label_runs
from rlver_gym.bench.export.files import format_jsonl, write_export
from rlver_gym.bench.export.hub import build_hub_files
from rlver_gym.bench.export.pairs import BranchPoint, build_dpo_rows, find_branch_points
from rlver_gym.bench.export.rated_corpus import is_corpus, read_dialogues, read_single_replies
from rlver_gym.bench.export.rows import Row, build_openai_rows, build_sft_rows, build_sharegpt_rows
from rlver_gym.bench.export.run_as_corpus import write_corpus
from rlver_gym.bench.export.select_dialogues import (
    DialogueFilter,
    FilteredDialogues,
    Record,
    filter_records,
    read_records,
)
from rlver_gym.bench.export.table import build_table_rows, write_table
from rlver_gym.bench.export.user_rows import build_user_rows
from rlver_gym.bench.folder import EPISODES, MANIFEST, RESPONSE_CACHE_FILE
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.opinions import read_capabilities
from rlver_gym.bench.recompute import Sources, find_env_card
from rlver_gym.bench.side_files import SIDE_FILES
from rlver_gym.core.capabilities import JUDGEMENTS
from rlver_gym.core.cards import EnvCard
from rlver_gym.corpora.corpus import CORPUS_FILES
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import RunError
from rlver_gym.util.files import path_inside
from rlver_gym.util.frozen import Frozen
from rlver_gym.util.terminal import format_count

Format = Literal["openai", "sharegpt", "sft", "dpo", "hf", "table", "corpus", "user"]


class ExportResult(NamedTuple):
    """What was written."""

    path: Path
    rows: dict[str, int]
    """How many dialogues, replies, pairs or ratings."""
    chosen: FilteredDialogues
    points: tuple[BranchPoint, ...] | None
    """Where two different replies were given to the same words; None without pairs."""
    problems: tuple[Problems, ...] = ()
    """Of each run, what in it is not as a run of its plan writes it."""


class ExportOptions(Frozen):
    """How dialogues are written, beside their format."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    min_change: int | None = Field(default=None, ge=-10, le=10)
    """sft: only replies that changed the emotion by at least so many points; of a corpus, replies
    to single moments too.
    """
    roles: bool = False
    """Of a corpus: only what a language model said in a role, no templates and no attacks."""
    personas: str | None = None
    """The folder of the runs' persona cards, when they are not the shipped ones: it tells the
    splits.
    """
    env: str | None = None
    """user: the file of the runs' env card, when it is not a shipped one."""
    system: str | None = None
    """A system message to put before each dialogue."""
    min_margin: float = Field(default=1, gt=0)
    """dpo, hf: how many points the changes of a pair are apart at least."""
    bare: bool = False
    """Without metadata, for readers that refuse fields which they do not know."""


_RECORDS = (EPISODES, MANIFEST, RESPONSE_CACHE_FILE, *SIDE_FILES, *CORPUS_FILES)
"""What the folder of a run or corpus holds, and no export may take the place of."""


def export(
    folders: Sequence[Path],
    to: Format,
    out: Path | None = None,
    wanted: DialogueFilter = DialogueFilter(),  # noqa: B008 (a frozen value)
    options: ExportOptions = ExportOptions(),  # noqa: B008
) -> ExportResult:
    """Write the wanted dialogues of runs, or of a corpus of rated replies; `out` is a file (for
    "hf" and "corpus" a folder), None for one in the first run's folder, named after the format.

    A corpus' replies to single moments go into pairs, "user", and into "sft" with `min_change`;
    what is wanted of a dialogue's end is not asked of them. Raises RunError when a run cannot be
    read, nothing is left or nothing can be written, RecordingError for a corpus that cannot be
    read, and UnknownName for an agent that is in none of them.
    """
    corpora = [folder for folder in folders if is_corpus(folder)]
    runs = [folder for folder in folders if folder not in corpora]
    if out is None and corpora:
        raise RunError(
            f"{corpora[0]}: is a corpus, in which nothing is written. Say where to write: --out"
        )
    if to == "corpus" and (corpora or len(runs) > 1):
        raise RunError("a corpus is made of one run. Name that one alone.")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise RunError("a folder is given twice. Name each once.")
    has_pairs = to in ("dpo", "hf")
    has_singles = has_pairs or to == "user" or options.min_change is not None
    records, problems = read_records(runs, options.personas) if runs else ([], ())
    singles: list[Record] = []
    for folder in corpora:
        records += read_dialogues(folder, roles=options.roles)
        singles += read_single_replies(folder, roles=options.roles) if has_singles else ()
    chosen = filter_records(records, wanted, singles)
    usual = {"hf": "hf", "table": "table.csv", "corpus": "corpus"}.get(to, f"{to}.jsonl")
    path = out or path_inside(folders[0], usual)
    if path.resolve() in ((folder / name).resolve() for folder in folders for name in _RECORDS):
        whose = "corpus" if corpora else "run"
        raise RunError(f"{path}: is the {whose}'s own record. Choose another file with --out.")
    if to == "corpus":
        ratings, left_out = write_corpus(runs[0], chosen.records, path)
        chosen = chosen._replace(left_out=chosen.left_out | left_out)
        counts = {"dialogues": len(chosen.records), "ratings": ratings}
        return ExportResult(path, counts, chosen, None, problems)
    forks = tuple(find_branch_points(chosen.records, chosen.singles)) if has_pairs else None
    if to == "table":
        marks = (read_capabilities(run / JUDGEMENTS) for run in runs)
        judged = dict(zip(label_runs(runs), marks, strict=True))
        views = {"turns": list(build_table_rows(chosen.records, judged))}
    else:
        cards = _find_env_cards(runs, options.env) if to == "user" else {}
        views = _build_views(to, chosen, forks, options, cards)
    views = {name: rows for name, rows in views.items() if rows}
    if not views:
        raise RunError(_explain_no_rows(len(chosen.records), forks, options))
    if to == "hf":
        write_export(path, build_hub_files(views, chosen.records, options.bare))
    elif to == "table":
        write_table(path, views["turns"])
    else:
        (rows,) = views.values()
        write_atomically(path, format_jsonl(rows, options.bare))
    counts = {name: len(rows) for name, rows in views.items()}
    return ExportResult(path, counts, chosen, forks, problems)


MORE_PAIRS = (
    "A pair needs two agents that answered the same words of the same person with the same seed."
    " For more of them: bench more agents or seeds, or give several runs with the same people"
    " (rlver-gym export RUN OTHER_RUN --to dpo)."
)


def _explain_no_rows(
    dialogues: int, forks: Sequence[BranchPoint] | None, options: ExportOptions
) -> str:
    if options.min_change is not None:
        return (
            f"no reply of {format_count(dialogues, 'dialogue')}, and none to a single moment,"
            f" changed the emotion by {options.min_change:+d} or more. Ask for less with"
            " --min-change."
        )
    if forks is None:
        return (
            f"not one reply of {format_count(dialogues, 'dialogue')} was felt: the user failed at"
            " once. See why: rlver-gym report RUN"
        )
    if forks:
        return (
            f"at {format_count(len(forks), 'point')} agents gave different replies, but no two that"
            f" are {options.min_margin:g} apart. Ask for less with --min-margin."
        )
    return f"there are no pairs in {format_count(dialogues, 'dialogue')}. {MORE_PAIRS}"


def _find_env_cards(runs: Sequence[Path], env: str | None) -> dict[str, EnvCard]:
    """By run, the card that it was held with."""
    return {
        label: find_env_card(run, Manifest.read(run), Sources(env=env))
        for run, label in zip(runs, label_runs(runs), strict=True)
        if path_inside(run, MANIFEST).exists()
    }


def _build_views(
    to: Format,
    chosen: FilteredDialogues,
    forks: Sequence[BranchPoint] | None,
    options: ExportOptions,
    cards: Mapping[str, EnvCard],
) -> dict[str, list[Row]]:
    records, system = chosen.records, options.system
    if to == "sharegpt":
        return {"dialogues": list(build_sharegpt_rows(records, system))}
    if to == "user":
        rows = build_user_rows(records, options.personas, cards)
        singles = build_user_rows(chosen.singles, options.personas, last=True)
        return {"replies": [*rows, *singles]}
    views: dict[str, list[Row]] = {}
    if to in ("openai", "hf"):
        views["dialogues"] = list(build_openai_rows(records, system))
    if to in ("sft", "hf"):
        views["replies"] = list(build_sft_rows(records, system))
    if to == "sft" and options.min_change is not None:
        rows = [*views["replies"], *build_sft_rows(chosen.singles, system, last=True)]
        views["replies"] = [row for row in rows if row["metadata"]["change"] >= options.min_change]
    if forks is not None:
        views["pairs"] = list(build_dpo_rows(forks, system, options.min_margin))
    return views
