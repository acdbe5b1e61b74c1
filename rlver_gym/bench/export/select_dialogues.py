"""Which dialogues of which runs: read, then sifted, with a count of what was left out and why."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field, field_validator

from rlver_gym.bench.check import Problems, read_run
from rlver_gym.bench.compare import label_runs
from rlver_gym.bench.folder import MANIFEST, read_manifest
from rlver_gym.core.emotion import Outcome
from rlver_gym.core.persona import Split
from rlver_gym.environment.episode import Episode
from rlver_gym.library.personas import LIBRARY, are_shipped, library
from rlver_gym.util.errors import RunError, check_known
from rlver_gym.util.files import path_inside
from rlver_gym.util.frozen import Frozen
from rlver_gym.util.terminal import format_count

VALID = tuple(outcome for outcome in Outcome if outcome is not Outcome.FAILED)


class Record(NamedTuple):
    """A dialogue, and where it comes from."""

    run: str
    """The name of the run's folder; its path, where several have that name."""
    split: str | None
    """Of its persona; None for a run with persona cards of its own that were not named."""
    episode: Episode


class DialogueFilter(Frozen):
    """What is asked of a dialogue. Empty and None ask nothing, but that it did not fail."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    agents: tuple[str, ...] = ()
    """Only this agent; repeat it for more."""
    outcomes: tuple[Outcome, ...] = VALID
    """Only dialogues that ended so: content, left, out_of_turns, failed, all; repeat it for more.
    Default: all but failed.
    """
    min_emotion: int = Field(default=0, ge=0, le=100)
    """Only dialogues that ended at this emotion or above."""
    max_reply: int | None = Field(default=None, ge=1)
    """Only dialogues without a reply of more than so many characters."""
    split: Split | None = None
    """Only personas of this split: train, validation, test, demo."""

    @field_validator("outcomes", mode="before")
    @classmethod
    def _read_all(cls, value: Any) -> Any:
        return tuple(Outcome) if "all" in value else value


class FilteredDialogues(NamedTuple):
    """What is wanted, and how many dialogues are not, by the first thing that was missing."""

    records: list[Record]
    singles: list[Record]
    """Of which only the last reply was rated; nothing is asked of their end."""
    left_out: dict[str, int]


class RunDialogues(NamedTuple):
    """All dialogues of some runs, and what in these is not as a run of its plan writes it."""

    records: list[Record]
    problems: tuple[Problems, ...]


def read_records(folders: Sequence[Path], personas: str | None = None) -> RunDialogues:
    """All finished dialogues of all runs, in order. `personas`: the folder of the runs' persona
    cards; None for the shipped ones.

    RunError when a folder holds no run, or none of them a dialogue; CardError when the persona
    cards cannot be used.
    """
    records, problems = [], []
    for folder, label in zip(folders, label_runs(folders), strict=True):
        split_of = _read_persona_splits(folder, personas)
        run = read_run(folder)
        problems.append(run.problems)
        for episode in run.episodes:
            split = split_of.get(episode.persona.partition("/")[0])
            records.append(Record(label, split, episode))
    if not records:
        told = [line for problem in problems for line in problem.describe(str(problem.folder))]
        raise RunError(
            f"there are no episodes in {', '.join(map(str, folders))}"
            f"{' that count' if told else ''}. {' '.join(told) or 'Run: rlver-gym bench'}"
        )
    return RunDialogues(records, tuple(problems))


def filter_records(
    records: Sequence[Record], wanted: DialogueFilter, singles: Sequence[Record] = ()
) -> FilteredDialogues:
    """The records that are wanted. UnknownName for an agent in none; RunError for none left."""
    known = list(dict.fromkeys(record.episode.agent for record in (*records, *singles)))
    for agent in wanted.agents:
        check_known("agent", agent, known, f"{', '.join(known)} (the agents of the run)")
    reasons = [_reject_reason(record, wanted) for record in records]
    left_out = dict(Counter(why for why in reasons if why))
    kept = [record for record, why in zip(records, reasons, strict=True) if why is None]
    singles = [
        single for single in singles if _reject_reason(single, wanted, is_single=True) is None
    ]
    if not kept and not singles:
        why = ", ".join(f"{count} {why}" for why, count in left_out.items())
        raise RunError(
            f"nothing is left of {format_count(len(records), 'dialogue')}: {why}. Ask for less."
        )
    return FilteredDialogues(kept, singles, left_out)


def _reject_reason(
    record: Record, wanted: DialogueFilter, *, is_single: bool = False
) -> str | None:
    """What keeps a dialogue out; None when it is wanted."""
    episode, most = record.episode, wanted.max_reply
    if wanted.agents and episode.agent not in wanted.agents:
        return "by other agents"
    if wanted.split not in (None, record.split):
        unknown = " (whose cards are not there: name them with --personas DIR)"
        return f"not with {wanted.split} personas{'' if record.split else unknown}"
    if most is not None and any(len(turn.utterance) > most for turn in episode.turns):
        return f"with a reply of more than {most} characters"
    if is_single:
        return None
    if not episode.opening or not episode.turns:
        return "in which nobody said a word"
    if episode.outcome not in wanted.outcomes:
        hint = " (--outcome all takes them too)" if episode.outcome is Outcome.FAILED else ""
        return f"{episode.outcome}{hint}"
    if episode.final < wanted.min_emotion:
        return f"below {wanted.min_emotion} at the end"
    return None


def _read_persona_splits(folder: Path, personas: str | None) -> Mapping[str, str]:
    """The split of each persona of a run; empty for cards of its own that are not named."""
    has_manifest = path_inside(folder, MANIFEST).exists()
    manifest = read_manifest(folder) if has_manifest else {}
    cards_of_run = manifest.get("persona_folder", personas)
    shipped = "persona_folder" in manifest and are_shipped(cards_of_run)
    if manifest and not shipped and personas is None:
        return {}
    cards = library(LIBRARY if shipped and cards_of_run else None if shipped else personas)
    parts = [x for x in map(manifest.get, ("plan", "env_card")) if isinstance(x, dict)]
    asked = next(filter(None, (part.get("split") for part in parts)), None)
    return {persona_id: cards.split_of(persona_id, asked) for persona_id in cards.pairings}
