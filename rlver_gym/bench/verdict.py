"""What is known of a run's files, as one value for a terminal, a page, Markdown, JSON and the
studio: what is wrong in them, and what recomputing them has shown.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from rlver_gym.bench.check import Finding, Problems, read_run
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.recompute import find_repeatable
from rlver_gym.bench.score import count_failed_by
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
    checked: int
    """Episodes that are as recorded."""
    divergent: int
    first: Finding | None
    refused: str
    """Why nothing could be recomputed; empty when it was."""
    needs_source: bool
    """Whether that is only because something has to be named."""
    package: str
    """The version of rlver-gym that made the run, if it says so and it is not this one."""
    failed: dict[str, dict[str, int]]
    """By agent, how many dialogues failed by the agent and how many by the user."""
    asked_again: tuple[str, ...]
    """The agents that said the same again; what others said stands as it is recorded."""

    @property
    def run(self) -> str:
        return str(self.problems.folder)

    @property
    def is_sound(self) -> bool:
        """Whether all of the plan is there, and as recorded."""
        return not (self.refused or self.divergent)

    def num_failed(self, by: FailedBy) -> int:
        return sum(agent[by] for agent in self.failed.values())

    def to_dict(self) -> dict[str, Any]:
        names = ("line", "episode", "turn", "what")
        failed = {by: self.num_failed(by) for by in ("agent", "user")}
        return {
            "run": self.run,
            "sound": None if self.needs_source else self.is_sound,
            "checked": self.checked,
            "divergent": self.divergent,
            "divergence": self.first and {name: getattr(self.first, name) for name in names},
            **({"refused": self.refused} if self.refused else {}),
            **({"package": self.package} if self.package else {}),
            "problems": self.problems.to_dict(),
            "failed": {"total": sum(failed.values()), **failed, "agents": self.failed},
            "asked_again": list(self.asked_again),
        }

    def describe(self, run: str) -> list[Sentence]:
        """What recomputing has shown, for those who know the run by this name."""
        is_harmless = self.is_sound or self.needs_source
        return [Sentence(one_line(self._describe_recomputed(run)), not is_harmless)]

    def _describe_recomputed(self, run: str) -> str:
        if self.refused:
            return f"{run}: not recomputed. {self.refused.replace(self.run, run)}"
        if self.first:
            total = format_count(self.checked + self.divergent, "episode")
            verb = "is" if self.divergent == 1 else "are"
            return (
                f"{run}: {self.first}. {self.divergent:,} of {total} {verb} not as recorded. Do not"
                " trust the scores of this run: hold it again, or ask whoever made it for the"
                " untouched folder."
            )
        parts = [f"{run}: {format_count(self.checked, 'episode')} recomputed, all as recorded"]
        parts[0] += f" by rlver-gym {self.package}" if self.package else ""
        if number := self.num_failed("agent"):
            parts.append(f"in {number} of them the agent gave no reply, which cannot be recomputed")
        if number := self.num_failed("user"):
            parts.append(f"in {number} of them the user failed")
        return "; ".join(parts) + (": see the score at worst in the report" if parts[1:] else "")


def summarize_verification(
    folder: Path, results: Iterable[Finding | None], response_cache: Path | None = None
) -> Verdict:
    """What the results of `verify`, which was given this response cache, come to."""
    checked = divergent = 0
    first, refused, needs_source = None, "", False
    try:
        for result in results:
            checked += result is None
            divergent += result.num_episodes if result else 0
            first = first or result
    except RlverError as error:
        refused, needs_source = str(error), isinstance(error, SourceNeeded)
    problems, package = Problems(folder, 0, 0, ()), ""
    failed: dict[str, dict[str, int]] = {}
    asked_again: tuple[str, ...] = ()
    with suppress(RlverError):  # it is told above
        manifest = Manifest.read(folder)
        package = "" if manifest.package == __version__ else manifest.package
        if not refused:
            asked_again = tuple(find_repeatable(folder, manifest, response_cache))
        records = read_run(folder)
        problems, failed = records.problems, count_failed_by(records.episodes)
    return Verdict(
        problems, checked, divergent, first, refused, needs_source, package, failed, asked_again
    )
