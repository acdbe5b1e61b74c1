"""A run against its plan: which of its dialogues count, and what is wrong in its files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from rlver_gym.bench.folder import EPISODES, MANIFEST, read_episode_lines
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.plan import Planned
from rlver_gym.core.cards import env_card, shipped_env_ids
from rlver_gym.environment.episode import Case, Episode
from rlver_gym.util.errors import RunError
from rlver_gym.util.files import path_inside
from rlver_gym.util.groups import group
from rlver_gym.util.lookalikes import look_alike
from rlver_gym.util.terminal import format_count, one_line

Kind = Literal[
    "unreadable", "unplanned", "doubled", "foreign", "unfinished", "edited", "reordered",
    "missing", "diverging", "card", "unplanned_run",
]  # fmt: skip
INCOMPLETE = frozenset(get_args(Kind)) - {"reordered"}
"""What keeps a run from standing for its plan."""
_SENTENCES: dict[Kind, str] = {
    "unplanned": "a dialogue that the plan does not have; it counts in no score",
    "doubled": "a dialogue that stands there twice; the first counts",
    "foreign": "not held with the cards and the user of the run; it counts in no score",
    "unfinished": "no finished dialogue; it counts in no score",
    "edited": "not as it was written; its score may be wrong",
    "reordered": "not where the plan has it; no score depends on it",
    "missing": "without a record that counts; 0 in the score at worst, unless bench goes on",
    "card": "an env card that is not the one whose name it bears",
    "unplanned_run": "there is none, so nothing says which dialogues there should be",
}
_MAX_NAMED_LINES, _MAX_LISTED_LINES = 3, 100
"""In a sentence, and in JSON."""


class Finding(NamedTuple):
    """Something in a run that is not as a run of its plan writes it."""

    kind: Kind
    line: int
    """From 1; 0 for none."""
    episode: str = ""
    what: str = ""
    turn: int = 0
    """The first that is not as recomputed; 0 is the opening or a field."""
    num_episodes: int = 1

    @property
    def cause(self) -> str:
        """On one line, however hostile."""
        return one_line(": ".join(filter(None, (self.episode, self.what))), max_chars=300)

    def __str__(self) -> str:
        episode = one_line(self.episode, max_chars=160)
        what = one_line(self.what, max_chars=1_000)
        return f"line {self.line}, episode {episode}, turn {self.turn}: {what}"


class Problems(NamedTuple):
    """All findings about the files of a run; false without any."""

    folder: Path
    total: int
    planned: int
    """How many dialogues the plan has; 0 without a plan."""
    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return bool(self.findings)

    @property
    def by_kind(self) -> dict[Kind, list[Finding]]:
        return group((finding.kind, finding) for finding in self.findings)

    @property
    def lines(self) -> dict[Kind, list[int]]:
        """Lines by what is wrong with them; one may stand in several."""
        by_kind = self.by_kind.items()
        return {
            kind: [finding.line for finding in findings]
            for kind, findings in by_kind
            if findings[0].line
        }

    def describe(self, run: str, *, hint: bool = True) -> list[str]:
        """Sentences for those who know the run by this name; `hint`: how to learn more."""
        told = [self._describe(kind, findings) for kind, findings in self.by_kind.items()]
        if hint and self.by_kind.keys() - {"reordered", "missing", "unplanned_run"}:
            told.append(f"rlver-gym verify {run} says what was changed")
        return [one_line(f"{run}: {sentence}.", max_chars=1_000) for sentence in told]

    def _describe(self, kind: Kind, findings: list[Finding]) -> str:
        first = findings[0]
        if kind in ("card", "unplanned_run"):
            where = MANIFEST
        elif kind == "missing":
            where = f"{first.num_episodes:,} of {format_count(self.planned, 'planned dialogue')}"
        else:
            lines = ", ".join(str(finding.line) for finding in findings[:_MAX_NAMED_LINES])
            more = ", …" if len(findings) > _MAX_NAMED_LINES else ""
            word = "line" if len(findings) == 1 else "lines"
            where = (
                f"{word} {lines}{more} ({len(findings):,} of {format_count(self.total, 'line')})"
            )
        return f"{where}: {_SENTENCES[kind]}{first.cause and ': '}{first.cause}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON, by kind: how many, the first hundred lines, what is wrong with the first."""
        counts: dict[str, Any] = {}
        for kind, several in self.by_kind.items():
            first = several[0]
            counts[kind] = {"count": sum(finding.num_episodes for finding in several)}
            if first.line:
                counts[kind]["lines"] = self.lines[kind][:_MAX_LISTED_LINES]
            if cause := first.cause:
                counts[kind]["first"] = cause
        return counts


