"""What recomputing a run comes to, as a value: for a terminal, a page and JSON."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.recompute import find_repeatable
from rlver_gym.bench.records import read_run
from rlver_gym.bench.score import count_failed_by
from rlver_gym.bench.verify import Divergence
from rlver_gym.environment.episode import FailedBy
from rlver_gym.io.errors import RlverError, SourceNeeded
from rlver_gym.io.terminal import format_count
from rlver_gym.io.version import __version__


class Verdict(NamedTuple):
    """What recomputing a run has shown."""

    run: str
    checked: int
    """Episodes that are as recorded."""
    divergent: int
    first: Divergence | None
    refused: str
    """Why nothing could be recomputed; empty when it was."""
    needs_source: bool
    """Whether that is only because something has to be named."""
    package: str
    """The version of rlver-gym that made the run, as it says; empty when it is not known."""
    failed: dict[str, dict[str, int]]
    """By agent, how many dialogues failed by the agent and how many by the user."""
    asked_again: tuple[str, ...]
    """The agents that said the same again; what others said stands as it is recorded."""

    @property
    def is_sound(self) -> bool:
        """Whether all of the plan is there, and as recorded."""
        return not (self.refused or self.divergent)

    def num_failed(self, by: FailedBy) -> int:
        """How many dialogues failed by the agent, or by the user."""
        return sum(one[by] for one in self.failed.values())

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        fields = self.first._asdict() if self.first else {}
        fields.pop("num_episodes", None)
        failed = {by: self.num_failed(by) for by in ("agent", "user")}
        return {
            "run": self.run,
            "sound": None if self.needs_source else self.is_sound,
            "checked": self.checked,
            "divergent": self.divergent,
            "divergence": fields or None,
            **({"refused": self.refused} if self.refused else {}),
            **({"package": self.package} if self._is_of_another_package else {}),
            "failed": {"total": sum(failed.values()), **failed, "agents": self.failed},
            "asked_again": list(self.asked_again),
        }

    @property
    def _is_of_another_package(self) -> bool:
        return self.package not in ("", __version__)

    def describe(self, run: str) -> str:
        """A few sentences for those who know the run by this name."""
        if self.refused:
            return f"{run}: not recomputed. {self.refused.replace(self.run, run)}"
        if self.first:
            total = self.checked + self.divergent
            verb = "is" if self.divergent == 1 else "are"
            return (
                f"{run}: {self.first}. {self.divergent:,} of {format_count(total, 'episode')}"
                f" {verb} not as recorded. Do not trust the scores of this run: hold it again, or"
                " ask whoever made it for the untouched folder."
            )
        checked = format_count(self.checked, "episode")
        by = f" by rlver-gym {self.package}" if self._is_of_another_package else ""
        return f"{run}: {checked} recomputed, all as recorded{by}{self._describe_failed()}"

    def _describe_failed(self) -> str:
        by_agent, by_user = self.num_failed("agent"), self.num_failed("user")
        notes = [
            f"in {by_agent} of them the agent gave no reply, which cannot be recomputed"
            if by_agent
            else "",
            f"in {by_user} of them the user failed" if by_user else "",
        ]
        found = "; ".join(note for note in notes if note)
        return f"; {found}: see the score at worst in the report" if found else ""


def judge(
    folder: Path, results: Iterable[Divergence | None], response_cache: Path | None = None
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
    failed: dict[str, dict[str, int]] = {}
    asked_again: tuple[str, ...] = ()
    package = ""
    with suppress(RlverError):  # it is told above
        package = Manifest.read(folder).package
        if not refused:
            asked_again = tuple(find_repeatable(folder, Manifest.read(folder), response_cache))
        failed = count_failed_by(read_run(folder).episodes)
    return Verdict(
        str(folder), checked, divergent, first, refused, needs_source, package, failed, asked_again
    )
