"""What is known of a run's files, as one value for a terminal, a page, Markdown, JSON and the
studio: what is wrong in them, what recomputing them has shown, what was not recomputed and why, and
what of the files beside them is of this run.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rlver_gym.bench.check import Finding, Problems, read_run
from rlver_gym.bench.compare import put_label
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.recompute import (
    NO_SOURCES,
    Repeatable,
    Sources,
    find_other_servers,
    find_repeatable,
)
from rlver_gym.bench.score import count_failed_by
from rlver_gym.bench.side_files import SideFile, check_side_files
from rlver_gym.bench.verify import verify
from rlver_gym.environment.episode import FailedBy
from rlver_gym.util import __version__
from rlver_gym.util.errors import RlverError, SourceNeeded
from rlver_gym.util.terminal import format_count, one_line


class Sentence(NamedTuple):
    """One thing that is said of a run."""

    text: str
    is_alarm: bool


class Verdict(NamedTuple):
    """What is wrong in a run's files, and what recomputing it has shown."""

    problems: Problems
    checked: int = 0
    divergent: int = 0
    first: Finding | None = None
    refused: str = ""
    """Why nothing was recomputed; empty when it was."""
    refusal: Literal["", "skipped", "source", "error"] = ""
    """Whether it was not tried, something has to be named, or it cannot be done."""
    package: str = ""
    """The version of rlver-gym that made the run, if it says so and it is not this one."""
    failed: Mapping[str, Mapping[str, int]] = {}
    """By agent, how many dialogues failed by the agent and how many by the user."""
    agents: Repeatable = Repeatable({}, {}, ())
    """Who was asked again; what others said stands as it is recorded."""
    servers: tuple[str, ...] = ()
    """Where the manifest names another server than the one that was asked."""
    is_recalled: bool = False
    """Whether readings of the reader were taken from the record."""
    side_files: tuple[SideFile, ...] = ()

    @property
    def run(self) -> str:
        return str(self.problems.folder)

    @property
    def is_sound(self) -> bool | None:
        """Whether all of the plan is there and as recorded; None for what was not looked at."""
        if self.refusal in ("skipped", "source"):
            return None
        return not (self.refused or self.divergent or self.agents.lost)

    def num_failed(self, by: FailedBy) -> int:
        return sum(agent[by] for agent in self.failed.values())

    def to_dict(self) -> dict[str, Any]:
        names = ("line", "episode", "turn", "what")
        failed = {by: self.num_failed(by) for by in ("agent", "user")}
        return {
            "run": self.run,
            "sound": self.is_sound,
            "checked": self.checked,
            "divergent": self.divergent,
            "divergence": self.first and {name: getattr(self.first, name) for name in names},
            **({"refused": self.refused} if self.refused else {}),
            **({"package": self.package} if self.package else {}),
            "problems": self.problems.to_dict(),
            "failed": {"total": sum(failed.values()), **failed, "agents": self.failed},
            "asked_again": list(self.agents.makers),
            "not_asked_again": self.agents.unasked,
            "servers": list(self.servers),
            "side_files": {file.name: file.problem for file in self.side_files},
            "says": [sentence.text for sentence in self.describe(self.run)],
        }

    def describe(self, run: str) -> list[Sentence]:
        """All that is to be said of the run to those who know it by this name."""
        hint = self.refusal == "skipped"
        told = [(text, True) for text in self.problems.describe(run, hint=hint)]
        told.append((self._describe_scores(run), bool(self.refused or self.first)))
        for agent, why in self.agents.unasked.items():
            text = f"what {agent} said stands as it is recorded, and was not asked again: {why}."
            told.append((f"{run}: {text}", agent in self.agents.lost))
        told += [(f"{run}: by its response cache, {server}.", True) for server in self.servers]
        if self.is_recalled:
            text = "what the reader read stands as it is recorded"
            told.append((f"{run}: {text}. verify --rerun reads it again.", False))
        for file in self.side_files:
            own = f"{run}: {file.name} is of dialogues of this run, and not recomputed."
            strange = f"{run}: {file.name} is not of this run: {file.problem}."
            told.append((strange if file.problem else own, bool(file.problem)))
        return [Sentence(one_line(put_label(text, self.run, run)), alarm) for text, alarm in told]

    def _describe_scores(self, run: str) -> str:
        if self.refused:
            return f"{run}: not recomputed. {self.refused}"
        checked = format_count(self.checked, "episode")
        if self.first and self.first.kind == "missing":
            return (
                f"{run}: {checked} recomputed, as recorded; {self.first.what}. The run was stopped,"
                " or lines were taken out: the same bench command goes on."
            )
        if self.first:
            total = format_count(self.checked + self.divergent, "episode")
            verb = "is" if self.divergent == 1 else "are"
            return (
                f"{run}: {self.first}. {self.divergent:,} of {total} {verb} not as recorded. Do not"
                " trust the scores of this run: hold it again or, if it is somebody else's, ask for"
                " the untouched folder."
            )
        parts = [f"{run}: {checked} recomputed, all as recorded"]
        parts[0] += f" by rlver-gym {self.package}" if self.package else ""
        if number := self.num_failed("agent"):
            parts.append(f"in {number} of them the agent gave no reply, which cannot be recomputed")
        if number := self.num_failed("user"):
            parts.append(f"in {number} of them the user failed")
        return "; ".join(parts) + (": see the score at worst in the report" if parts[1:] else "")


Results = Iterable[Finding | None]


def verify_and_summarize(
    folder: Path,
    response_cache: Path | None = None,
    sources: Sources = NO_SOURCES,
    *,
    rerun: bool = False,
    watch: Callable[[Results], Results] = lambda results: results,
) -> Verdict:
    """What the results of `verify` with these arguments come to; `watch` sees them pass."""
    checked = divergent = 0
    first, refused, refusal = None, "", ""
    try:
        for result in watch(verify(folder, response_cache, sources, rerun=rerun)):
            checked += result is None
            divergent += result.num_episodes if result else 0
            first = first or result
    except RlverError as error:
        refused, refusal = str(error), "source" if isinstance(error, SourceNeeded) else "error"
    verdict = Verdict(Problems(folder, 0, 0, ()), checked, divergent, first, refused, refusal)
    with suppress(RlverError):  # it is told above
        verdict = _add_what_files_show(verdict)
    with suppress(RlverError):  # likewise
        manifest = Manifest.read(folder)
        verdict = verdict._replace(
            package="" if manifest.package == __version__ else manifest.package,
            agents=verdict.agents if refused else find_repeatable(folder, manifest, response_cache),
            servers=tuple(find_other_servers(folder, manifest, response_cache)),
            is_recalled=not refused and not rerun and manifest.user.kind == "reader",
        )
    return verdict


def skip_verification(folder: Path, why: str) -> Verdict:
    """What the files alone show. `why`: a sentence for why nothing was recomputed."""
    return _add_what_files_show(Verdict(Problems(folder, 0, 0, ()), refused=why, refusal="skipped"))


def _add_what_files_show(verdict: Verdict) -> Verdict:
    folder = verdict.problems.folder
    records = read_run(folder)
    return verdict._replace(
        problems=records.problems,
        failed=count_failed_by(records.episodes),
        side_files=tuple(check_side_files(folder, records.episodes)),
    )