class RunRecords(NamedTuple):
    """The records of a run that count, in the file's order, and what is wrong in its files."""

    episodes: list[Episode]
    edited: frozenset[Case]
    """Those of them whose line is not what its own values give, checksums included."""
    problems: Problems


def read_run(folder: Path) -> RunRecords:
    """What counts in a run folder, and what does not. Without a manifest there is no plan to
    compare with: then every dialogue that has ended counts, the very same one once.

    RunError for a folder, a manifest or a line that cannot be read.
    """
    has_manifest = path_inside(folder, MANIFEST).exists()
    manifest = Manifest.read(folder) if has_manifest else None
    planned = manifest.planned if manifest else None
    episodes: list[Episode] = []
    edited: set[Case] = set()
    findings: list[Finding] = []
    total, last_place = 0, (-1, -1, -1)
    for number, line, episode, problem in match_lines(folder, planned):
        if episode is None:
            raise RunError(f"{folder / EPISODES}, line {number}: {problem and problem.what}")
        total += 1
        if is_edited := episode.to_json() != line:
            findings.append(Finding("edited", number))
        if problem := problem or _check_record(number, episode, manifest):
            findings.append(problem)
            continue
        episodes.append(episode)
        if is_edited:
            edited.add(episode.key)
        if planned:
            place = planned.place(episode.key)
            findings += [Finding("reordered", number)] if place < last_place else []
            last_place = max(place, last_place)
    if planned and (missing := planned.count - len(episodes)):
        there = {episode.key for episode in episodes}
        first = next(str(case) for case in planned if case not in there)
        findings.append(Finding("missing", 0, first, num_episodes=missing))
    findings += _check_manifest(manifest)
    problems = Problems(folder, total, planned.count if planned else 0, tuple(findings))
    return RunRecords(episodes, frozenset(edited), problems)


def _check_manifest(manifest: Manifest | None) -> list[Finding]:
    if manifest is None:
        return [Finding("unplanned_run", 0)]
    card = manifest.env_card
    return [
        Finding("card", 0, what=f"it calls itself {card.id}, and {name} of rlver-gym is another")
        for name in shipped_env_ids()
        if look_alike(card.id, name) and card.hash != env_card(name).hash
    ]


class Line(NamedTuple):
    """A line of a run's episodes, beside the plan."""

    number: int
    text: str
    episode: Episode | None
    """None for a line that is no record."""
    problem: Finding | None
    """Why the plan has no dialogue here."""


def match_lines(folder: Path, planned: Planned | None) -> Iterator[Line]:
    seen: set[Case | Episode] = set()
    for number, line in read_episode_lines(folder):
        try:
            episode = Episode.from_json(line)
        except RunError as error:
            yield Line(number, line, None, Finding("unreadable", number, "?", str(error)))
            continue
        case, problem = episode.key, None
        name, identity = str(case), case if planned else episode
        if planned and case not in planned:
            problem = Finding("unplanned", number, name, "the plan has no such episode")
        elif identity in seen:
            problem = Finding("doubled", number, name, "it stands twice")
        seen.add(identity)
        yield Line(number, line, episode, problem)


def _check_record(number: int, episode: Episode, manifest: Manifest | None) -> Finding | None:
    """Why a dialogue of the plan does not count, under the run's card or the shipped one."""
    name = str(episode.key)
    if manifest and (why := _explain_foreign(episode, manifest)):
        return Finding("foreign", number, name, why)
    card = manifest.env_card if manifest else None
    if not manifest and episode.env in shipped_env_ids():
        shipped = env_card(episode.env)
        card = shipped if shipped.hash == episode.env_hash else None
    why = episode.explain_unfinished(card)
    return Finding("unfinished", number, name, why) if why else None


def _explain_foreign(episode: Episode, manifest: Manifest) -> str:
    """What an episode of the plan says of its making, and the run does not; empty: nothing."""
    right: dict[str, object] = {
        "env": manifest.env_card.id,
        "env_hash": manifest.env_hash,
        "start": manifest.env_card.start,
        "persona_hash": manifest.personas[episode.persona],
        "user": manifest.user.kind,
        "user_version": manifest.user.version,
    }
    for name, value in right.items():
        if (recorded := getattr(episode, name)) != value:
            return f"{name} is {recorded!r}, that of the run is {value!r}"
    return ""
