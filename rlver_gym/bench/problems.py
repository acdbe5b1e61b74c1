"""What in a run is not as a run of its plan writes it: for a terminal, a page and JSON."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rlver_gym.bench.folder import MANIFEST
from rlver_gym.io.terminal import format_count, one_line

Kind = Literal["edited", "foreign", "unfinished", "doubled", "unplanned", "reordered"]
_SENTENCES: dict[Kind, tuple[str, str, str, str]] = {
    "edited": (
        "is not as it was written",
        "are not as they were written",
        "its score may be wrong",
        "their scores may be wrong",
    ),
    "foreign": (
        "was not held with the cards and the user of the run",
        "were not held with the cards and the user of the run",
        "it counts in no score",
        "they count in no score",
    ),
    "unfinished": (
        "is no finished dialogue",
        "are no finished dialogues",
        "it counts in no score",
        "they count in no score",
    ),
    "doubled": (
        "is a dialogue that stands there twice",
        "are dialogues that stand there twice",
        "the first counts",
        "the first count",
    ),
    "unplanned": (
        "is a dialogue that the plan does not have",
        "are dialogues that the plan does not have",
        "it counts in no score",
        "they count in no score",
    ),
    "reordered": (
        "does not stand where the plan has it",
        "do not stand where the plan has them",
        "no score depends on it",
        "no score depends on it",
    ),
}
"""What is wrong with one line, with several, and what follows from it, for one and for several."""
_MAX_NAMED_LINES, _MAX_LISTED_LINES = 3, 100
"""In a sentence, and in JSON."""


class Problems(NamedTuple):
    """What in a run is not as a run of its plan writes it; false when nothing is."""

    folder: Path
    total: int
    """How many lines there are."""
    lines: dict[Kind, list[int]]
    """Those with something wrong, by what it is; a line may stand in several."""
    causes: dict[Kind, str]
    """More about the first line of a kind."""
    planned: int
    """How many dialogues the plan has; 0 without a plan."""
    missing: int
    """How many of them have no record that counts."""
    first_missing: str
    manifest: str
    """What is wrong with the manifest; empty when nothing is."""

    def __bool__(self) -> bool:
        return bool(self.lines or self.missing or self.manifest)

    def describe(self, run: str) -> list[str]:
        """Sentences for those who know the run by this name."""
        sentences = [self._describe_kind(kind) for kind in _SENTENCES if kind in self.lines]
        if self.missing:
            sentences.append(
                f"{self.missing:,} of {format_count(self.planned, 'planned dialogue')}"
                f" {'has' if self.missing == 1 else 'have'} no record that counts, the first"
                f" {self.first_missing}: 0 in the score at worst"
            )
        if self.manifest:
            sentences.append(f"{MANIFEST}: {self.manifest}")
        if self.lines.keys() - {"reordered"} or self.manifest:
            at = 0 if "edited" in self.lines else -1
            sentences[at] += f". rlver-gym verify {run} says what was changed"
        return [one_line(f"{run}: {sentence}.", max_chars=1_000) for sentence in sentences]

    def _describe_kind(self, kind: Kind) -> str:
        found = self.lines[kind]
        one, several, so_one, so_several = _SENTENCES[kind]
        lines = ", ".join(map(str, found[:_MAX_NAMED_LINES]))
        lines += ", …" if len(found) > _MAX_NAMED_LINES else ""
        what = f"line {lines} {one}" if len(found) == 1 else f"lines {lines} {several}"
        count = f"({len(found):,} of {format_count(self.total, 'line')})"
        cause = f"; line {found[0]}: {self.causes[kind]}" if kind in self.causes else ""
        return f"{what} {count}: {so_one if len(found) == 1 else so_several}{cause}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: what there is."""
        found: dict[str, Any] = {
            kind: {"count": len(lines), "lines": lines[:_MAX_LISTED_LINES]}
            for kind, lines in self.lines.items()
        }
        if self.missing:
            found["missing"] = {"count": self.missing, "first": self.first_missing}
        return found | ({"manifest": self.manifest} if self.manifest else {})


def problems_to_json(problems: Iterable[Problems]) -> dict[str, Any]:
    """The field `problems`, by run, and `edited`, the first such lines, where there are any."""
    named = {str(one.folder): one for one in problems if one}
    edited = {
        name: one.lines["edited"][:_MAX_LISTED_LINES]
        for name, one in named.items()
        if "edited" in one.lines
    }
    return {
        **({"problems": {name: one.to_dict() for name, one in named.items()}} if named else {}),
        **({"edited": edited} if edited else {}),
    }
